//! Disks that outlive their machines.

use sutler_provider::{CloneRequest, DiskInfo, DiskKey, KeptDisk, ReconfigureRequest, UniqueBy};

use super::*;
use crate::{Call, Fault, Feature, KeptTruth, Leaves, Planned, Tamper};

fn key() -> DiskKey {
    "disk-1".into()
}

fn kept(name: &str, size_gib: u64) -> Disk {
    Disk { name: name.to_owned(), size_gib, kept: Some(key()), ..Disk::default() }
}

/// A request for a machine with the kept disk.
fn with_kept(name: &str, size_gib: u64) -> CreateRequest {
    CreateRequest { disks: vec![kept("store", size_gib)], ..request(name) }
}

async fn make_kept(sim: &Sim, name: &str, size_gib: u64) -> MachineId {
    sim.create(with_kept(name, size_gib)).await.unwrap().id.unwrap()
}

/// The one kept disk that there is.
fn only(sim: &Sim) -> KeptTruth {
    let mut all = sim.kept();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn store(sim: &Sim, id: &MachineId) -> Option<DiskInfo> {
    shown(sim, id).await.disks.unwrap().into_iter().find(|disk| disk.name == "store")
}

fn to(id: &MachineId, desired: CreateRequest, remove: &[&str]) -> ReconfigureRequest {
    ReconfigureRequest {
        id: id.clone(),
        proof: proof(&desired.name),
        desired,
        remove_disks: remove.iter().map(|name| (*name).to_owned()).collect(),
        remove_nics: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_disk_goes_from_machine_to_machine() {
    let sim = quick();
    let web = make_kept(&sim, "web", 5).await;
    let made = only(&sim);
    assert_eq!((made.size_gib, made.machine.as_ref()), (5, Some(&web)));
    let disk = store(&sim, &web).await.unwrap();
    let path = format!("/sim/kept/{}.qcow2", made.number);
    assert_eq!((disk.path.as_deref(), &disk.kept), (Some(path.as_str()), &Some(key())));
    delete(&sim, &web, "web").await.unwrap();
    assert_eq!(only(&sim), KeptTruth { machine: None, ..made.clone() });
    // The larger of what is there and what is asked for.
    let db = make_kept(&sim, "db", 9).await;
    assert_eq!(only(&sim), KeptTruth { machine: Some(db.clone()), size_gib: 9, ..made.clone() });
    assert_eq!(store(&sim, &db).await.unwrap().id, disk.id);
    delete(&sim, &db, "db").await.unwrap();
    let small = make_kept(&sim, "small", 1).await;
    assert_eq!(store(&sim, &small).await.unwrap().size_gib, 9);
    let listed = KeptDisk { key: key(), size_gib: 9, machine: Some(small), id: disk.id };
    assert_eq!(sim.kept_disks().await.unwrap(), [listed]);
}

#[tokio::test(start_paused = true)]
async fn a_kept_disk_has_one_machine_and_what_is_refused_makes_nothing() {
    let sim = sim(Settings { unique_by: UniqueBy::None, ..Settings::default() });
    let web = make_kept(&sim, "web", 5).await;
    let before = sim.0.lock().state.clone();
    let error = sim.create(with_kept("db", 5)).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Conflict, Some("disks[0].kept")));
    // Where nothing is unique, the same request again is another machine's.
    assert_eq!(kind(sim.create(with_kept("web", 5)).await), ErrorKind::Conflict);
    let mut twice = with_kept("two", 5);
    twice.disks.push(kept("again", 5));
    let error = sim.create(twice).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("disks[1].kept")));
    let mut nameless = with_kept("two", 5);
    nameless.disks[0].kept = Some("".into());
    assert_eq!(kind(sim.create(nameless).await), ErrorKind::Invalid);
    assert_eq!(kind(sim.kept_disk_remove(&key()).await), ErrorKind::Conflict);
    let mut machine = Machine::new("vm-900", "seeded", Power::On);
    machine.disks = Some(vec![store(&sim, &web).await.unwrap()]);
    assert_eq!(kind(sim.seed([machine.clone()])), ErrorKind::Conflict);
    assert_eq!(sim.0.lock().state.clone(), before);
    delete(&sim, &web, "web").await.unwrap();
    sim.seed([machine]).unwrap();
    assert_eq!(only(&sim).machine, Some("vm-900".into()));
    sim.reset().unwrap();
    assert!(sim.kept().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_twice_or_late_takes_no_disk_from_another() {
    let sim = sim(slow_settings());
    let again = Fault::Duplicate { after: Duration::from_secs(100) };
    sim.plan(Planned::on(Call::Create, again));
    let web = make_kept(&sim, "web", 5).await;
    let number = only(&sim).number;
    assert_eq!(sim.create(with_kept("web", 5)).await.unwrap().id, Some(web.clone()));
    pass(40.0).await;
    delete(&sim, &web, "web").await.unwrap();
    pass(11.0).await;
    let late = Fault::Late { by: Duration::from_secs(60), hang: false };
    sim.plan(Planned::on(Call::Create, late).about("late"));
    assert_eq!(kind(sim.create(with_kept("late", 5)).await), ErrorKind::Indeterminate);
    let db = make_kept(&sim, "db", 5).await;
    pass(200.0).await;
    assert_eq!(sim.len(), 1, "{:?}", sim.machines());
    assert_eq!((only(&sim).number, only(&sim).machine), (number, Some(db)));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_lost_or_never_made_leaves_its_kept_disk() {
    let sim = sim(slow_settings());
    sim.plan(Planned::on(Call::Create, Fault::TaskFails(Leaves::Nothing)));
    let task = sim.create(with_kept("web", 5)).await.unwrap().task.unwrap();
    let made = only(&sim);
    assert!(matches!(ended(&sim, &task).await, TaskState::Failed(_)));
    assert_eq!(only(&sim), KeptTruth { machine: None, ..made.clone() });
    let id = make_kept(&sim, "web", 5).await;
    assert_eq!(only(&sim).number, made.number);
    pass(40.0).await;
    sim.tamper(&id, Tamper::Delete).unwrap();
    assert_eq!(only(&sim), KeptTruth { machine: None, ..made });
}

#[tokio::test(start_paused = true)]
async fn kept_disks_come_and_go_with_a_reconfiguration() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let mut desired = request("web");
    desired.disks.push(kept("store", 5));
    sim.reconfigure(to(&id, desired.clone(), &[])).await.unwrap();
    let made = only(&sim);
    assert_eq!(made.machine.as_ref(), Some(&id));
    // Growing grows the disk itself; less than it has changes nothing.
    for (wanted, size) in [(8, 8), (3, 8)] {
        desired.disks[1].size_gib = wanted;
        sim.reconfigure(to(&id, desired.clone(), &[])).await.unwrap();
        assert_eq!(store(&sim, &id).await.unwrap().size_gib, size);
        assert_eq!(only(&sim).size_gib, size);
    }
    // Another name for the same disk, and another disk of the same name.
    let mut wrong = desired.clone();
    wrong.disks[1].name = "other".to_owned();
    let error = sim.reconfigure(to(&id, wrong, &[])).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Conflict, Some("disks[1].kept")));
    let mut wrong = desired.clone();
    wrong.disks[1].kept = Some("disk-2".into());
    assert_eq!(kind(sim.reconfigure(to(&id, wrong, &[])).await), ErrorKind::Conflict);
    let other = make(&sim, "db").await;
    let mut stolen = request("db");
    stolen.disks.push(kept("store", 5));
    assert_eq!(kind(sim.reconfigure(to(&other, stolen.clone(), &[])).await), ErrorKind::Conflict);
    sim.reconfigure(to(&id, request("web"), &["store"])).await.unwrap();
    assert_eq!(only(&sim), KeptTruth { machine: None, size_gib: 8, ..made.clone() });
    sim.reconfigure(to(&other, stolen, &[])).await.unwrap();
    assert_eq!(only(&sim), KeptTruth { machine: Some(other), size_gib: 8, ..made });
}

#[tokio::test(start_paused = true)]
async fn a_reconfiguration_that_takes_time_makes_its_disk_when_it_ends() {
    let sim = sim(slow_settings());
    let (id, other) = (make(&sim, "web").await, make(&sim, "db").await);
    pass(40.0).await;
    let mut desired = request("web");
    desired.disks.push(kept("store", 5));
    sim.plan(Planned::on(Call::Reconfigure, Fault::TaskFails(Leaves::Nothing)));
    let task = sim.reconfigure(to(&id, desired.clone(), &[])).await.unwrap().task.unwrap();
    assert!(matches!(ended(&sim, &task).await, TaskState::Failed(_)));
    assert!(sim.kept().is_empty());
    let first = sim.reconfigure(to(&id, desired, &[])).await.unwrap().task.unwrap();
    let mut rival = request("db");
    rival.disks.push(kept("store", 5));
    let second = sim.reconfigure(to(&other, rival, &[])).await.unwrap().task.unwrap();
    assert_eq!(ended(&sim, &first).await, TaskState::Done { id: None });
    let TaskState::Failed(error) = ended(&sim, &second).await else {
        panic!("it has two machines")
    };
    assert_eq!((error.kind(), only(&sim).machine), (ErrorKind::Conflict, Some(id)));
    assert_eq!(shown(&sim, &other).await.disks.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn copies_have_disks_of_their_own_and_snapshots_leave_kept_ones_alone() {
    let sim = quick();
    let id = make_kept(&sim, "web", 5).await;
    let made = only(&sim);
    let take = sutler_provider::SnapshotRequest {
        id: id.clone(),
        proof: proof("web"),
        name: "s".to_owned(),
        description: None,
        memory: false,
        quiesce: false,
    };
    let snapshot = sim.snapshot_create(take).await.unwrap().id;
    let clone = |name: &str, disks: Vec<Disk>| CloneRequest {
        source: id.clone(),
        snapshot: None,
        target: CreateRequest { class: None, disks, ..request(name) },
        linked: true,
        customize: serde_json::Map::new(),
    };
    let copy = sim.clone_machine(clone("copy", Vec::new())).await.unwrap().id.unwrap();
    let disk = store(&sim, &copy).await.unwrap();
    assert_eq!((disk.kept, disk.size_gib, disk.backing_file), (None, 5, None));
    assert_eq!(only(&sim), made);
    let thief = sim.clone_machine(clone("thief", vec![kept("store", 5)])).await;
    assert_eq!(kind(thief), ErrorKind::Conflict);
    // The disk is elsewhere by the time that its machine goes back.
    sim.reconfigure(to(&id, request("web"), &["store"])).await.unwrap();
    let taker = sim.clone_machine(clone("taker", vec![kept("store", 5)])).await.unwrap().id;
    assert_eq!(only(&sim), KeptTruth { machine: taker.clone(), ..made.clone() });
    sim.snapshot_revert(&id, &proof("web"), snapshot.as_ref().unwrap()).await.unwrap();
    assert_eq!(store(&sim, &id).await, None);
    assert_eq!(only(&sim).machine, taker);
    // One that came after the snapshot stays.
    let other = Disk { kept: Some("disk-2".into()), ..kept("store", 7) };
    let with_other = CreateRequest { disks: vec![other], ..request("web") };
    sim.reconfigure(to(&id, with_other, &[])).await.unwrap();
    sim.snapshot_revert(&id, &proof("web"), snapshot.as_ref().unwrap()).await.unwrap();
    assert_eq!(store(&sim, &id).await.unwrap().kept, Some("disk-2".into()));
}

#[tokio::test(start_paused = true)]
async fn removal_is_a_task_that_can_fail_and_is_done_once() {
    let sim = sim(slow_settings());
    assert_eq!(sim.kept_disk_remove(&key()).await.unwrap().task, None);
    let id = make_kept(&sim, "web", 5).await;
    assert_eq!(kind(sim.kept_disk_remove(&key()).await), ErrorKind::Conflict);
    pass(40.0).await;
    delete(&sim, &id, "web").await.unwrap();
    // Its machine has it until that is gone.
    assert_eq!(kind(sim.kept_disk_remove(&key()).await), ErrorKind::Conflict);
    pass(11.0).await;
    sim.plan(Planned::on(Call::KeptDiskRemove, Fault::TaskFails(Leaves::Nothing)).about("disk-1"));
    let task = sim.kept_disk_remove(&key()).await.unwrap().task.unwrap();
    assert!(matches!(ended(&sim, &task).await, TaskState::Failed(_)));
    let number = only(&sim).number;
    sim.plan(Planned::on(Call::KeptDiskRemove, Fault::ErrorAfter));
    assert_eq!(kind(sim.kept_disk_remove(&key()).await), ErrorKind::Indeterminate);
    let task = sim.kept_disk_remove(&key()).await.unwrap().task.unwrap();
    assert_eq!(kind(sim.create(with_kept("db", 5)).await), ErrorKind::Conflict);
    assert_eq!(ended(&sim, &task).await, TaskState::Done { id: None });
    assert_eq!(sim.kept_disks().await.unwrap(), []);
    sim.plan(Planned::on(Call::KeptDisks, Fault::Refuse(ErrorKind::Unavailable)));
    assert_eq!(kind(sim.kept_disks().await), ErrorKind::Unavailable);
    make_kept(&sim, "db", 5).await;
    assert_ne!(only(&sim).number, number, "it is another disk");
    assert_eq!(sim.calls_of(Call::KeptDiskRemove), 6);
}

#[tokio::test(start_paused = true)]
async fn without_the_feature_nothing_is_kept() {
    let without = [Feature::KeptDisks].into();
    let sim = sim(Settings { without, ..Settings::default() });
    assert!(!sim.capabilities().await.unwrap().kept_disks);
    let error = sim.create(with_kept("web", 5)).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Unsupported, Some("disks[0].kept")));
    let id = make(&sim, "web").await;
    let change = to(&id, with_kept("web", 5), &[]);
    assert_eq!(kind(sim.reconfigure(change).await), ErrorKind::Unsupported);
    assert_eq!(kind(sim.kept_disks().await), ErrorKind::Unsupported);
    assert_eq!(kind(sim.kept_disk_remove(&key()).await), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn kept_disks_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let open = || Sim::open(dir.path(), slow_settings(), clock.clone()).unwrap();
    let sim = open();
    let web = make_kept(&sim, "web", 5).await;
    pass(40.0).await;
    let before = sim.0.lock().state.clone();
    sim.0.lock().rewrite();
    drop(sim);
    let sim = open();
    assert_eq!(sim.0.lock().state.clone(), before);
    assert_eq!(only(&sim).machine, Some(web.clone()));
    delete(&sim, &web, "web").await.unwrap();
    pass(11.0).await;
    let task = sim.kept_disk_remove(&key()).await.unwrap().task.unwrap();
    pass(3.0).await;
    drop(sim);
    let sim = open();
    assert_eq!(only(&sim).machine, None);
    assert_eq!(ended(&sim, &task).await, TaskState::Done { id: None });
    assert!(sim.kept().is_empty());
}
