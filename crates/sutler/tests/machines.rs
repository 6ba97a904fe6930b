//! Machines from end to end: `sutler serve` with its controllers and the simulated hypervisor, the
//! same cases against the embedded API server and, where its programs are in the cache, against the
//! real kube-apiserver with `sutler serve --cluster`.
#![expect(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

/// Runs cases in both forms.
macro_rules! both {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn embedded() {
                crate::lab::run(crate::server::Form::Embedded, super::$case).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn cluster() {
                crate::lab::run(crate::server::Form::Cluster, super::$case).await;
            }
        })*
    };
}

/// Runs cases on a played cluster, each on a server of its own.
macro_rules! played {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn embedded() {
                crate::lab::run_playground(super::$case).await;
            }
        })*
    };
}

#[path = "machines/admission.rs"]
mod admission;
#[path = "machines/autoscaler.rs"]
mod autoscaler;
#[path = "machines/changes.rs"]
mod changes;
#[path = "machines/children.rs"]
mod children;
#[path = "machines/clones.rs"]
mod clones;
#[path = "machines/cluster_scaling.rs"]
mod cluster_scaling;
#[path = "machines/cut.rs"]
mod cut;
#[path = "machines/defects.rs"]
mod defects;
#[path = "machines/deployed.rs"]
mod deployed;
#[path = "machines/disks.rs"]
mod disks;
#[path = "machines/first.rs"]
mod first;
#[path = "machines/kill.rs"]
mod kill;
#[path = "machines/lab.rs"]
mod lab;
#[path = "machines/libvirt.rs"]
mod libvirt;
#[path = "machines/libvirt_neighbours.rs"]
mod libvirt_neighbours;
#[path = "machines/libvirt_refused.rs"]
mod libvirt_refused;
#[path = "machines/life.rs"]
mod life;
#[path = "machines/measured.rs"]
mod measured;
#[path = "machines/nodes.rs"]
mod nodes;
#[path = "machines/placement.rs"]
mod placement;
#[path = "machines/platform.rs"]
mod platform;
#[path = "machines/refused.rs"]
mod refused;
#[path = "machines/remote.rs"]
mod remote;
#[path = "machines/removal.rs"]
mod removal;
#[path = "machines/scaling.rs"]
mod scaling;
#[path = "machines/scheduler.rs"]
mod scheduler;
#[path = "machines/server.rs"]
mod server;
#[path = "machines/sets.rs"]
mod sets;
#[path = "machines/snapshots.rs"]
mod snapshots;
#[path = "machines/vpsie.rs"]
mod vpsie;
#[path = "machines/webhook.rs"]
mod webhook;
#[path = "machines/wire.rs"]
mod wire;
