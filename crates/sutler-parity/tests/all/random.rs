//! Random programs: the same operations to ours and to the real server, every answer compared.

use std::sync::atomic::{AtomicU64, Ordering};

use sutler_parity::diff::diff;
use sutler_parity::ours::{self, Form};
use sutler_parity::{peer, random, suite};

const STEPS: usize = 60;
/// Threads that send programs.
const AT_ONCE: usize = 4;

fn seeds() -> u64 {
    std::env::var("SUTLER_RANDOM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

/// What differs for a seed on the first so many steps; empty when nothing does.
fn difference(seed: u64, steps: usize, form: Form) -> String {
    let Some(peer) = peer::shared() else { return String::new() };
    let program = random::program(seed, steps);
    // The shortest program is searched for with others of the same seed and length.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let ns = format!("p-random-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let run = |target| suite::run_case(&target, &ns, |case| random::run(case, &program));
    let (real, ours) = (run(peer.target()), run(ours::shared(form).target()));
    let mut report = diff(&real.lines, &ours.lines);
    for failure in real.failures.iter().chain(&ours.failures) {
        report.push_str(&format!(" ! {failure}\n"));
    }
    report
}

/// The shortest beginning of a program that still differs: programs of one seed share their
/// beginning, so this is a search for the first step that matters.
fn shortest(seed: u64, form: Form) -> (usize, String) {
    let (mut fine, mut bad) = (0, STEPS);
    let mut report = difference(seed, bad, form);
    while bad - fine > 1 {
        let middle = fine + (bad - fine) / 2;
        let found = difference(seed, middle, form);
        if found.is_empty() {
            fine = middle;
        } else {
            (bad, report) = (middle, found);
        }
    }
    (bad, report)
}

fn compare(form: Form, from: u64) {
    if peer::shared().is_none() {
        return;
    }
    let next = AtomicU64::new(from);
    let failed = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds() || failed.load(Ordering::Relaxed) != u64::MAX {
                        return;
                    }
                    if !difference(seed, STEPS, form).is_empty() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = failed.into_inner();
    let (steps, report) = if seed == u64::MAX { (0, String::new()) } else { shortest(seed, form) };
    assert!(seed == u64::MAX, "seed {seed} differs after {steps} steps on {form:?}\n{report}");
    println!("{} random programs as they should be on {form:?}", seeds());
}

#[test]
fn memory() {
    compare(Form::Memory, 0);
}

#[test]
fn sqlite() {
    compare(Form::Sqlite, 1_000_000);
}
