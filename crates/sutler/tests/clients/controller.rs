//! A kube-rs controller, reflector and leader lease, over HTTPS and in process.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{ConfigMap, Namespace},
        events::v1::Event as RecordedEvent,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{self, Action},
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{self, finalizer},
        reflector,
        wait::{await_condition, conditions::is_deleted},
        watcher,
    },
};
use serde_json::json;
use sutler_api::infra::{VirtualMachine, VirtualMachinePhase};

use crate::{embedded::Embedded, support};

/// The longest that one test may take.
const PATIENCE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "example.org/machine";
const MANAGER: &str = "machines";

struct Context {
    client: Client,
    recorder: Recorder,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("a request failed")]
    Kube(#[from] kube::Error),
    #[error("the finalizer failed")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

async fn reconcile(machine: Arc<VirtualMachine>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = machine.namespace().unwrap_or_default();
    let api = Api::<VirtualMachine>::namespaced(context.client.clone(), &namespace);
    finalizer(&api, FINALIZER, machine, async |event| match event {
        finalizer::Event::Apply(machine) => start(&machine, &api, &context).await,
        finalizer::Event::Cleanup(machine) => {
            tell(&context, &machine, "Stopped").await?;
            Ok(Action::await_change())
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Writes the machine's ConfigMap, then its status.
async fn start(
    machine: &VirtualMachine,
    api: &Api<VirtualMachine>,
    context: &Context,
) -> Result<Action, Error> {
    let name = machine.name_any();
    let namespace = machine.namespace().unwrap_or_default();
    let owned = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: machine.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("power".into(), format!("{:?}", machine.spec.power_state))])),
        ..Default::default()
    };
    let apply = PatchParams::apply(MANAGER).force();
    let maps = Api::<ConfigMap>::namespaced(context.client.clone(), &namespace);
    maps.patch(&name, &apply, &Patch::Apply(&owned)).await?;
    let status = json!({
        "apiVersion": VirtualMachine::api_version(&()),
        "kind": VirtualMachine::kind(&()),
        "status": {"phase": "Running", "observedGeneration": machine.metadata.generation},
    });
    let after = api.patch_status(&name, &apply, &Patch::Apply(&status)).await?;
    // Once for each generation: a reconcile that changes nothing says nothing.
    if after.metadata.resource_version != machine.metadata.resource_version {
        tell(context, machine, "Started").await?;
    }
    Ok(Action::await_change())
}

async fn tell(context: &Context, machine: &VirtualMachine, reason: &str) -> Result<(), Error> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(format!("generation {:?}", machine.metadata.generation)),
        action: "Reconcile".into(),
        secondary: None,
    };
    Ok(context.recorder.publish(&event, &machine.object_ref(&())).await?)
}

fn machine(name: &str) -> VirtualMachine {
    serde_json::from_value(json!({
        "apiVersion": VirtualMachine::api_version(&()),
        "kind": VirtualMachine::kind(&()),
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "sim"}, "classRef": {"name": "small"}, "imageRef": {"name": "debian"}},
    }))
    .unwrap()
}

/// The generation that the controller has seen to.
fn seen(generation: i64) -> impl Fn(Option<&VirtualMachine>) -> bool {
    move |machine| {
        let status = machine.and_then(|machine| machine.status.as_ref());
        status.is_some_and(|status| {
            status.phase == Some(VirtualMachinePhase::Running)
                && status.observed_generation == Some(generation)
        })
    }
}

/// A machine's life under a controller.
async fn life(client: Client, namespace: &str, config: watcher::Config) {
    make_namespace(&client, namespace).await;
    let machines = Api::<VirtualMachine>::namespaced(client.clone(), namespace);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let reporter = Reporter { controller: "example.org/machines".into(), instance: None };
    let context = Arc::new(Context {
        client: client.clone(),
        recorder: Recorder::new(client.clone(), reporter),
    });
    let controller = Controller::new(machines.clone(), config.clone())
        .owns(maps.clone(), config)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), context)
        // A reconcile may lose a race and is tried again; a watch may not fail.
        .for_each(async |outcome| match outcome {
            Err(controller::Error::QueueError(error)) => panic!("{error}"),
            Err(error) => println!("{error:?}"),
            Ok(_) => {}
        });
    let controller = tokio::spawn(controller);

    let made = machines.create(&PostParams::default(), &machine("web")).await.unwrap();
    await_condition(machines.clone(), "web", seen(1)).await.unwrap();
    let web = machines.get("web").await.unwrap();
    assert_eq!(web.finalizers(), [FINALIZER]);
    let owned = maps.get("web").await.unwrap();
    assert_eq!(owned.owner_references()[0].uid, made.uid().unwrap());

    let off = json!({"spec": {"powerState": "Off"}});
    machines.patch("web", &PatchParams::default(), &Patch::Merge(&off)).await.unwrap();
    await_condition(machines.clone(), "web", seen(2)).await.unwrap();
    // What it owns comes back.
    let first = owned.uid().unwrap();
    maps.delete("web", &DeleteParams::default()).await.unwrap();
    let again = move |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.uid().as_deref() != Some(first.as_str()))
    };
    let again = await_condition(maps.clone(), "web", again).await.unwrap().unwrap();
    assert_eq!(again.data.unwrap()["power"], "Some(Off)");

    machines.delete("web", &DeleteParams::foreground()).await.unwrap();
    await_condition(machines, "web", is_deleted(&made.uid().unwrap())).await.unwrap();
    await_condition(maps, "web", is_deleted(&again.metadata.uid.unwrap())).await.unwrap();

    let events = Api::<RecordedEvent>::namespaced(client, namespace);
    let mut told: Vec<_> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|event| (event.reason.unwrap(), event.series.map_or(1, |series| series.count)))
        .collect();
    told.sort();
    // The second start is the first one's event again, as a series.
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), ("Started", "Stopped"));
    assert!(told[0].1 >= 2, "{told:?}");
    assert!(!controller.is_finished());
    controller.abort();
}

/// A reflector that begins with a streamed list, and one that is told that its version is gone.
async fn reflect(client: Client, namespace: &str) {
    make_namespace(&client, namespace).await;
    let maps = Api::<ConfigMap>::namespaced(client, namespace);
    let map = |name: &str| ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..Default::default() },
        ..Default::default()
    };
    for number in 0..20 {
        maps.create(&PostParams::default(), &map(&format!("map-{number:02}"))).await.unwrap();
    }
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().streaming_lists();
    let mut stream =
        Box::pin(watcher(maps.clone(), config).reflect(writer).default_backoff().touched_objects());
    let mut begun = Vec::new();
    while begun.len() < 20 {
        begun.push(stream.next().await.unwrap().unwrap().name_any());
    }
    begun.sort();
    assert_eq!((begun[0].as_str(), begun[19].as_str()), ("map-00", "map-19"));
    maps.create(&PostParams::default(), &map("late")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "late");
    assert_eq!(store.len(), 21);
    maps.delete("map-07", &DeleteParams::default()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "map-07");
    assert_eq!(store.len(), 20);
}

/// Two that want to lead: the version decides.
async fn lead(client: Client, namespace: &str) {
    make_namespace(&client, namespace).await;
    let leases = Api::<Lease>::namespaced(client, namespace);
    let now =
        MicroTime(k8s_openapi::jiff::Timestamp::from_microsecond(1_800_000_000_123_456).unwrap());
    let lease = Lease {
        metadata: ObjectMeta { name: Some("leader".into()), ..Default::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some("one".into()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(now.clone()),
            renew_time: Some(now.clone()),
            ..Default::default()
        }),
    };
    let held = leases.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!(held.spec.as_ref().unwrap().renew_time, Some(now));
    let take = |who: &str| {
        let mut lease = held.clone();
        let spec = lease.spec.as_mut().unwrap();
        spec.holder_identity = Some(who.into());
        spec.lease_transitions = Some(1);
        lease
    };
    let taken = leases.replace("leader", &PostParams::default(), &take("two")).await.unwrap();
    assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
    let late = leases.replace("leader", &PostParams::default(), &take("three")).await.unwrap_err();
    assert!(
        matches!(&late, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"),
        "{late}"
    );
    assert_eq!(
        leases.get("leader").await.unwrap().spec.unwrap().holder_identity.as_deref(),
        Some("two")
    );
}

async fn make_namespace(client: &Client, name: &str) {
    let namespaces = Api::<Namespace>::all(client.clone());
    if !support::is_ours()
        && let Ok(old) = namespaces.get(name).await
    {
        namespaces.delete(name, &DeleteParams::default()).await.unwrap();
        await_condition(namespaces.clone(), name, is_deleted(&old.uid().unwrap())).await.unwrap();
    }
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.into()), ..Default::default() },
        ..Default::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

/// A client of the shared server.
async fn https() -> Client {
    let kubeconfig = Kubeconfig::read_from(support::kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(PATIENCE, test).await.expect("it takes too long");
}

#[tokio::test]
async fn a_controller_over_https() {
    in_time(async { life(https().await, "kube-rs-list", watcher::Config::default()).await }).await;
}

#[tokio::test]
async fn a_controller_with_streamed_lists_over_https() {
    let config = watcher::Config::default().streaming_lists();
    in_time(async { life(https().await, "kube-rs-stream", config).await }).await;
}

#[tokio::test]
async fn a_controller_in_process() {
    let embedded = Embedded::start().await;
    in_time(life(embedded.client(), "list", watcher::Config::default())).await;
    in_time(life(embedded.client(), "stream", watcher::Config::default().streaming_lists())).await;
}

#[tokio::test]
async fn reflectors_and_leases() {
    let embedded = Embedded::start().await;
    in_time(async {
        for (client, name) in [(https().await, "https"), (embedded.client(), "inside")] {
            reflect(client.clone(), &format!("reflect-{name}")).await;
            lead(client, &format!("lead-{name}")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_version_that_is_gone_is_told() {
    let embedded = Embedded::start().await;
    let namespaces = Api::<Namespace>::all(embedded.client());
    let begun = namespaces.list(&ListParams::default()).await.unwrap().metadata;
    let begun = begun.resource_version.unwrap();
    make_namespace(&embedded.client(), "later").await;
    embedded.engine.compact(embedded.engine.version()).await.unwrap();
    let watch = namespaces.watch(&WatchParams::default(), &begun).await.unwrap();
    let first = std::pin::pin!(watch).next().await.unwrap().unwrap();
    let WatchEvent::Error(status) = first else { panic!("{first:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    // kube's own watcher begins anew.
    let mut stream =
        std::pin::pin!(watcher(namespaces, watcher::Config::default()).touched_objects());
    assert!(stream.next().await.unwrap().is_ok());
}
