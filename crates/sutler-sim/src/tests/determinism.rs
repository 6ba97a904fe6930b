//! The same seed and calls give the same platform.

use futures::{FutureExt as _, StreamExt as _};

use super::*;
use crate::{Chances, Ids, OutageChance};

/// A busy hour, told in every detail.
fn hour(seed: u64) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut settings = slow_settings();
        settings.seed = seed;
        settings.jitter = 40;
        settings.ids = Ids::Reused;
        settings.list_lag = Duration::from_secs(3);
        settings.faults = Chances {
            refuse: 0.05,
            error_after: 0.05,
            lost_reply: 0.05,
            late: 0.05,
            duplicate: 0.05,
            no_id: 0.05,
            task_fails: 0.05,
            task_breaks: 0.05,
            lag: 0.5,
            partial: 0.1,
            tamper: 0.05,
            vanish: 0.02,
            foreign: 0.02,
            outage: OutageChance { chance: 0.01, lasts: Duration::from_secs(20), hang: true },
        };
        let sim = sim(settings);
        let limit = Duration::from_secs(30);
        let mut told = String::new();
        let mut events = None;
        for index in 0..100 {
            if events.is_none() {
                let stream = tokio::time::timeout(limit, sim.events()).await;
                events = stream.ok().and_then(Result::ok);
            }
            let made =
                tokio::time::timeout(limit, sim.create(request(&format!("m{}", index % 30))));
            told += &format!("{:?}\n", made.await);
            let list = tokio::time::timeout(limit, sim.list()).await;
            told += &format!("{list:?}\n");
            if let Some(machine) = sim.machines().get(index % 7) {
                let (id, name) = (machine.machine.id.clone(), machine.machine.name.clone());
                let gone = tokio::time::timeout(limit, delete(&sim, &id, &name)).await;
                told += &format!("{gone:?}\n");
            }
            while let Some(next) = events.as_mut().and_then(|stream| stream.next().now_or_never()) {
                told += &format!("{next:?}\n");
                if next.is_none() {
                    events = None;
                }
            }
        }
        pass(1000.0).await;
        told + &format!("{:?}\n{:?}\n{:?}", sim.machines(), sim.history(), sim.calls())
    })
}

#[test]
fn the_same_seed_gives_the_same_hour() {
    let first = hour(5);
    assert!(first.contains("Gone(") && first.contains("Indeterminate") && first.len() > 10_000);
    assert_eq!(first, hour(5));
    assert_ne!(first, hour(6));
}
