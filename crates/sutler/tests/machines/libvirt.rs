//! Real machines: `sutler serve` starts the provider for libvirt, and a guest of our own lives a whole
//! life on QEMU; and the server is killed while machines come and go. Runs where `hack/tests.sh` has set up
//! a libvirt and built the guest.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    kill,
    lab::{self, INFRA, Lab, api, is_ready, machine},
    server::Form,
};

pub(crate) const POOL: &str = "sutler-test";

/// The guest image, where there is a libvirt to use it.
pub(crate) fn image() -> Option<PathBuf> {
    let image = std::env::var_os("SUTLER_GUEST_IMAGE").map(PathBuf::from);
    if image.is_none() {
        println!("SKIPPED: there is no guest; hack/tests.sh makes one where it can");
    }
    image
}

/// What libvirt says while something else is done that it does not tell the end of: other tests make volumes
/// in the pool, and a guest that is busy does not answer. Nothing was done then.
const BUSY: [&str; 2] = ["has asynchronous jobs running", "Guest agent not available for now"];

/// Asks libvirt itself, by its own tool.
pub(crate) fn virsh(args: &[&str]) -> String {
    let end = Instant::now() + kill::LONG;
    loop {
        match try_virsh(args) {
            Ok(said) => return said,
            Err(error) if BUSY.iter().any(|busy| error.contains(busy)) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => panic!("virsh {args:?}: {error}"),
        }
    }
}

/// What libvirt says, or what is wrong.
fn try_virsh(args: &[&str]) -> Result<String, String> {
    let output = Command::new("virsh").args(["-q", "-c", "qemu:///system"]).args(args).output();
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Waits until the agent in a guest answers: after it went back it has to be found again.
async fn until_heard(id: &str) {
    let end = Instant::now() + kill::LONG;
    while let Err(error) = try_virsh(&["qemu-agent-command", id, r#"{"execute":"guest-ping"}"#]) {
        assert!(Instant::now() < end, "the guest is silent: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a shell's command in a guest prints.
fn in_guest(id: &str, command: &str) -> String {
    let ask = |what: &str, arguments: Value| -> Value {
        let ask = json!({"execute": what, "arguments": arguments}).to_string();
        let answer = virsh(&["qemu-agent-command", id, &ask]);
        serde_json::from_str::<Value>(&answer).unwrap()["return"].clone()
    };
    let words = ["-c", command];
    let begun = ask("guest-exec", json!({"path": "/bin/sh", "arg": words, "capture-output": true}));
    loop {
        let status = ask("guest-exec-status", begun.clone());
        if status["exited"] == true {
            let bytes = STANDARD.decode(status["out-data"].as_str().unwrap_or_default());
            return String::from_utf8(bytes.unwrap()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Volumes whose names hold a word.
pub(crate) fn volumes(word: &str) -> Vec<String> {
    virsh(&["pool-refresh", POOL]);
    let all = virsh(&["vol-list", POOL]);
    all.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
}

/// A Provider for libvirt, the class `small` and the image `debian`, which is the guest of our own.
pub(crate) async fn furnish(lab: &Lab, image: &Path) {
    for object in furniture(image, ["sim", "small", "debian"]) {
        lab.create(object).await;
    }
}

/// A Provider, a class and an image of these names.
fn furniture(image: &Path, [provider, class, guest]: [&str; 3]) -> [Value; 3] {
    [
        json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": provider},
            "spec": {"type": "libvirt", "endpoint": "qemu:///system",
                "rateLimit": {"qps": 1000, "burst": 1000},
                "options": {"pool": POOL, "accelerator": "tcg", "folders": [image.parent()]}}}),
        json!({"apiVersion": INFRA, "kind": "VMClass", "metadata": {"name": class},
            "spec": {"cpu": 1, "memory": "256Mi"}}),
        json!({"apiVersion": INFRA, "kind": "VMImage", "metadata": {"name": guest},
            "spec": {"source": {"libvirt": {"path": image, "format": "qcow2"}}}}),
    ]
}

/// What the guest is given: a file that only its first boot writes.
const USER_DATA: &str = "#cloud-config
write_files:
  - path: /etc/given
    content: by the record
";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_guest_lives_a_whole_life() {
    let Some(image) = image() else { return };
    lab::run(Form::Embedded, |lab| whole_life(lab, image)).await;
}

async fn whole_life(lab: Lab, image: PathBuf) {
    furnish(&lab, &image).await;
    // The hook is a command in the guest, and fails unless the first boot has done what it was given.
    let given = json!({"exec": {"command": ["grep", "-q", "by the record", "/etc/given"]}});
    let spec = json!({
        "userData": {"cloudInit": {"inline": USER_DATA}},
        "disks": [{"name": "data", "sizeGiB": 1, "expandPolicy": "Online"}],
        "lifecycle": {"postStart": given},
    });
    let vm = lab.ready("web", spec).await;
    let id = vm["status"]["id"].as_str().unwrap().to_owned();
    let address = vm["status"]["ips"][0].as_str().unwrap();
    assert!(address.starts_with("192.168.122."), "{vm:#}");
    assert_eq!(virsh(&["domstate", &id]).trim(), "running");

    in_guest(&id, "echo before >/etc/said && sync");
    let snapshot = json!({"apiVersion": INFRA, "kind": "VMSnapshot", "metadata": {"name": "before"},
        "spec": {"vmRef": {"name": "web"}, "snapshotConfig": {"includeMemory": true}}});
    lab.create(snapshot).await;
    lab.until_of(INFRA, "VMSnapshot", "before", "taken", is_ready).await.unwrap();
    assert!(virsh(&["snapshot-list", "--name", &id]).contains("before-"));
    in_guest(&id, "echo after >/etc/said && sync");
    lab.patch("web", json!({"spec": {"snapshot": {"revertToRef": {"name": "before"}}}})).await;
    let back = |vm: &Value| vm["status"]["revertedTo"] == "before" && is_ready(vm);
    lab.until("web", "back", back).await;
    until_heard(&id).await;
    assert_eq!(in_guest(&id, "cat /etc/said").trim(), "before");
    let snapshots = lab.api(INFRA, "VMSnapshot");
    snapshots.delete("before", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMSnapshot", "before", "gone", Value::is_null).await;

    // The guest sees at once that its disk is larger.
    let disks = |gib: u64| json!([{"name": "data", "sizeGiB": gib, "expandPolicy": "Online"}]);
    assert_eq!(in_guest(&id, "cat /sys/block/vdb/size").trim(), "2097152");
    lab.patch("web", json!({"spec": {"disks": disks(2)}})).await;
    lab.until("web", "grown", is_ready).await;
    assert_eq!(virsh(&["domstate", &id]).trim(), "running");
    assert_eq!(in_guest(&id, "cat /sys/block/vdb/size").trim(), "4194304");

    lab.patch("web", json!({"spec": {"powerState": "OffGraceful"}})).await;
    lab.until("web", "off", |vm| vm["status"]["phase"] == "Stopped" && is_ready(vm)).await;
    assert_eq!(virsh(&["domstate", &id]).trim(), "shut off");

    let changed = json!({"spec": {"disks": disks(3), "resources": {"cpu": 2}}});
    lab.patch("web", changed).await;
    lab.until("web", "changed", is_ready).await;
    assert!(virsh(&["vcpucount", "--config", "--maximum", &id]).contains('2'));
    let data = virsh(&["domblklist", &id]);
    let path = data
        .lines()
        .find_map(|line| line.split_whitespace().nth(1).filter(|path| path.contains("-data.")));
    assert!(virsh(&["vol-info", path.unwrap()]).contains("3.00 GiB"), "{data}");

    // An image that a machine's disk is built upon waits for it.
    lab.api(INFRA, "VMImage").delete("debian", &DeleteParams::default()).await.unwrap();
    lab.delete("web").await;
    lab.until_gone("web").await;
    lab.until_of(INFRA, "VMImage", "debian", "gone", Value::is_null).await;
    assert!(!virsh(&["list", "--all", "--uuid"]).contains(&id));
    assert_eq!(volumes(&id), Vec::<String>::new());
    assert_eq!(volumes(&lab.namespace), Vec::<String>::new());
}

const MACHINES: usize = 20;

/// The server is killed at random moments, and the provider's process with it, while machines are made,
/// changed and deleted on a real hypervisor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains_and_volumes_are_those_of_the_records_after_kills() {
    let Some(image) = image() else { return };
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let rounds = number("SUTLER_LIBVIRT_KILLS").unwrap_or(10);
    let seed = number("SUTLER_KILL_SEED").unwrap_or_else(rand::random);
    println!("SUTLER_KILL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let word = format!("k{:06x}", random.random_range(0..0x100_0000));
    let folder = tempfile::tempdir().unwrap();
    let mut server = kill::start(folder.path()).await;
    // The first start makes some of the usual names by itself.
    for object in furniture(&image, ["real", "tiny", "guest"]) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let object = serde_json::from_value(object).unwrap();
        let objects = api(&server.1, INFRA, &kind, "default");
        objects.create(&PostParams::default(), &object).await.unwrap();
    }
    let mut lives = [0; MACHINES];
    let mut done = 0;
    for _ in 0..rounds {
        let life = Duration::from_millis(random.random_range(500..6000));
        done += act(&server.1, &word, &mut lives, &mut random, life).await;
        server.0.kill().unwrap();
        server.0.wait().unwrap();
        server = kill::start(folder.path()).await;
    }
    let (mut child, client) = server;
    let machines: Api<DynamicObject> = api(&client, INFRA, "VirtualMachine", "default");
    let records = kill::settle_when(&machines, |vm| is_ready(vm) && !is_changing(vm)).await;
    println!("{rounds} kills, {done} changes, {} records at the end", records.len());
    compare(&word, &records);
    let log = std::fs::read_to_string(folder.path().join("test.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert!(done > rounds, "users got something done");
    for name in records.values().map(|vm| vm["metadata"]["name"].as_str().unwrap()) {
        machines.delete(name, &DeleteParams::default()).await.unwrap();
    }
    kill::settle(&machines).await;
    compare(&word, &BTreeMap::new());
    let images = api(&client, INFRA, "VMImage", "default");
    images.delete("guest", &DeleteParams::default()).await.unwrap();
    let gone = await_condition(images, "guest", |image: Option<&DynamicObject>| image.is_none());
    tokio::time::timeout(kill::LONG, gone).await.expect("the image goes").unwrap();
    kill::terminate(&mut child);
}

/// Users do what they like for a while; how much of it was acknowledged is returned.
async fn act(
    client: &Client,
    word: &str,
    lives: &mut [u32; MACHINES],
    random: &mut StdRng,
    life: Duration,
) -> u64 {
    let machines: Api<DynamicObject> = api(client, INFRA, "VirtualMachine", "default");
    let end = Instant::now() + life;
    let mut done = 0;
    while Instant::now() < end {
        let slot = random.random_range(0..MACHINES);
        let name = format!("{word}-{slot}-{}", lives[slot]);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..200))).await;
        let change = match random.random_range(0..10) {
            0..5 => {
                // A guest that boots takes a processor here: one in twenty is switched on.
                let power = if slot == 0 { "On" } else { "Off" };
                let spec = json!({"providerRef": {"name": "real"}, "classRef": {"name": "tiny"},
                    "imageRef": {"name": "guest"}, "powerState": power});
                let object = serde_json::from_value(machine(&name, spec)).unwrap();
                let made = machines.create(&PostParams::default(), &object).await;
                done += u64::from(made.is_ok());
                continue;
            }
            5 | 6 => {
                let asked = machines.delete(&name, &DeleteParams::default()).await.is_ok();
                done += u64::from(asked);
                lives[slot] += u32::from(asked);
                continue;
            }
            7 => json!({"spec": {"resources": {"cpu": random.random_range(1..3)}}}),
            _ => json!({"spec": {"disks": [{"name": "data",
                "sizeGiB": random.random_range(1..50)}]}}),
        };
        // A machine that runs would have to be switched off first.
        if slot != 0 {
            let patch = Patch::Merge(change);
            done += u64::from(machines.patch(&name, &PatchParams::default(), &patch).await.is_ok());
        }
    }
    done
}

/// Whether a change is under way, or is tried again later: a machine is ready meanwhile.
fn is_changing(vm: &Value) -> bool {
    let conditions = vm["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Reconfiguring")
}

fn domains() -> BTreeSet<String> {
    virsh(&["list", "--all", "--uuid"]).lines().map(|line| line.trim().to_owned()).collect()
}

/// Domains and volumes = records.
fn compare(word: &str, records: &BTreeMap<String, Value>) {
    let mut all = domains();
    let names = virsh(&["list", "--all", "--name"]);
    let ours = names.lines().filter(|name| name.contains(word)).count();
    assert_eq!(ours, records.len(), "{names}\nfor {:?}", records.keys());
    for (uid, record) in records {
        let id = record["status"]["id"].as_str().unwrap();
        assert!(all.contains(id), "{record:#} has no domain");
        let xml = virsh(&["dumpxml", id]);
        assert!(xml.contains(&format!("token=\"{uid}-")), "{uid}: {xml}");
        assert!(!xml.contains("makingBy"), "{xml}");
        let data = record["spec"]["disks"].as_array().map_or(0, Vec::len);
        let own = volumes(id);
        let why = "a root disk, a first boot's, and the data disks";
        assert_eq!(own.len(), 2 + data, "{why}: {own:?}\n{xml}\n{record:#}");
    }
    let volumes = volumes("sutler-");
    // Machines of other tests come and go meanwhile.
    all.extend(domains());
    let left = volumes.iter().filter(|line| {
        let id = line.trim().strip_prefix("sutler-").and_then(|rest| rest.get(..36));
        id.is_some_and(|id| is_uuid(id) && !all.contains(id))
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new(), "volumes of no domain");
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.char_indices()
        .all(|(at, c)| if dashes.contains(&at) { c == '-' } else { c.is_ascii_hexdigit() })
}
