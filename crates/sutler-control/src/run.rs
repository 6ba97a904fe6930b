//! Runs the controllers: caches of the API, and who is woken by what.

mod watches;

use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _, runtime::reflector};
use tokio::sync::mpsc;

use watches::{
    clone_events, generation, generation_and_places, machine_events, operation_events,
    plain_events, secrets, snapshot_events, used_events,
};

use crate::{
    classes, clones,
    context::{Context, Outside, Settings, Wakes},
    disks,
    events::Recorder,
    images,
    index::Reference,
    kit::control,
    machine, networks, operations, placement, providers,
    recent::Recent,
    sets, snapshots, unserved, used,
};

/// Of how many objects it is remembered when their status was last written.
const WRITES: usize = 4096;

/// What is told once everything is set up.
pub type Start = Box<dyn FnOnce(Arc<Context>) + Send>;

/// Runs the controllers until the future is dropped. Nothing of what they began outlives that,
/// except at the providers.
pub async fn run(
    client: Client,
    settings: Settings,
    outside: Outside,
    start: Start,
) -> Result<(), kube::Error> {
    let installation = installation(&client).await?;
    let (machines, machines_writer) = reflector::store();
    let (provider_store, providers_writer) = reflector::store();
    let (classes, classes_writer) = reflector::store();
    let (images, images_writer) = reflector::store();
    let (networks, networks_writer) = reflector::store();
    let (operations, operations_writer) = reflector::store();
    let (disk_store, disks_writer) = reflector::store();
    let (wake_disks, woken_disks) = mpsc::unbounded_channel();
    let (snapshot_store, snapshots_writer) = reflector::store();
    let (clone_store, clones_writer) = reflector::store();
    let (wake_snapshots, woken_snapshots) = mpsc::unbounded_channel();
    let (wake_clones, woken_clones) = mpsc::unbounded_channel();
    let (sets, sets_writer) = reflector::store();
    let (policies, policies_writer) = reflector::store();
    let (wake_policies, woken_policies) = mpsc::unbounded_channel();
    let (wake_sets, woken_sets) = mpsc::unbounded_channel();
    let (wake_machines, woken_machines) = mpsc::unbounded_channel();
    let (wake_providers, woken_providers) = mpsc::unbounded_channel();
    let (wake_classes, woken_classes) = mpsc::unbounded_channel();
    let (wake_images, woken_images) = mpsc::unbounded_channel();
    let (wake_networks, woken_networks) = mpsc::unbounded_channel();
    let (wake_operations, woken_operations) = mpsc::unbounded_channel();
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), outside.clock.clone()),
        clock: outside.clock.clone(),
        client: client.clone(),
        settings,
        outside,
        sets: sets::Shared::new(sets, wake_sets),
        placement: placement::Shared::new(policies, wake_policies),
        installation,
        fleet: Default::default(),
        machines,
        providers: provider_store,
        classes,
        images,
        networks,
        operations,
        disks: disk_store,
        snapshots: snapshot_store,
        clones: clone_store,
        snapshot_links: Default::default(),
        clone_links: Default::default(),
        desk: Default::default(),
        slots: Default::default(),
        index: Default::default(),
        fresh: Default::default(),
        indexed: Default::default(),
        operations_index: Default::default(),
        imports: Default::default(),
        asks: Default::default(),
        removals: Default::default(),
        disk_looks: Default::default(),
        writes: Mutex::new(Recent::new(WRITES)),
        secrets: Default::default(),
        held_up: Default::default(),
        targets: Default::default(),
        provider_status_at: Default::default(),
        lookers: Default::default(),
        wakes: Wakes {
            machines: wake_machines,
            providers: wake_providers,
            classes: wake_classes,
            images: wake_images,
            networks: wake_networks,
            operations: wake_operations,
            disks: wake_disks,
            snapshots: wake_snapshots,
            clones: wake_clones,
        },
        tasks: Default::default(),
        counters: Default::default(),
    });
    start(context.clone());
    let _guard = StopTasks(context.clone());

    // What machines refer to is known before the first of them is looked at: what is not cached yet
    // must not be taken for missing.
    let known = futures::future::join_all([
        context.classes.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.images.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.networks.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.snapshots.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.disks.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        {
            let policies = context.placement.store();
            async move { policies.wait_until_ready().await.is_ok() }.boxed()
        },
    ]);
    let machines = async {
        if !known.await.into_iter().all(|known| known) {
            return;
        }
        control(
            &context,
            context.settings.concurrency,
            machine_events(&context, machines_writer),
            context.machines.clone(),
            woken_machines,
            machine::reconcile,
            machine::error_policy,
        )
        .await;
    };
    let work: Vec<BoxFuture<'_, ()>> = vec![
        machines.boxed(),
        control(
            &context,
            context.settings.concurrency,
            plain_events(&context, providers_writer),
            context.providers.clone(),
            woken_providers,
            providers::reconcile,
            providers::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            used_events(&context, classes_writer, Reference::Class, generation),
            context.classes.clone(),
            woken_classes,
            classes::reconcile,
            used::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            used_events(&context, images_writer, Reference::Image, generation_and_places),
            context.images.clone(),
            woken_images,
            images::reconcile,
            images::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            used_events(&context, networks_writer, Reference::Network, generation),
            context.networks.clone(),
            woken_networks,
            networks::reconcile,
            used::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            operation_events(&context, operations_writer),
            context.operations.clone(),
            woken_operations,
            operations::control::reconcile,
            operations::control::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            snapshot_events(&context, snapshots_writer),
            context.snapshots.clone(),
            woken_snapshots,
            snapshots::reconcile,
            snapshots::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            plain_events(&context, sets_writer),
            context.sets.store(),
            woken_sets,
            sets::reconcile,
            sets::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            clone_events(&context, clones_writer),
            context.clones.clone(),
            woken_clones,
            clones::reconcile,
            clones::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            used_events(&context, policies_writer, Reference::Policy, generation),
            context.placement.store(),
            woken_policies,
            placement::reconcile,
            used::error_policy,
        )
        .boxed(),
        control(
            &context,
            context.settings.concurrency,
            used_events(&context, disks_writer, Reference::Disk, disks::useful),
            context.disks.clone(),
            woken_disks,
            disks::reconcile,
            disks::error_policy,
        )
        .boxed(),
        unserved::run(&context).boxed(),
        secrets(&context).boxed(),
        providers::watch_deployments(&context).boxed(),
    ];
    futures::future::join_all(work).await;
    Ok(())
}

/// Which control plane this is: the one whose API server this is.
async fn installation(client: &Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    Ok(namespaces.get("kube-system").await?.uid().unwrap_or_default())
}

/// Ends what the controllers began when they end.
struct StopTasks(Arc<Context>);

impl Drop for StopTasks {
    fn drop(&mut self) {
        self.0.tasks.stop();
    }
}
