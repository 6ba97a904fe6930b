use std::{pin::Pin, sync::Arc};

use super::*;
use crate::{
    error::ErrorKind,
    guard::{
        limits::{BreakerLimits, Limits},
        testing::{Fake, TestClock, at},
    },
    identity::Token,
};

fn owner() -> Owner {
    Owner {
        token: Token::new("uid", 1),
        installation: "here".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

fn proof() -> Proof {
    Proof { owner: owner(), name: None }
}

fn id() -> MachineId {
    "vm-1".into()
}

fn create() -> CreateRequest {
    CreateRequest {
        image: Some(Image { name: "debian".to_owned(), ..Image::default() }),
        ..CreateRequest::new(owner(), "web")
    }
}

fn power(op: PowerOp) -> PowerRequest {
    PowerRequest { id: id(), proof: proof(), op }
}

type Outcome = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
type Ask = fn(Arc<Gate>) -> Outcome;

/// Every call of the gate as `name, seconds that it may take, how it is made`.
macro_rules! asks {
    ($($name:literal $seconds:literal $gate:ident => $ask:expr;)*) => {
        [$(($name, $seconds, (|$gate: Arc<Gate>| -> Outcome {
            Box::pin(async move { $ask.await.map(|_| ()) })
        }) as Ask)),*]
    };
}

fn looks() -> [(&'static str, u64, Ask); 11] {
    asks! {
        "validate" 1 gate => gate.validate();
        "capabilities" 1 gate => gate.capabilities();
        "describe" 1 gate => gate.describe(&id());
        "task" 1 gate => gate.task(&"task-1".into());
        "events" 1 gate => gate.events();
        "console" 1 gate => gate.console(&id(), &proof());
        "disk_info" 1 gate => gate.disk_info(&DiskRef { machine: id(), disk: None, snapshot: None });
        "list" 2 gate => gate.list();
        "templates" 2 gate => gate.templates();
        "kept_disks" 2 gate => gate.kept_disks();
        "hosts" 2 gate => gate.hosts();
    }
}

fn changes() -> [(&'static str, u64, Ask); 19] {
    asks! {
        "create" 30 gate => gate.create(create(), None);
        "clone" 30 gate => gate.clone_machine(
            CloneRequest {
                source: id(),
                snapshot: None,
                target: create(),
                linked: false,
                customize: Default::default(),
            },
            None,
        );
        "reconfigure" 30 gate => gate.reconfigure(
            ReconfigureRequest {
                id: id(),
                proof: proof(),
                desired: create(),
                remove_disks: Vec::new(),
                remove_nics: Vec::new(),
            },
            at(9),
        );
        "hardware_upgrade" 30 gate => gate.hardware_upgrade(
            HardwareUpgradeRequest { id: id(), proof: proof(), version: 21 },
            None,
        );
        "migrate" 30 gate => gate.migrate(
            MigrateRequest { id: id(), proof: proof(), host: "h2".to_owned() },
            None,
        );
        "image_prepare" 30 gate => gate.image_prepare(PrepareRequest::default(), None);
        "snapshot_create" 30 gate => gate.snapshot_create(
            SnapshotRequest {
                id: id(),
                proof: proof(),
                name: "before".to_owned(),
                description: None,
                memory: false,
                quiesce: false,
            },
            None,
        );
        "snapshot_delete" 30 gate => gate.snapshot_delete(&id(), &proof(), &"s-1".into(), None);
        "snapshot_revert" 30 gate => gate.snapshot_revert(&id(), &proof(), &"s-1".into(), None);
        "delete" 10 gate => gate.delete(DeleteRequest { id: id(), proof: proof() }, None);
        "power" 10 gate => gate.power(power(PowerOp::On), None);
        "power" 110 gate => gate.power(
            power(PowerOp::Shutdown { timeout: Duration::from_secs(100) }),
            Terms::default().on(Some("h1".to_owned())),
        );
        "disown" 10 gate => gate.disown(&id(), &proof(), None);
        "adopt" 10 gate => gate.adopt(&id(), &owner(), None);
        "image_remove" 10 gate => gate.image_remove("debian", None);
        "kept_disk_remove" 10 gate => gate.kept_disk_remove(&"disk-1".into(), None);
        "guest_exec" 101 gate => gate.guest_exec(
            GuestCommand {
                id: id(),
                proof: proof(),
                command: vec!["true".to_owned()],
                timeout: Duration::from_secs(100),
            },
            None,
        );
        "disk_export" 600 gate => gate.disk_export(
            ExportRequest {
                disk: DiskRef { machine: id(), disk: None, snapshot: None },
                destination: "s3://bucket/disk".to_owned(),
                format: None,
                compress: false,
                credentials: Default::default(),
                storage: Default::default(),
            },
            None,
        );
        "disk_import" 600 gate => gate.disk_import(
            ImportRequest {
                source: "s3://bucket/disk".to_owned(),
                target: "disk".to_owned(),
                format: None,
                storage_hint: None,
                checksum: None,
                credentials: Default::default(),
                storage: Default::default(),
            },
            None,
        );
    }
}

fn limits() -> Limits {
    let [look, list, change, make, transfer] = [1, 2, 10, 30, 600].map(Duration::from_secs);
    Limits {
        deadlines: Deadlines { look, list, make, change, transfer },
        breaker: BreakerLimits { failures: 0, ..BreakerLimits::default() },
        ..Limits::default()
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_unavailable_for_a_look_and_indeterminate_for_a_change() {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
    for (calls, kind) in [looks().as_slice(), changes().as_slice()].into_iter().zip(kinds) {
        for (name, seconds, ask) in calls {
            let fake = Fake::silent();
            let gate = Gate::new(fake.clone(), limits(), TestClock::new(), 1);
            let start = tokio::time::Instant::now();
            let error = tokio::spawn(ask(gate)).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), kind, "{name}");
            assert_eq!(start.elapsed(), Duration::from_secs(*seconds), "{name}");
            assert_eq!(fake.sent(), [*name]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_looks_are_sent_again() {
    for (calls, times) in [(looks().as_slice(), 3), (changes().as_slice(), 1)] {
        for (name, _, ask) in calls {
            let fake = Fake::failing(Error::unavailable("not now"));
            let limits = Limits { deadlines: Deadlines::default(), ..limits() };
            let gate = Gate::new(fake.clone(), limits, TestClock::new(), 1);
            assert_eq!(ask(gate).await.unwrap_err().message(), "not now");
            assert_eq!(fake.sent(), vec![*name; times]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn machines_from_one_template_are_made_one_after_the_other() {
    let fake = Fake::silent();
    let limits = Limits { per_template: 1, per_host: 1, ..limits() };
    let gate = Gate::new(fake.clone(), limits, TestClock::new(), 1);
    let of = |image: &str, host: Option<&str>| {
        let mut request = create();
        request.image = Some(Image { id: Some(image.to_owned()), ..Image::default() });
        request.placement.host = host.map(str::to_owned);
        let gate = Arc::clone(&gate);
        tokio::spawn(async move { gate.create(request, None).await })
    };
    let calls = [of("a", None), of("a", None), of("b", Some("h")), of("c", Some("h"))];
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.sent().len(), 2, "one of a, one on h");
    let on = |host: &str| Terms::default().on(Some(host.to_owned()));
    let delete = DeleteRequest { id: id(), proof: proof() };
    assert_eq!(
        gate.delete(delete.clone(), Terms { not_after: Some(at(1)), ..on("h") }).await,
        Err(Error::unavailable("delete was not sent in time")),
    );
    assert_eq!(gate.delete(delete, on("k")).await.unwrap_err().kind(), ErrorKind::Indeterminate);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Indeterminate);
    }
    assert_eq!(fake.sent().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_busy_host_and_a_busy_source_are_known_from_the_request() {
    let fake = Fake::silent();
    let limits = Limits { per_template: 1, per_host: 1, ..limits() };
    let gate = Gate::new(fake.clone(), limits, TestClock::new(), 1);
    let mut desired = create();
    desired.placement.host = Some("h".to_owned());
    let reconfigure = ReconfigureRequest {
        id: id(),
        proof: proof(),
        desired: desired.clone(),
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    let clone = |target: CreateRequest, source: &str| CloneRequest {
        source: source.into(),
        snapshot: None,
        target,
        linked: false,
        customize: Default::default(),
    };
    let inside = Arc::clone(&gate);
    let request = clone(desired.clone(), "a");
    let busy = tokio::spawn(async move { inside.clone_machine(request, None).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let late = |error: Error| assert!(error.message().contains("not sent in time"), "{error}");
    late(gate.reconfigure(reconfigure, at(1)).await.unwrap_err());
    late(gate.create(desired.clone(), at(2)).await.unwrap_err());
    late(gate.clone_machine(clone(desired, "b"), at(3)).await.unwrap_err());
    late(gate.clone_machine(clone(create(), "a"), at(4)).await.unwrap_err());
    assert_eq!(fake.sent(), ["clone"]);
    assert!(busy.await.unwrap().is_err());
}

#[test]
fn a_template_is_what_is_most_certainly_known_of_it() {
    let mut image = Image::default();
    assert_eq!(template_key(&image), None);
    let text = |text: &str| Some(text.to_owned());
    image.name = "name".to_owned();
    assert_eq!(template_key(&image), text("name"));
    image.url = text("url");
    assert_eq!(template_key(&image), text("url"));
    image.path = text("path");
    assert_eq!(template_key(&image), text("path"));
    image.template = text("template");
    assert_eq!(template_key(&image), text("template"));
    image.id = text("id");
    assert_eq!(template_key(&image), text("id"));
}
