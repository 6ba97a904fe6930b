//! What a run is like: everything that a seed decides before it begins.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use sutler_provider::UniqueBy;
use sutler_sim::{Chances, Feature, Ids, OutageChance, Settings, WorkTimes};

/// What a run is like.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The platform that gets into trouble.
    pub platform: Settings,
    /// Whether machines' names carry a hash.
    pub hashed: bool,
    /// How likely each fault of the platform is for one call.
    pub chances: Chances,
    /// How many records users make.
    pub machines: usize,
    /// How long the trouble lasts.
    pub trouble: Duration,
    /// The pause between two things that users do, on average.
    pub user_pause: Duration,
    /// How likely an API call of a process fails or is slow.
    pub api_trouble: f64,
    /// How likely a watch loses, repeats or delays what it carries.
    pub watch_trouble: f64,
    /// After about how many calls a process crashes; 0 for never.
    pub crash_after: u32,
    /// Whether two processes overlap now and then.
    pub overlap: bool,
    /// Whether things happen on the platform behind our back.
    pub outside: bool,
    /// Whether orphans are reaped.
    pub reap: bool,
    /// A process ends exactly once, at this call, and users go through one machine's whole life.
    pub table: Option<u32>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let token = rng.random_bool(0.75);
        let unique_by = match token {
            true => *[UniqueBy::Token, UniqueBy::Name, UniqueBy::None].choose(rng).expect("some"),
            false => *[UniqueBy::Name, UniqueBy::None].choose(rng).expect("some"),
        };
        let hashed = token && rng.random_bool(0.9) || rng.random_bool(0.8);
        let mut without = std::collections::BTreeSet::new();
        if rng.random_bool(0.5) {
            without.insert(Feature::Events);
        }
        without.insert(Feature::ImageImport);
        let quick = rng.random_bool(0.3);
        let some = |most: f64, rng: &mut StdRng| {
            if rng.random_bool(0.5) { rng.random_range(0.0..most) } else { 0.0 }
        };
        let chances = Chances {
            refuse: some(0.2, rng),
            error_after: some(0.2, rng),
            lost_reply: some(0.15, rng),
            late: some(0.2, rng),
            // An extra that comes after its record is gone can be told by its token alone.
            duplicate: if token { some(0.1, rng) } else { 0.0 },
            no_id: some(0.2, rng),
            task_fails: some(0.15, rng),
            task_breaks: some(0.1, rng),
            lag: some(0.5, rng),
            partial: some(0.4, rng),
            tamper: some(0.02, rng),
            vanish: some(0.02, rng),
            foreign: some(0.03, rng),
            outage: OutageChance {
                chance: some(0.02, rng),
                lasts: Duration::from_secs(rng.random_range(1..120)),
                hang: rng.random_bool(0.5),
            },
        };
        let work = |most: u64, rng: &mut StdRng| {
            Duration::from_millis(if quick { 0 } else { rng.random_range(0..most) })
        };
        let platform = Settings {
            seed,
            unique_by,
            token,
            ids: if rng.random_bool(0.4) { Ids::Reused } else { Ids::Increasing },
            returns_id: token || rng.random_bool(0.6),
            tasks: rng.random_bool(0.6),
            work: WorkTimes {
                create: work(8_000, rng),
                start: work(2_000, rng),
                boot: work(5_000, rng),
                stop: work(1_000, rng),
                shutdown: work(14_000, rng),
                delete: work(4_000, rng),
                reconfigure: work(3_000, rng),
                ..WorkTimes::default()
            },
            list_lag: Duration::from_millis(if rng.random_bool(0.5) {
                0
            } else {
                rng.random_range(0..8_000)
            }),
            deadlines: sutler_sim::DeadlineSettings {
                look: Duration::from_secs(5),
                list: Duration::from_secs(10),
                make: Duration::from_secs(rng.random_range(12..40)),
                change: Duration::from_secs(15),
                transfer: Duration::from_secs(60),
            },
            without,
            history: true,
            ..Settings::default()
        };
        Self {
            platform,
            hashed,
            chances,
            machines: rng.random_range(1..6),
            trouble: Duration::from_secs(rng.random_range(20..240)),
            user_pause: Duration::from_millis(rng.random_range(500..20_000)),
            api_trouble: if rng.random_bool(0.5) { rng.random_range(0.0..0.15) } else { 0.0 },
            watch_trouble: if rng.random_bool(0.5) { rng.random_range(0.0..0.3) } else { 0.0 },
            crash_after: if rng.random_bool(0.7) { rng.random_range(5..120) } else { 0 },
            overlap: rng.random_bool(0.3),
            outside: rng.random_bool(0.5),
            reap: true,
            table: None,
        }
    }

    /// One machine's whole life on a platform that behaves, with a crash at the `step`-th call.
    pub fn table(class: u64, step: u32) -> Self {
        let unique_by = [UniqueBy::Token, UniqueBy::Name, UniqueBy::None][(class % 3) as usize];
        Self {
            platform: Settings {
                unique_by,
                tasks: class >= 3,
                work: WorkTimes {
                    create: Duration::from_millis(if class >= 3 { 1500 } else { 0 }),
                    delete: Duration::from_millis(if class >= 3 { 700 } else { 0 }),
                    reconfigure: Duration::from_millis(if class >= 3 { 900 } else { 0 }),
                    ..WorkTimes::default()
                },
                deadlines: sutler_sim::DeadlineSettings {
                    look: Duration::from_secs(5),
                    list: Duration::from_secs(10),
                    make: Duration::from_secs(15),
                    change: Duration::from_secs(15),
                    transfer: Duration::from_secs(60),
                },
                without: [Feature::ImageImport].into(),
                history: true,
                ..Settings::default()
            },
            hashed: true,
            chances: Chances::default(),
            machines: 1,
            trouble: Duration::from_secs(400),
            user_pause: Duration::from_secs(60),
            api_trouble: 0.0,
            watch_trouble: 0.0,
            crash_after: 0,
            overlap: false,
            outside: false,
            reap: false,
            table: Some(step),
        }
    }
}
