//! State in a folder.

use std::{fs, path::Path};

use proptest::prelude::*;
use sutler_provider::{ReconfigureRequest, SnapshotRequest};

use super::*;
use crate::{Call, Fault, Ids, Planned, Tamper, disk::Disk, state::State};

fn open(dir: &Path, settings: Settings) -> Sim {
    Sim::open(dir, settings, clock()).unwrap()
}

fn state(sim: &Sim) -> State {
    sim.0.lock().state.clone()
}

#[tokio::test(start_paused = true)]
async fn machines_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let sim = open(dir.path(), Settings::default());
    let id = make(&sim, "web").await;
    make(&sim, "db").await;
    delete(&sim, &id, "web").await.unwrap();
    let before = state(&sim);
    drop(sim);
    let sim = open(dir.path(), Settings::default());
    assert_eq!(state(&sim), before);
    assert_eq!(listed(&sim).await, ["db"]);
    assert_eq!(make(&sim, "web").await.0, "vm-102", "IDs stay spent");
}

#[tokio::test(start_paused = true)]
async fn one_process_has_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), Settings::default());
    let second = Sim::open(dir.path(), Settings::default(), clock());
    assert_eq!(second.err().unwrap().kind(), ErrorKind::Conflict);
    drop(first);
    open(dir.path(), Settings { sync: true, ..Settings::default() });
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let open = || Sim::open(dir.path(), slow_settings(), clock.clone()).unwrap();
    let sim = open();
    let accepted = sim.create(request("web")).await.unwrap();
    let (id, task) = (accepted.id.unwrap(), accepted.task.unwrap());
    pass(4.0).await;
    drop(sim);
    pass(6.0).await;
    // Ten of twenty seconds have passed, six of them without a process.
    let sim = open();
    let begun = Instant::now();
    match sim.task(&task).await.unwrap() {
        TaskState::Running { percent, .. } => assert_eq!(percent, Some(55)),
        other => panic!("{other:?}"),
    }
    assert_eq!(ended(&sim, &task).await, TaskState::Done { id: Some(id.0.clone()) });
    assert!((9..12).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    drop(sim);
    pass(3600.0).await;
    let sim = open();
    pass(0.1).await;
    assert_eq!(sim.machines()[0].machine.ips.len(), 1, "the boot has long ended");
    assert_eq!(sim.pending(), 0);
}

#[test]
fn a_folder_can_be_opened_outside_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let sim = open(dir.path(), slow_settings());
    runtime().block_on(async { make(&sim, "web").await });
    drop(sim);
    let sim = open(dir.path(), slow_settings());
    runtime().block_on(async {
        sim.validate().await.unwrap();
        pass(60.0).await;
    });
    assert_eq!((sim.pending(), sim.machines()[0].machine.power), (0, Power::On));
}

#[tokio::test(start_paused = true)]
async fn a_torn_line_is_dropped_and_damage_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let sim = open(dir.path(), Settings::default());
    make(&sim, "web").await;
    let one = state(&sim);
    make(&sim, "db").await;
    drop(sim);
    let path = dir.path().join("state.0");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let sim = open(dir.path(), Settings::default());
    assert_eq!(state(&sim), one);
    make(&sim, "db").await;
    let two = state(&sim);
    drop(sim);
    assert_eq!(state(&open(dir.path(), Settings::default())), two);

    let mut damaged = bytes.clone();
    damaged[10] = b'#';
    fs::write(&path, damaged).unwrap();
    let error = Sim::open(dir.path(), Settings::default(), clock()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_the_same_however_many_machines_there_are() {
    let cost = async |machines: usize| {
        let dir = tempfile::tempdir().unwrap();
        let sim = open(dir.path(), Settings::default());
        let id = make(&sim, "web").await;
        let others =
            (0..machines).map(|n| Machine::new(format!("m{n}"), format!("m{n}"), Power::On));
        sim.seed(others).unwrap();
        let size = || fs::metadata(dir.path().join("state.0")).unwrap().len();
        let before = size();
        power(&sim, &id, "web", PowerOp::Off).await.unwrap();
        size() - before
    };
    let (few, many) = (cost(1).await, cost(500).await);
    assert!(few > 100 && many == few, "{few} {many}");
}

/// One of the things that can be asked of a platform.
#[derive(Debug, Clone)]
enum Ask {
    Create(u8),
    Delete(u8),
    Power(u8, PowerOp),
    Grow(u8, u64),
    Snapshot(u8),
    Tamper(u8, u32),
    Prepare(u8),
    Fail(u8),
    Pass(u8),
}

fn ask() -> impl Strategy<Value = Ask> {
    let op = prop::sample::select(vec![PowerOp::On, PowerOp::Off, PowerOp::Reboot, PowerOp::Pause]);
    prop_oneof![
        4 => (0..6u8).prop_map(Ask::Create),
        2 => (0..6u8).prop_map(Ask::Delete),
        2 => (0..6u8, op).prop_map(|(who, op)| Ask::Power(who, op)),
        1 => (0..6u8, 5..9u64).prop_map(|(who, size)| Ask::Grow(who, size)),
        1 => (0..6u8).prop_map(Ask::Snapshot),
        1 => (0..6u8, 1..9u32).prop_map(|(who, cpu)| Ask::Tamper(who, cpu)),
        1 => (0..3u8).prop_map(Ask::Prepare),
        1 => (0..6u8).prop_map(Ask::Fail),
        3 => (1..30u8).prop_map(Ask::Pass),
    ]
}

async fn carry_out(sim: &Sim, ask: &Ask) {
    let who = |n: &u8| {
        let name = format!("m{n}");
        let found = sim.machines().into_iter().find(|truth| truth.machine.name == name);
        (found.map_or_else(|| "vm-1".into(), |truth| truth.machine.id), name)
    };
    match ask {
        Ask::Create(n) => drop(sim.create(request(&format!("m{n}"))).await),
        Ask::Delete(n) => {
            let (id, name) = who(n);
            drop(delete(sim, &id, &name).await);
        }
        Ask::Power(n, op) => {
            let (id, name) = who(n);
            drop(power(sim, &id, &name, *op).await);
        }
        Ask::Grow(n, size) => {
            let (id, name) = who(n);
            let mut desired = request(&name);
            desired.disks[0].size_gib = *size;
            let (remove_disks, remove_nics) = (Vec::new(), Vec::new());
            let proof = proof(&name);
            let change = ReconfigureRequest { id, proof, desired, remove_disks, remove_nics };
            drop(sim.reconfigure(change).await);
        }
        Ask::Snapshot(n) => {
            let (id, name) = who(n);
            let request = SnapshotRequest {
                id,
                proof: proof(&name),
                name: "s".to_owned(),
                description: None,
                memory: true,
                quiesce: false,
            };
            drop(sim.snapshot_create(request).await);
        }
        Ask::Tamper(n, cpu) => drop(sim.tamper(&who(n).0, Tamper::Cpu(*cpu))),
        Ask::Prepare(n) => {
            let target = format!("i{n}");
            let request = sutler_provider::PrepareRequest { target, ..Default::default() };
            drop(sim.image_prepare(request).await);
        }
        Ask::Fail(n) => {
            sim.plan(Planned::on(Call::Create, Fault::TaskFails(crate::Leaves::Broken)));
            drop(sim.create(request(&format!("m{n}"))).await);
        }
        Ask::Pass(seconds) => pass(f64::from(*seconds)).await,
    }
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Wherever the process is killed, what is read back is what was after the last whole line.
    #[test]
    fn every_prefix_of_the_log_is_a_state_that_was(
        asks in prop::collection::vec(ask(), 1..25),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 8),
        reused in any::<bool>(),
    ) {
        paused().block_on(async {
            let ids = if reused { Ids::Reused } else { Ids::Increasing };
            let settings = Settings { ids, ..slow_settings() };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("state.0");
            let sim = open(dir.path(), settings.clone());
            let mut were = vec![(0, state(&sim))];
            for ask in &asks {
                carry_out(&sim, ask).await;
                were.push((fs::metadata(&path).unwrap().len(), state(&sim)));
            }
            let bytes = fs::read(&path).unwrap();
            drop(sim);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            ends.push(bytes.len());
            for end in ends {
                let copy = tempfile::tempdir().unwrap();
                fs::write(copy.path().join("state.0"), &bytes[..end]).unwrap();
                let (_, read) = Disk::open(copy.path(), &settings).unwrap();
                // A line may lie between two looks at the state; then the next look is not reached.
                let whole = bytes[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1);
                for (length, was) in &were {
                    if *length == whole as u64 {
                        prop_assert_eq!(&read, was);
                    }
                }
                // Reading what was read changes nothing.
                drop(Disk::open(copy.path(), &settings).map(|(_, again)| assert_eq!(again, read)));
            }
            Ok(())
        })?;
    }

    /// Writing the state anew changes nothing of it, and a kill at any moment of it is survived.
    #[test]
    fn rewriting_keeps_the_state(asks in prop::collection::vec(ask(), 1..25), reused in any::<bool>()) {
        paused().block_on(async {
            let ids = if reused { Ids::Reused } else { Ids::Increasing };
            let settings = Settings { ids, ..slow_settings() };
            let dir = tempfile::tempdir().unwrap();
            let (disk, read) = Disk::open_with(dir.path(), &settings, 0).unwrap();
            let sim = Sim::start(settings.clone(), clock(), read, Some(disk));
            for ask in &asks {
                carry_out(&sim, ask).await;
                let copy = tempfile::tempdir().unwrap();
                for entry in fs::read_dir(dir.path()).unwrap() {
                    let entry = entry.unwrap();
                    fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
                }
                // What a kill between the rename and the removal, or before the rename, leaves.
                fs::write(copy.path().join("draft"), b"[{\"half").unwrap();
                let (_, read) = Disk::open(copy.path(), &settings).unwrap();
                prop_assert_eq!(read, state(&sim));
            }
            let generations = fs::read_dir(dir.path()).unwrap().filter(|entry| {
                entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("state.")
            });
            prop_assert_eq!(generations.count(), 1);
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn ids_of_the_dead_are_found_again_in_a_state_that_was_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { ids: Ids::Reused, ..Settings::default() };
    let (disk, read) = Disk::open_with(dir.path(), &settings, 0).unwrap();
    let sim = Sim::start(settings.clone(), clock(), read, Some(disk));
    for name in ["a", "b", "c"] {
        make(&sim, name).await;
    }
    delete(&sim, &"vm-101".into(), "b").await.unwrap();
    sim.0.lock().rewrite();
    drop(sim);
    let sim = open(dir.path(), settings);
    assert_eq!(make(&sim, "d").await.0, "vm-101");
    assert_eq!(make(&sim, "e").await.0, "vm-103");
}

#[tokio::test(start_paused = true)]
async fn of_two_states_the_newer_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let sim = open(dir.path(), Settings::default());
    make(&sim, "old").await;
    drop(sim);
    fs::copy(dir.path().join("state.0"), dir.path().join("state.1")).unwrap();
    let sim = open(dir.path(), Settings::default());
    make(&sim, "new").await;
    drop(sim);
    assert!(!dir.path().join("state.0").exists());
    let sim = open(dir.path(), Settings::default());
    assert_eq!(listed(&sim).await, ["old", "new"]);
}

const FOLDER: &str = "SUTLER_SIM_TEST_FOLDER";

/// Makes machines until it is killed; each one is told once it was answered. Does nothing unless the
/// test below runs it in a process of its own.
#[tokio::test]
async fn endless_child() {
    let Some(dir) = std::env::var_os(FOLDER) else { return };
    let sim = open(Path::new(&dir), Settings::default());
    let first = sim.len();
    for index in first.. {
        let id = make(&sim, &format!("m{index}")).await;
        println!("\nmade {id}");
    }
}

#[test]
fn what_was_answered_survives_a_kill() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };
    let dir = tempfile::tempdir().unwrap();
    let mut made = 0;
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::folder::endless_child", "--nocapture"])
            .env(FOLDER, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let told = lines.filter(|line| line.starts_with("made ")).take(50 + round * 37).count();
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, state) = Disk::open(dir.path(), &Settings::default()).unwrap();
        assert!(told > 0 && state.machines.len() >= made + told, "{made} {told}");
        made = state.machines.len();
    }
}
