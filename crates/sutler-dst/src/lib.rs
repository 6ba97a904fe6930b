//! Deterministic simulation of the whole control plane: the embedded API in memory, planner,
//! controllers and the simulated hypervisor, on virtual time, from one seed.
//!
//! A run has a time of trouble, in which processes crash at any I/O, two of them overlap, watches
//! lag, break and repeat themselves, the platform does everything that platforms do, and users edit
//! and delete at any moment; then a time of calm, after which everything must have settled. The
//! [`invariants`] are checked with every step. The same seed gives the same log, byte for byte.

pub mod api;
pub mod copies;
mod disks;
pub mod entropy;
pub mod fork;
pub mod garbage;
pub mod hooks;
pub mod ids;
pub mod images;
pub mod invariants;
pub mod log;
pub mod nodes;
pub mod platform;
pub mod process;
pub mod scenario;
pub mod sets;
pub mod snapshots;
pub mod users;
pub mod wire;
pub mod world;

use std::panic::AssertUnwindSafe;

pub use scenario::Scenario;
use sutler_control::rules::Rule;

/// What came of one run.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What broke, if anything did.
    pub violation: Option<String>,
    /// What happened, in order; short unless it was asked for.
    pub log: Vec<String>,
    /// A hash over everything that happened.
    pub hash: u64,
    /// How long it was, in virtual seconds.
    pub seconds: u64,
}

/// Runs one seed in this process. Libraries keep things per process that a run changes, so only the
/// first run of a process is like every other first one: see [`fork::Farm`].
pub fn run(seed: u64, scenario: Scenario, broken: Option<Rule>, keep_log: bool) -> Outcome {
    // A thread of its own: what is random per thread begins anew.
    let run = std::thread::Builder::new().name(format!("seed-{seed}")).stack_size(8 << 20).spawn(
        move || {
            entropy::begin(seed);
            sutler_control::rules::break_rule(broken);
            let log = log::Log::new(keep_log);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime can be made");
            let end = std::panic::catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(world::live(seed, scenario, log.clone()))
            }));
            // What is still running must not outlive the seed's thread.
            drop(runtime);
            let (violation, seconds) = match end {
                Ok(end) => end,
                Err(panic) => {
                    let text = panic
                        .downcast_ref::<String>()
                        .cloned()
                        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    (Some(format!("panic: {}", text.unwrap_or_default())), 0)
                }
            };
            let (lines, hash) = log.end();
            Outcome { seed, violation, log: lines, hash, seconds }
        },
    );
    let run = run.expect("a thread can be made");
    run.join().expect("a run catches its own panics")
}
