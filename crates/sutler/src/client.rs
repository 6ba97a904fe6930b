//! The client side: where the server is, what it serves, and how requests to it are made.

pub(crate) mod api;
pub(crate) mod discovery;
pub(crate) mod errors;
pub(crate) mod fields;
pub(crate) mod jsonpath;
pub(crate) mod kubeconfig;
pub(crate) mod manifests;
pub(crate) mod openapi;
pub(crate) mod target;
pub(crate) mod watch;
pub(crate) mod yaml;
