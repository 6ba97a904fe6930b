//! A simulated hypervisor.
