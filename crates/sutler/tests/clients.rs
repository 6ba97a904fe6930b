//! Real clients against one server on SQLite: kubectl, the Python client, Helm and kube-rs.
//!
//! The clients come from the cache that `hack/peers.sh` fills; without one, its tests say that they
//! are skipped. `SUTLER_TEST_KUBECONFIG` points all of them at another server, such as the real
//! kube-apiserver with our CRDs, so that what they expect can be compared with it.

#[path = "clients/controller.rs"]
mod controller;
#[path = "clients/docs.rs"]
mod docs;
#[path = "clients/embedded.rs"]
mod embedded;
#[path = "clients/helm.rs"]
mod helm;
#[path = "clients/kubectl/access.rs"]
mod kubectl_access;
#[path = "clients/kubectl/apply.rs"]
mod kubectl_apply;
#[path = "clients/kubectl/change.rs"]
mod kubectl_change;
#[path = "clients/kubectl/create.rs"]
mod kubectl_create;
#[path = "clients/kubectl/delete.rs"]
mod kubectl_delete;
#[path = "clients/kubectl/read.rs"]
mod kubectl_read;
#[path = "clients/kubectl/watch.rs"]
mod kubectl_watch;
#[path = "clients/python.rs"]
mod python;
#[path = "support/runs.rs"]
mod runs;
#[path = "clients/support.rs"]
mod support;
