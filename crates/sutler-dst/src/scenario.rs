//! What a run is like: everything that a seed decides before it begins.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use sutler_provider::UniqueBy;
use sutler_sim::{Appears, Chances, Feature, Ids, OutageChance, Settings, WorkTimes};

use crate::{sets, snapshots, wire::Line};

/// What a seed is about. Some faults show only where many things come together, which chance alone
/// brings about too rarely: they have seeds of their own among all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Anything.
    Any,
    /// The platform seldom answers, and nothing else happens: its neighbour must not notice.
    Hanging,
    /// Machines can be told by their names alone, and some names begin with others.
    Names,
    /// Images are brought to the platform, changed and deleted.
    Images,
    /// Every guest is to be told of its start and its stop.
    Hooks,
    /// Snapshots are taken, by people and by schedules, gone back to and deleted.
    Snapshots,
    /// Machines, snapshots and images are copied.
    Copies,
    /// A set is scaled and updated, and its machines may have to be on hosts of their own.
    Sets,
    /// The platform is at the other end of a line, which is cut again and again.
    Wire,
    /// Groups of nodes grow and shrink, and their machines join a cluster.
    Nodes,
}

impl Theme {
    fn of(seed: u64) -> Self {
        match (seed % 16, seed % 48) {
            (_, 16 | 19 | 32) => Self::Wire,
            (_, 9 | 28) => Self::Nodes,
            (6, _) => Self::Hanging,
            (8, _) => Self::Names,
            (11, _) => Self::Images,
            (14, _) => Self::Hooks,
            (_, 5 | 18 | 35 | 45) => Self::Snapshots,
            (_, 7 | 20 | 41 | 47) => Self::Copies,
            (_, 15 | 26 | 42 | 44) => Self::Sets,
            _ => Self::Any,
        }
    }
}

impl Theme {
    /// Whether a run is about what hangs on machines.
    pub fn needs_machines(self) -> bool {
        matches!(self, Self::Snapshots | Self::Copies)
    }
}

/// What a run is like.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it is about.
    pub theme: Theme,
    /// The platform that gets into trouble.
    pub platform: Settings,
    /// Whether machines' names carry a hash.
    pub hashed: bool,
    /// The line to the platform, where it is not in the process itself.
    pub line: Option<Line>,
    /// How likely each fault of the platform is for one call.
    pub chances: Chances,
    /// How many records users make.
    pub machines: usize,
    /// Which part of them is on the platform that gets into trouble.
    pub on_main: f64,
    /// How long the trouble lasts.
    pub trouble: Duration,
    /// The pause between two things that users do, on average.
    pub user_pause: Duration,
    /// How likely an API call of a process fails or is slow.
    pub api_trouble: f64,
    /// Whether some of the slow calls are answered late, when the answer is old.
    pub late_answers: bool,
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
    /// Whether machines of a set have to be on hosts of their own.
    pub placed: bool,
    /// Whether machines of a set have disks that outlive them.
    pub disks: bool,
    /// A process ends exactly once, at this call, and users go through one machine's whole life.
    pub table: Option<u32>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Self {
        let mut any = Self::any(seed);
        // Some show a machine only once it is made.
        if seed % 17 == 15 {
            any.platform.appears = Appears::Made;
        }
        // Some tell of disks only when they are asked for one machine.
        if seed % 13 == 9 {
            any.platform.without.insert(Feature::ListedDisks);
        }
        // Some have an API that is slow to answer what it has long done.
        any.late_answers = seed % 7 == 5;
        // Throws of its own: a theme changes nothing for the seeds that have none.
        let rng = &mut StdRng::seed_from_u64(seed ^ 0x7e3e);
        match Theme::of(seed) {
            Theme::Any => any,
            Theme::Hanging => any.hanging(rng),
            Theme::Names => any.names(rng),
            Theme::Images => any.images(rng),
            Theme::Hooks => any.hooks(),
            Theme::Snapshots => any.snapshots(rng),
            Theme::Copies => any.copies(rng),
            Theme::Sets => any.sets(rng),
            Theme::Wire => any.wire(rng),
            Theme::Nodes => any.nodes(rng),
        }
    }

    fn hanging(mut self, rng: &mut StdRng) -> Self {
        self.platform.deadlines.make = Duration::from_secs(rng.random_range(25..40));
        Self {
            theme: Theme::Hanging,
            chances: Chances { lost_reply: rng.random_range(0.3..0.9), ..Chances::default() },
            machines: 6,
            on_main: 0.6,
            user_pause: Duration::from_millis(rng.random_range(300..3_000)),
            trouble: Duration::from_secs(rng.random_range(60..180)),
            api_trouble: 0.0,
            watch_trouble: 0.0,
            crash_after: 0,
            overlap: false,
            outside: false,
            ..self
        }
    }

    fn names(mut self, rng: &mut StdRng) -> Self {
        self.platform.token = false;
        self.platform.returns_id = false;
        if self.platform.unique_by == UniqueBy::Token {
            self.platform.unique_by = UniqueBy::Name;
        }
        self.platform.deadlines.make = Duration::from_secs(rng.random_range(25..40));
        // Only what comes late leaves a record looking while others have found theirs.
        let late = rng.random_range(0.2..0.6);
        Self {
            theme: Theme::Names,
            hashed: false,
            chances: Chances { late, duplicate: 0.0, ..self.chances },
            machines: 3,
            on_main: 1.0,
            user_pause: Duration::from_millis(rng.random_range(1_000..6_000)),
            trouble: Duration::from_secs(rng.random_range(60..240)),
            ..self
        }
    }

    fn images(mut self, rng: &mut StdRng) -> Self {
        self.platform.without.remove(&Feature::ImageImport);
        self.platform.work.image = Duration::from_millis(rng.random_range(0..10_000));
        Self { theme: Theme::Images, on_main: 1.0, ..self }
    }

    fn hooks(self) -> Self {
        // Nobody can be told of a stop that happens behind our back.
        let chances = Chances { late: 0.0, duplicate: 0.0, tamper: 0.0, ..self.chances };
        Self { theme: Theme::Hooks, chances, outside: false, ..self }
    }

    fn snapshots(mut self, rng: &mut StdRng) -> Self {
        self.platform.work.snapshot = Duration::from_millis(rng.random_range(0..6_000));
        // A platform that carries a request out a second time puts a machine back behind our back.
        let chances = Chances { duplicate: 0.0, ..self.chances };
        Self {
            theme: Theme::Snapshots,
            chances,
            machines: 2,
            on_main: 1.0,
            user_pause: snapshots::pause(rng),
            trouble: Duration::from_secs(rng.random_range(snapshots::LASTS)),
            ..self
        }
    }

    fn copies(mut self, rng: &mut StdRng) -> Self {
        self.platform.work.snapshot = Duration::from_millis(rng.random_range(0..3_000));
        self.platform.work.clone = Duration::from_millis(rng.random_range(0..8_000));
        Self {
            theme: Theme::Copies,
            machines: 2,
            on_main: 1.0,
            user_pause: Duration::from_millis(rng.random_range(1_000..8_000)),
            ..self
        }
    }

    fn sets(mut self, rng: &mut StdRng) -> Self {
        let placed = rng.random_bool(0.5);
        if placed {
            self.platform.hosts = sets::hosts();
        }
        Self {
            theme: Theme::Sets,
            placed,
            // No throw of its own: those without disks are as they were.
            disks: self.platform.seed / 48 % 2 == 1,
            machines: 1,
            on_main: 0.0,
            user_pause: Duration::from_millis(rng.random_range(4_000..20_000)),
            trouble: Duration::from_secs(rng.random_range(60..240)),
            // Places are decided by one process at a time.
            overlap: self.overlap && !placed,
            ..self
        }
    }

    fn wire(mut self, rng: &mut StdRng) -> Self {
        let extensions = rng.random_bool(0.5);
        if !extensions {
            // The wire form of others knows no tokens: a machine is told by its name, and an extra
            // that comes after its record is gone cannot be told at all.
            self.platform.token = false;
            self.hashed = true;
            self.chances.duplicate = 0.0;
            if self.platform.unique_by == UniqueBy::Token {
                self.platform.unique_by = UniqueBy::Name;
            }
        }
        let cut_within = Duration::from_millis(rng.random_range(1_000..40_000));
        let slow = rng.random_bool(0.7);
        let delay = Duration::from_millis(if slow { rng.random_range(1..600) } else { 0 });
        let line = Some(Line { extensions, delay, cut_within });
        Self { theme: Theme::Wire, line, on_main: 0.8, ..self }
    }

    fn nodes(mut self, rng: &mut StdRng) -> Self {
        // Most platforms of managed nodes tell nothing of a node but its group.
        let members = rng.random_bool(0.7);
        if members {
            self.platform.token = false;
            self.platform.unique_by = UniqueBy::None;
            self.platform.returns_id = false;
            self.platform.own_names = true;
            self.platform.ids = Ids::Increasing;
            self.chances.duplicate = 0.0;
            self.chances.foreign = 0.0;
            // One that is left half made cannot be told from somebody else's: it is shown and stays.
            self.chances.task_breaks = 0.0;
            // Nor can one that somebody switched off before it was found.
            self.chances.tamper = 0.0;
        }
        if rng.random_bool(0.5) {
            self.platform.appears = Appears::Made;
        }
        self.platform.work.create = self.platform.work.create.min(Duration::from_secs(6));
        // Now and then as many as fifty at once.
        let many = self.platform.seed / 48 % 8 == 7;
        Self {
            theme: Theme::Nodes,
            hashed: !members,
            machines: if many { 25 } else { rng.random_range(1..5) },
            on_main: 1.0,
            user_pause: Duration::from_millis(rng.random_range(2_000..20_000)),
            trouble: Duration::from_secs(rng.random_range(60..400)),
            outside: false,
            ..self
        }
    }

    fn any(seed: u64) -> Self {
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
            theme: Theme::Any,
            platform,
            hashed,
            line: None,
            chances,
            machines: rng.random_range(1..6),
            on_main: 0.85,
            trouble: Duration::from_secs(rng.random_range(20..240)),
            user_pause: Duration::from_millis(rng.random_range(500..20_000)),
            api_trouble: if rng.random_bool(0.5) { rng.random_range(0.0..0.15) } else { 0.0 },
            late_answers: false,
            watch_trouble: if rng.random_bool(0.5) { rng.random_range(0.0..0.3) } else { 0.0 },
            crash_after: if rng.random_bool(0.7) { rng.random_range(5..120) } else { 0 },
            overlap: rng.random_bool(0.3),
            outside: rng.random_bool(0.5),
            reap: true,
            placed: false,
            disks: false,
            table: None,
        }
    }

    /// One machine's whole life on a platform that behaves, with a crash at the `step`-th call.
    pub fn table(class: u64, step: u32) -> Self {
        let unique_by = [UniqueBy::Token, UniqueBy::Name, UniqueBy::None][(class % 3) as usize];
        Self {
            theme: Theme::Any,
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
            line: None,
            chances: Chances::default(),
            machines: 1,
            on_main: 1.0,
            trouble: Duration::from_secs(400),
            user_pause: Duration::from_secs(60),
            api_trouble: 0.0,
            late_answers: false,
            watch_trouble: 0.0,
            crash_after: 0,
            overlap: false,
            outside: false,
            reap: false,
            placed: false,
            disks: false,
            table: Some(step),
        }
    }
}
