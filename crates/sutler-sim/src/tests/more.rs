//! Snapshots, clones, images, disks, hardware and commands in guests.

use sutler_provider::{
    CloneRequest, Credentials, DiskRef, ExportRequest, GuestCommand, GuestOutput,
    HardwareUpgradeRequest, ImportRequest, PrepareRequest, ReconfigureRequest, SnapshotId,
    SnapshotRequest,
};

use super::*;
use crate::Call;

fn snapshot(id: &MachineId, name: &str, memory: bool) -> SnapshotRequest {
    SnapshotRequest {
        id: id.clone(),
        proof: proof("web"),
        name: name.to_owned(),
        description: None,
        memory,
        quiesce: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_goes_back_to_its_snapshot() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let cold = sim.snapshot_create(snapshot(&id, "cold", false)).await.unwrap().id.unwrap();
    let warm = sim.snapshot_create(snapshot(&id, "warm", true)).await.unwrap().id.unwrap();
    assert_eq!(
        sim.snapshot_create(snapshot(&id, "warm", true)).await.unwrap().id,
        Some(warm.clone())
    );
    let before = shown(&sim, &id).await;
    assert_eq!(before.snapshots.as_ref().unwrap().len(), 2);
    assert!(before.snapshots.as_ref().unwrap()[1].memory);
    let mut desired = request("web");
    desired.class = Some(class(8, 8192));
    desired.disks[0].size_gib = 50;
    let change = ReconfigureRequest {
        id: id.clone(),
        proof: proof("web"),
        desired,
        remove_disks: vec![],
        remove_nics: vec![],
    };
    sim.reconfigure(change).await.unwrap();
    sim.snapshot_revert(&id, &proof("web"), &warm).await.unwrap();
    assert_eq!(shown(&sim, &id).await, before);
    sim.snapshot_revert(&id, &proof("web"), &cold).await.unwrap();
    assert_eq!(shown(&sim, &id).await.power, Power::Off);
    sim.snapshot_delete(&id, &proof("web"), &cold).await.unwrap();
    sim.snapshot_delete(&id, &proof("web"), &cold).await.unwrap();
    assert_eq!(shown(&sim, &id).await.snapshots.unwrap().len(), 1);
    let gone = sim.snapshot_revert(&id, &proof("web"), &cold).await;
    assert_eq!(kind(gone), ErrorKind::NotFound);
    let theirs = sim.snapshot_delete(&id, &proof("db"), &warm).await;
    assert_eq!(kind(theirs), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_can_be_a_task_that_tells_its_id() {
    let sim = sim(slow_settings());
    let id = make(&sim, "web").await;
    pass(40.0).await;
    let taken = sim.snapshot_create(snapshot(&id, "s", false)).await.unwrap();
    assert_eq!(taken.id, None);
    let TaskState::Done { id: Some(made) } = ended(&sim, &taken.task.unwrap()).await else {
        panic!("the task tells what it made");
    };
    let shown = shown(&sim, &id).await.snapshots.unwrap();
    assert_eq!(shown[0].id, SnapshotId(made));
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_a_machine_of_its_own() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let taken = sim.snapshot_create(snapshot(&id, "s", false)).await.unwrap().id;
    let clone = |name: &str, linked| CloneRequest {
        source: id.clone(),
        snapshot: taken.clone(),
        target: CreateRequest { class: None, disks: Vec::new(), ..request(name) },
        linked,
        customize: serde_json::Map::new(),
    };
    let copy = sim.clone_machine(clone("copy", false)).await.unwrap().id.unwrap();
    let again = sim.clone_machine(clone("copy", false)).await.unwrap().id.unwrap();
    assert_eq!(copy, again);
    let (source, machine) = (shown(&sim, &id).await, shown(&sim, &copy).await);
    assert_eq!((machine.cpu, machine.memory_mib), (source.cpu, source.memory_mib));
    assert_eq!(machine.disks.as_ref().unwrap().len(), 2);
    assert_ne!(machine.ips, source.ips);
    assert_eq!(machine.token, Some(Token::new("copy", 1)));
    let linked = sim.clone_machine(clone("linked", true)).await.unwrap().id.unwrap();
    let disks = shown(&sim, &linked).await.disks.unwrap();
    assert_eq!(disks[0].backing_file, source.disks.unwrap()[0].path);
    let nowhere = CloneRequest { source: "vm-1".into(), ..clone("lost", false) };
    assert_eq!(kind(sim.clone_machine(nowhere).await), ErrorKind::NotFound);
    let nowhen = CloneRequest { snapshot: Some("snap-x".into()), ..clone("lost", false) };
    assert_eq!(kind(sim.clone_machine(nowhen).await), ErrorKind::NotFound);
    assert_eq!(sim.len(), 3);
}

fn prepare(target: &str) -> PrepareRequest {
    PrepareRequest { target: target.to_owned(), ..PrepareRequest::default() }
}

#[tokio::test(start_paused = true)]
async fn images_are_brought_once_and_stay_while_they_are_used() {
    let mut settings = slow_settings();
    settings.strict_templates = true;
    settings.work.create = Duration::ZERO;
    settings.work.start = Duration::ZERO;
    settings.work.delete = Duration::ZERO;
    let sim = sim(settings);
    let mut from = request("web");
    from.image = Some(Image { id: Some("golden".to_owned()), ..Image::default() });
    assert_eq!(kind(sim.create(from.clone()).await), ErrorKind::NotFound);
    let first = sim.image_prepare(prepare("golden")).await.unwrap();
    assert_eq!(sim.image_prepare(prepare("golden")).await.unwrap(), first);
    assert_eq!(kind(sim.create(from.clone()).await), ErrorKind::NotFound);
    ended(&sim, &first.task.unwrap()).await;
    let there = sim.image_prepare(prepare("golden")).await.unwrap();
    assert_eq!((there.task, there.id), (None, first.id));
    let id = sim.create(from).await.unwrap().id.unwrap();
    assert_eq!(kind(sim.image_remove("golden").await), ErrorKind::Conflict);
    delete(&sim, &id, "web").await.unwrap();
    let task = sim.image_remove("golden").await.unwrap().task.unwrap();
    ended(&sim, &task).await;
    assert_eq!(sim.image_remove("golden").await.unwrap().task, None);
    assert!(sim.image_prepare(prepare("golden")).await.unwrap().task.is_some());
}

#[tokio::test(start_paused = true)]
async fn disks_go_out_and_come_in() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let disk = |disk: Option<&str>| DiskRef {
        machine: id.clone(),
        disk: disk.map(str::to_owned),
        snapshot: None,
    };
    assert_eq!(sim.disk_info(&disk(None)).await.unwrap().unwrap().size_gib, 20);
    assert_eq!(sim.disk_info(&disk(Some("data"))).await.unwrap().unwrap().size_gib, 5);
    assert_eq!(sim.disk_info(&disk(Some("none"))).await.unwrap(), None);
    let export = |format: &str| ExportRequest {
        disk: disk(None),
        destination: "pvc://x/root".to_owned(),
        format: Some(format.to_owned()),
        compress: false,
        credentials: Credentials::default(),
        storage: serde_json::Map::new(),
    };
    assert_eq!(kind(sim.disk_export(export("floppy")).await), ErrorKind::Invalid);
    let sent = sim.disk_export(export("qcow2")).await.unwrap();
    assert_eq!(sim.disk_export(export("qcow2")).await.unwrap(), sent);
    let import = |checksum: Option<&str>| ImportRequest {
        source: "pvc://x/root".to_owned(),
        target: "moved".to_owned(),
        format: None,
        storage_hint: None,
        checksum: checksum.map(str::to_owned),
        credentials: Credentials::default(),
        storage: serde_json::Map::new(),
    };
    assert_eq!(kind(sim.disk_import(import(Some("wrong"))).await), ErrorKind::Failed);
    let came = sim.disk_import(import(sent.checksum.as_deref())).await.unwrap();
    assert_eq!((came.size_bytes, &came.checksum), (sent.size_bytes, &sent.checksum));
    assert_eq!(sim.disk_import(import(None)).await.unwrap(), came);
    assert_eq!(sim.calls_of(Call::DiskImport), 3);
}

#[tokio::test(start_paused = true)]
async fn hardware_gets_newer_while_it_is_off() {
    let sim = quick();
    let id = make(&sim, "web").await;
    let upgrade = async |version| {
        let (id, proof) = (id.clone(), proof("web"));
        sim.hardware_upgrade(HardwareUpgradeRequest { id, proof, version }).await
    };
    assert_eq!(kind(upgrade(5).await), ErrorKind::Conflict);
    power(&sim, &id, "web", PowerOp::Off).await.unwrap();
    upgrade(5).await.unwrap();
    upgrade(5).await.unwrap();
    assert_eq!(kind(upgrade(4).await), ErrorKind::Invalid);
    assert_eq!(shown(&sim, &id).await.raw["hardwareVersion"], "5");
}

async fn exec(sim: &Sim, id: &MachineId, words: &[&str]) -> Result<GuestOutput, Error> {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    let timeout = Duration::from_secs(60);
    sim.guest_exec(GuestCommand { id: id.clone(), proof: proof("web"), command, timeout }).await
}

#[tokio::test(start_paused = true)]
async fn guests_run_commands() {
    let sim = quick();
    let id = make(&sim, "web").await;
    for (words, code, stdout) in [
        (&["true"][..], 0, ""),
        (&["false"], 1, ""),
        (&["echo", "a", "b c"], 0, "a b c\n"),
        (&["hostname"], 0, "web\n"),
        (&["nproc"], 0, "2\n"),
        (&["cat", "/var/lib/cloud/instance/user-data.txt"], 0, "#cloud-config\n"),
        (&["cat", "/nothing"], 1, ""),
        (&["frobnicate"], 127, ""),
        (&["sh", "-c", "exit 7; echo never"], 7, ""),
        (&["sh", "-c", "false && echo a || echo 'b'; true"], 0, "b\n"),
        (&["sh", "-c", "test -e /done || touch /done && echo first"], 0, "first\n"),
        (&["sh", "-c", "test -e /done || echo again"], 0, ""),
    ] {
        let output = exec(&sim, &id, words).await.unwrap();
        assert_eq!((output.exit_code, output.stdout.as_str()), (code, stdout), "{words:?}");
    }
    let begun = Instant::now();
    exec(&sim, &id, &["sleep", "5"]).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    let slow = exec(&sim, &id, &["sh", "-c", "touch /begun && sleep 61"]).await;
    assert_eq!(kind(slow), ErrorKind::Failed);
    assert_eq!(begun.elapsed(), Duration::from_secs(65));
    assert_eq!(exec(&sim, &id, &["test", "-e", "/begun"]).await.unwrap().exit_code, 0);
    assert_eq!(kind(exec(&sim, &id, &[]).await), ErrorKind::Invalid);
    power(&sim, &id, "web", PowerOp::Off).await.unwrap();
    assert_eq!(kind(exec(&sim, &id, &["true"]).await), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_managed_platform_names_hosts_its_own_way() {
    let suffix = "-k8s-worker".to_owned();
    let sim = sim(Settings { hostname_suffix: suffix, ..Settings::default() });
    let mut node = request("n-1");
    node.class = None;
    node.image = None;
    node.managed_node = Some(sutler_provider::ManagedNode {
        cluster: "c".to_owned(),
        group: "g".to_owned(),
        size: None,
    });
    let id = sim.create(node).await.unwrap().id.unwrap();
    let machine = shown(&sim, &id).await;
    assert_eq!(machine.hostname.as_deref(), Some("n-1-k8s-worker"));
    assert_eq!((machine.group.as_deref(), machine.cpu), (Some("g"), Some(2)));
}
