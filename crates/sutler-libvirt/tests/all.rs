//! The provider on libvirt itself: on its driver for tests, and on QEMU where that can run.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "all/boots.rs"]
mod boots;
#[path = "all/conformance.rs"]
mod conformance;
#[path = "all/corner.rs"]
mod corner;
#[path = "all/fetched.rs"]
mod fetched;
#[path = "all/hardware.rs"]
mod hardware;
#[path = "all/lab.rs"]
mod lab;
#[path = "all/outage.rs"]
mod outage;
#[path = "all/refused.rs"]
mod refused;
#[path = "all/remote.rs"]
mod remote;
#[path = "all/session.rs"]
mod session;
