//! Every call of the contract over the wire is answered as it is in process.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt as _;
use serde_json::json;
use sutler_provider::*;
use sutler_sim::{Settings, Sim, WorkTimes};
use tokio::sync::mpsc;

use crate::support::{PATIENCE, make, owner, plain, proof, request, sim};

/// Two platforms that do the same: one in process, one behind the wire.
struct Pair {
    here: Sim,
    there: sutler_rpc::Remote,
    _server: crate::support::Running,
}

impl Pair {
    async fn new(settings: Settings) -> Self {
        let (here, behind) = (sim(settings.clone()), sim(settings));
        let (server, there) = plain(Arc::new(behind), true).await;
        Self { here, there, _server: server }
    }
}

/// The same call on both, with equal answers, times aside.
macro_rules! both {
    ($pair:expr, |$p:ident| $call:expr) => {{
        let here = {
            let $p: &dyn Provider = &$pair.here;
            $call.await
        };
        let there = {
            let $p: &dyn Provider = &$pair.there;
            $call.await
        };
        assert_eq!(timeless(format!("{here:?}")), timeless(format!("{there:?}")));
        there
    }};
}

/// Both platforms have clocks of their own.
fn timeless(text: String) -> String {
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("20") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(|c: char| !(c.is_ascii_digit() || "-:.TZ".contains(c)));
        let end = end.unwrap_or(from.len());
        out.push_str(if from[..end].contains('T') { "TIME" } else { &from[..end] });
        rest = &from[end..];
    }
    out + rest
}

fn map(value: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn every_call_is_answered_as_in_process() {
    let settings = Settings { ipv6: true, ..Settings::default() };
    let pair = Pair::new(settings).await;
    both!(pair, |p| p.validate()).unwrap();
    both!(pair, |p| p.capabilities()).unwrap();
    let accepted = both!(pair, |p| p.create(request("web"))).unwrap();
    let id = accepted.id.unwrap();
    both!(pair, |p| p.create(request("web"))).unwrap();
    both!(pair, |p| p.create(CreateRequest { owner: owner("other"), ..request("web") }))
        .unwrap_err();
    both!(pair, |p| p.create(CreateRequest { name: "NO".to_owned(), ..request("no") }))
        .unwrap_err();
    both!(pair, |p| p.describe(&id)).unwrap().unwrap();
    assert!(both!(pair, |p| p.describe(&"nowhere".into())).unwrap().is_none());
    assert!(both!(pair, |p| p.list()).unwrap().complete);
    both!(pair, |p| p.task(&"task-99".into())).unwrap();
    let shutdown = PowerOp::Shutdown { timeout: Duration::from_millis(1500) };
    for op in [PowerOp::Pause, PowerOp::Resume, PowerOp::Reboot, shutdown, PowerOp::On] {
        let request = PowerRequest { id: id.clone(), proof: proof("web"), op };
        both!(pair, |p| p.power(request.clone())).unwrap();
        both!(pair, |p| p.describe(&id)).unwrap();
    }
    both!(pair, |p| p.power(PowerRequest {
        id: id.clone(),
        proof: proof("thief"),
        op: PowerOp::Off
    }))
    .unwrap_err();
    let mut desired = request("web");
    desired.disks[0].size_gib = 9;
    desired.tags.push("green".to_owned());
    let change = ReconfigureRequest {
        id: id.clone(),
        proof: proof("web"),
        desired,
        remove_disks: vec!["old".to_owned()],
        remove_nics: Vec::new(),
    };
    both!(pair, |p| p.reconfigure(change.clone())).unwrap();
    let take = SnapshotRequest {
        id: id.clone(),
        proof: proof("web"),
        name: "before".to_owned(),
        description: Some("words".to_owned()),
        memory: true,
        quiesce: true,
    };
    let taken = both!(pair, |p| p.snapshot_create(take.clone())).unwrap().id.unwrap();
    both!(pair, |p| p.describe(&id)).unwrap();
    both!(pair, |p| p.snapshot_revert(&id, &proof("web"), &taken)).unwrap();
    both!(pair, |p| p.snapshot_revert(&id, &proof("web"), &"none".into())).unwrap_err();
    let copy = CloneRequest {
        source: id.clone(),
        snapshot: Some(taken.clone()),
        target: request("copy"),
        linked: true,
        customize: map(json!({"hostname": "copy"})),
    };
    both!(pair, |p| p.clone_machine(copy.clone())).unwrap();
    both!(pair, |p| p.snapshot_delete(&id, &proof("web"), &taken)).unwrap();
    let disk = DiskRef { machine: id.clone(), disk: Some("data".to_owned()), snapshot: None };
    both!(pair, |p| p.disk_info(&disk)).unwrap().unwrap();
    let gone = DiskRef { disk: Some("none".to_owned()), ..disk.clone() };
    assert!(both!(pair, |p| p.disk_info(&gone)).unwrap().is_none());
    let export = ExportRequest {
        disk,
        destination: "s3://bucket/x".to_owned(),
        format: Some("raw".to_owned()),
        compress: true,
        credentials: [("accessKeyID", b"k".to_vec())].into_iter().collect(),
        storage: map(json!({"backend": "s3"})),
    };
    both!(pair, |p| p.disk_export(export.clone())).unwrap();
    let import = ImportRequest {
        source: "s3://bucket/x".to_owned(),
        target: "disk".to_owned(),
        format: Some("raw".to_owned()),
        storage_hint: None,
        checksum: None,
        credentials: Credentials::default(),
        storage: map(json!({})),
    };
    both!(pair, |p| p.disk_import(import.clone())).unwrap();
    let prepare = PrepareRequest {
        image: Image { url: Some("https://x/y".to_owned()), ..Image::default() },
        target: "image".to_owned(),
        force: true,
        verify: true,
        options: map(json!({"timeout": "5m"})),
        credentials: Credentials::default(),
    };
    both!(pair, |p| p.image_prepare(prepare.clone())).unwrap();
    both!(pair, |p| p.image_remove("image")).unwrap();
    let mut keeper = request("keeper");
    keeper.disks[0].kept = Some("disk-1".into());
    let kept = both!(pair, |p| p.create(keeper.clone())).unwrap().id.unwrap();
    let shown = both!(pair, |p| p.describe(&kept)).unwrap().unwrap().disks.unwrap();
    assert_eq!(shown[1].kept, Some("disk-1".into()));
    let rival = CreateRequest { disks: keeper.disks.clone(), ..request("rival") };
    let error = both!(pair, |p| p.create(rival.clone())).unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Conflict, Some("disks[0].kept")));
    assert_eq!(both!(pair, |p| p.kept_disks()).unwrap()[0].machine, Some(kept.clone()));
    both!(pair, |p| p.kept_disk_remove(&"disk-1".into())).unwrap_err();
    let gone = DeleteRequest { id: kept, proof: proof("keeper") };
    both!(pair, |p| p.delete(gone.clone())).unwrap();
    assert_eq!(both!(pair, |p| p.kept_disks()).unwrap()[0].machine, None);
    both!(pair, |p| p.kept_disk_remove(&"disk-1".into())).unwrap();
    assert!(both!(pair, |p| p.kept_disks()).unwrap().is_empty());
    let command = GuestCommand {
        id: id.clone(),
        proof: proof("web"),
        command: ["sh", "-c", "echo hi; exit 3"].map(str::to_owned).to_vec(),
        timeout: Duration::from_secs(5),
    };
    assert_eq!(both!(pair, |p| p.guest_exec(command.clone())).unwrap().exit_code, 3);
    both!(pair, |p| p.templates()).unwrap();
    both!(pair, |p| p.hosts()).unwrap();
    both!(pair, |p| p.power(PowerRequest {
        id: id.clone(),
        proof: proof("web"),
        op: PowerOp::Off
    }))
    .unwrap();
    let upgrade = HardwareUpgradeRequest { id: id.clone(), proof: proof("web"), version: 30 };
    both!(pair, |p| p.hardware_upgrade(upgrade.clone())).unwrap();
    both!(pair, |p| p.disown(&id, &proof("web"))).unwrap();
    both!(pair, |p| p.adopt(&id, &owner("new"))).unwrap();
    both!(pair, |p| p.delete(DeleteRequest { id: id.clone(), proof: proof("web") })).unwrap_err();
    both!(pair, |p| p.delete(DeleteRequest { id: id.clone(), proof: proof("new") })).unwrap();
    both!(pair, |p| p.migrate(MigrateRequest {
        id: id.clone(),
        proof: proof("new"),
        host: "sim-1".to_owned()
    }))
    .unwrap_err();
    both!(pair, |p| p.list()).unwrap();
}

#[tokio::test]
async fn tasks_live_as_in_process() {
    let t = Duration::from_secs(600);
    let work = WorkTimes { create: t, delete: t, ..WorkTimes::default() };
    let pair = Pair::new(Settings { work, ..Settings::default() }).await;
    let accepted = both!(pair, |p| p.create(request("web"))).unwrap();
    let task = accepted.task.unwrap();
    assert!(matches!(pair.there.task(&task).await.unwrap(), TaskState::Running { .. }));
    both!(pair, |p| p.list()).unwrap();
    let id = accepted.id.unwrap();
    both!(pair, |p| p.delete(DeleteRequest { id: id.clone(), proof: proof("web") })).unwrap();
    let failed = both!(pair, |p| p.task(&task)).unwrap();
    let TaskState::Failed(error) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_an_incomplete_one_says_so() {
    let behind = sim(Settings::default());
    let machines =
        (0..1234).map(|n| Machine::new(format!("vm-{n:05}"), format!("m-{n}"), Power::On));
    behind.seed(machines).unwrap();
    let (_server, there) = plain(Arc::new(behind.clone()), true).await;
    let listing = there.list().await.unwrap();
    assert_eq!((listing.machines.len(), listing.complete), (1234, true));
    assert_eq!(listing, behind.list().await.unwrap());
    behind.plan(sutler_sim::Planned::on(sutler_sim::Call::List, sutler_sim::Fault::Partial(50)));
    assert!(!there.list().await.unwrap().complete);
}

#[tokio::test]
async fn events_are_told_from_the_moment_the_stream_is_there() {
    let behind = sim(Settings::default());
    let (server, there) = plain(Arc::new(behind.clone()), true).await;
    let mut events = there.events().await.unwrap();
    let id = make(&behind, "web").await;
    behind.delete(DeleteRequest { id: id.clone(), proof: proof("web") }).await.unwrap();
    let mut next = async || tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
    assert!(matches!(next().await.unwrap(), Event::Changed(machine) if machine.id == id));
    assert_eq!(next().await.unwrap(), Event::Gone(id));
    // A server that ends does not wait for streams, which have no end of their own.
    let ending = tokio::spawn(server.end());
    assert_eq!(next().await, None);
    ending.await.unwrap();
}

/// A provider that only can what the simulated one cannot.
struct Rare;

#[async_trait]
impl Provider for Rare {
    async fn validate(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "who are you?"))
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities { console: true, live_migration: true, ..Capabilities::default() })
    }

    async fn create(&self, _: CreateRequest) -> Result<Accepted> {
        panic!("this provider is broken")
    }

    async fn delete(&self, _: DeleteRequest) -> Result<Started> {
        Err(Error::unsupported("never"))
    }

    async fn power(&self, _: PowerRequest) -> Result<Started> {
        Err(Error::unsupported("never"))
    }

    async fn reconfigure(&self, _: ReconfigureRequest) -> Result<Started> {
        Err(Error::unsupported("never"))
    }

    async fn describe(&self, _: &MachineId) -> Result<Option<Machine>> {
        Ok(None)
    }

    async fn task(&self, _: &TaskId) -> Result<TaskState> {
        Ok(TaskState::Running { percent: Some(70), message: Some("nearly".to_owned()) })
    }

    async fn migrate(&self, request: MigrateRequest) -> Result<Started> {
        assert_eq!(request.proof, proof("web"));
        Ok(Started { task: Some(format!("to-{}", request.host).into()) })
    }

    async fn console(&self, id: &MachineId, given: &Proof) -> Result<Console> {
        if *given != proof("web") {
            return Err(Error::conflict("not yours"));
        }
        let (input, mut typed) = mpsc::channel::<Vec<u8>>(4);
        let hello = format!("{id}\n").into_bytes();
        let output = async_stream(hello, move |cx| typed.poll_recv(cx));
        Ok(Console { output, input })
    }
}

/// A greeting, and then an echo.
fn async_stream(
    hello: Vec<u8>,
    mut echo: impl FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<Vec<u8>>>
    + Send
    + 'static,
) -> futures::stream::BoxStream<'static, Vec<u8>> {
    let echo = futures::stream::poll_fn(move |cx| echo(cx));
    futures::stream::once(async { hello }).chain(echo).boxed()
}

/// A server of an earlier version does not know the field, and would make an ordinary disk: whoever
/// does not report kept disks is never sent one.
#[tokio::test]
async fn kept_disks_are_not_sent_to_who_does_not_report_them() {
    let (_server, there) = plain(Arc::new(Rare), true).await;
    let mut wanted = request("web");
    wanted.disks.insert(0, Disk { name: "first".to_owned(), size_gib: 1, ..Disk::default() });
    wanted.disks[1].kept = Some("disk-1".into());
    let change = ReconfigureRequest {
        id: "vm-1".into(),
        proof: proof("web"),
        desired: wanted.clone(),
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    let copy = CloneRequest {
        source: "vm-1".into(),
        snapshot: None,
        target: wanted.clone(),
        linked: false,
        customize: map(json!({})),
    };
    for error in [
        there.create(wanted).await.unwrap_err(),
        there.reconfigure(change).await.unwrap_err(),
        there.clone_machine(copy).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.field()), (ErrorKind::Unsupported, Some("disks[1].kept")));
    }
    assert_eq!(there.kept_disks().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn consoles_moves_and_what_is_refused() {
    let (_server, there) = plain(Arc::new(Rare), true).await;
    assert_eq!(there.validate().await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(there.capabilities().await.unwrap().live_migration);
    let to = |host: &str| MigrateRequest {
        id: "vm-1".into(),
        proof: proof("web"),
        host: host.to_owned(),
    };
    assert_eq!(there.migrate(to("b")).await.unwrap().task, Some("to-b".into()));
    let state = there.task(&"t".into()).await.unwrap();
    assert_eq!(state, Rare.task(&"t".into()).await.unwrap());
    let error = there.console(&"vm-1".into(), &proof("thief")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut console = there.console(&"vm-1".into(), &proof("web")).await.unwrap();
    assert_eq!(console.output.next().await.unwrap(), b"vm-1\n");
    console.input.send(b"ls".to_vec()).await.unwrap();
    assert_eq!(console.output.next().await.unwrap(), b"ls");
    // What the provider refuses is no sign of a call that is not there.
    let delete = DeleteRequest { id: "vm-1".into(), proof: proof("web") };
    assert_eq!(there.delete(delete).await.unwrap_err().message(), "never");
    assert!(there.has_extensions());
    let error = there.create(request("web")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(there.list().await.unwrap_err().kind(), ErrorKind::Unsupported);
}
