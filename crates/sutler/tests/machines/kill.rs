//! The server is killed at random moments while machines are made, changed and deleted. Afterwards
//! the machines on the platform are those of the records, one each.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    ops::{Deref, DerefMut},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use sutler_provider::SystemClock;
use sutler_sim::{Settings, Sim};

use crate::lab::{INFRA, api, connect, is_ready, machine};

const MACHINES: usize = 60;
/// A record that takes longer to settle hangs.
pub(crate) const LONG: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_and_records_agree_after_kills() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let rounds = number("SUTLER_KILL_ROUNDS").unwrap_or(15);
    let seed = number("SUTLER_KILL_SEED").unwrap_or_else(rand::random);
    println!("SUTLER_KILL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path()).await;
    let (mut done, mut lives) = (0, [0; MACHINES]);
    for _ in 0..rounds {
        if random.random_ratio(1, 4) {
            let mut child = spawn(folder.path());
            tokio::time::sleep(Duration::from_millis(random.random_range(0..800))).await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (mut child, client) = start(folder.path()).await;
        let life = Duration::from_millis(random.random_range(50..2500));
        done += act(&machines(&client), &mut lives, &mut random, life).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (mut child, client) = start(folder.path()).await;
    let machines = machines(&client);
    let records = settle(&machines).await;
    println!("{rounds} kills, {done} changes, {} records at the end", records.len());
    terminate(&mut child);
    compare(folder.path(), &records);
    assert!(done > rounds && records.len() > MACHINES / 4, "users got something done");
    let log = std::fs::read_to_string(folder.path().join("test.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

/// A platform whose windows are short, so that what is not known is known soon.
fn options() -> Value {
    let short = |time: &str| {
        json!({"look": time, "list": time, "make": time, "change": time,
        "transfer": time})
    };
    json!({
        "deadlines": short("3s"),
        "latency": {"create": "60ms", "delete": "40ms", "power": "30ms", "reconfigure": "30ms",
            "list": "20ms"},
        "work": {"create": "150ms", "start": "50ms", "boot": "150ms", "delete": "100ms",
            "stop": "50ms", "shutdown": "100ms", "reconfigure": "80ms"},
        "jitter": 50,
    })
}

fn machines(client: &Client) -> Api<DynamicObject> {
    api(client, INFRA, "VirtualMachine", "default")
}

async fn furnish(data: &Path) {
    let (mut child, client) = start(data).await;
    let provider = json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "crash"},
        "spec": {"type": "sim", "endpoint": "sim://crash", "options": options(),
            "rateLimit": {"qps": 1000, "burst": 1000}}});
    let provider: DynamicObject = serde_json::from_value(provider).unwrap();
    let providers = api(&client, INFRA, "Provider", "default");
    providers.create(&PostParams::default(), &provider).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Users do what they like for a while; how much of it was acknowledged is returned. Somebody whose
/// machine is on its way out makes another one under a new name.
async fn act(
    machines: &Api<DynamicObject>,
    lives: &mut [u32; MACHINES],
    random: &mut StdRng,
    life: Duration,
) -> u64 {
    let end = Instant::now() + life;
    let mut done = 0;
    while Instant::now() < end {
        let slot = random.random_range(0..MACHINES);
        let name = format!("vm-{slot}-{}", lives[slot]);
        // People think before they act.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
        let change = match random.random_range(0..10) {
            0..6 => {
                let spec = json!({"providerRef": {"name": "crash"}});
                let object = serde_json::from_value(machine(&name, spec)).unwrap();
                done += u64::from(machines.create(&PostParams::default(), &object).await.is_ok());
                continue;
            }
            6 => {
                let asked = machines.delete(&name, &DeleteParams::default()).await.is_ok();
                done += u64::from(asked);
                lives[slot] += u32::from(asked);
                continue;
            }
            7 => json!({"spec": {"resources": {"cpu": random.random_range(1..9)}}}),
            8 => json!({"spec": {"powerState": (["On", "Off"][random.random_range(0..2)])}}),
            _ => json!({"spec": {"disks": [{"name": "data",
                "sizeGiB": random.random_range(1..50)}]}}),
        };
        let patch = Patch::Merge(change);
        done += u64::from(machines.patch(&name, &PatchParams::default(), &patch).await.is_ok());
    }
    done
}

/// Waits until every record is ready or gone, and returns those that are left, by UID.
pub(crate) async fn settle(machines: &Api<DynamicObject>) -> BTreeMap<String, Value> {
    settle_when(machines, is_ready).await
}

/// The same until every record is said to be settled, all of them at the same time: one that was may find a
/// machine too many while others are waited for.
pub(crate) async fn settle_when(
    machines: &Api<DynamicObject>,
    settled: impl Fn(&Value) -> bool,
) -> BTreeMap<String, Value> {
    let end = Instant::now() + LONG;
    let is_settled = |object: &DynamicObject| {
        let vm = serde_json::to_value(object).unwrap();
        vm["metadata"]["deletionTimestamp"].is_null() && settled(&vm)
    };
    loop {
        let listed = machines.list(&ListParams::default()).await.unwrap().items;
        let open: Vec<&DynamicObject> = listed.iter().filter(|vm| !is_settled(vm)).collect();
        if open.is_empty() {
            let all = listed.into_iter();
            return all.map(|vm| (vm.uid().unwrap(), serde_json::to_value(vm).unwrap())).collect();
        }
        let settled = open.iter().map(|vm| async {
            let name = vm.name_any();
            let condition = |object: Option<&DynamicObject>| object.is_none_or(&is_settled);
            let waiting = await_condition(machines.clone(), &name, condition);
            if tokio::time::timeout_at(end.into(), waiting).await.is_err() {
                panic!("{name} never settles: {:#?}", machines.get_opt(&name).await);
            }
        });
        futures::future::join_all(settled).await;
    }
}

/// Machines on the platform = records.
fn compare(data: &Path, records: &BTreeMap<String, Value>) {
    let options = options();
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    let sim = Sim::open(&data.join("sim/crash"), settings, Arc::new(SystemClock)).unwrap();
    let mut found = BTreeMap::new();
    for truth in sim.machines() {
        let token = truth.machine.token.clone().expect("only our own machines are there");
        assert!(!truth.broken && !truth.hidden, "{truth:?}");
        let record = records.get(&token.uid);
        let record = record.unwrap_or_else(|| panic!("{truth:?} has no record"));
        assert_eq!(record["status"]["id"], truth.machine.id.0, "{record:#}");
        let other = found.insert(token.uid.clone(), truth);
        assert!(other.is_none(), "{other:?} is there twice");
    }
    assert_eq!(found.len(), records.len(), "every record has its machine");
}

/// A server that a test which fails takes with it.
pub(crate) struct Served(Child);

impl Deref for Served {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Served {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Who was waited for already is left alone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(data: &Path) -> Served {
    std::fs::create_dir_all(data).unwrap();
    let log = std::fs::File::options().create(true).append(true).open(data.join("test.log"));
    let child = Command::new(env!("CARGO_BIN_EXE_sutler"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"])
        // What is not known is known soon here.
        .args(["--breaker-pause", "1s", "--data-dir"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.unwrap())
        .spawn();
    Served(child.unwrap())
}

pub(crate) async fn start(data: &Path) -> (Served, Client) {
    let mut child = spawn(data);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let log = || std::fs::read_to_string(data.join("test.log")).unwrap_or_default();
    assert!(line.starts_with("Sutler serves"), "it does not start: {line}{}", log());
    child.stdout = Some(stdout.into_inner());
    (child, connect(&data.join("admin.kubeconfig")).await)
}

pub(crate) fn terminate(child: &mut Child) {
    let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(asked.unwrap().success());
    assert!(child.wait().unwrap().success());
}
