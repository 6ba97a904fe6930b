//! Processes of the control plane, and how they end.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use kube::Client;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use sutler_control::{Outside, Settings, run};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    api::{Dice, FaultyApi},
    hooks::Guests,
    platform::Platforms,
    scenario::Theme,
    world::World,
};

/// A process crashes when its fuse has burnt down: at a call of the API or the platform, before or
/// after it was carried out.
#[derive(Clone)]
pub struct Fuse(Arc<Inner>);

struct Inner {
    left: AtomicI64,
    dead: Notify,
    name: String,
    log: crate::log::Log,
}

impl Fuse {
    /// A fuse that lasts for this many calls; without end below 0.
    pub fn new(calls: i64, name: &str, log: crate::log::Log) -> Self {
        Self(Arc::new(Inner {
            left: AtomicI64::new(calls),
            dead: Notify::new(),
            name: name.to_owned(),
            log,
        }))
    }

    /// Burns one step down. Whoever burnt the last one goes no further.
    pub async fn burn(&self, when: &str, what: &str) {
        if self.0.left.load(Ordering::Relaxed) < 0 {
            return;
        }
        if self.0.left.fetch_sub(1, Ordering::Relaxed) <= 1 {
            self.0.left.store(1, Ordering::Relaxed);
            self.0.log.line(&self.0.name, format_args!("crashes {when} {what}"));
            self.0.dead.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Whether it never burnt down.
    pub fn is_whole(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) > 1
    }

    /// Never burns down from now on.
    pub fn put_out(&self) {
        self.0.left.store(-1, Ordering::Relaxed);
    }

    async fn burnt(&self) {
        self.0.dead.notified().await;
    }
}

/// A process that is started again whenever it crashes.
pub struct Process {
    task: JoinHandle<()>,
    state: Arc<Mutex<State>>,
}

struct State {
    dice: Arc<Mutex<Dice>>,
    fuse: Option<Fuse>,
    calm: bool,
}

impl Process {
    /// Starts a process.
    pub fn start(world: &Arc<World>, name: &str, seed: u64) -> Self {
        let scenario = &world.scenario;
        let dice = Arc::new(Mutex::new(Dice {
            rng: StdRng::seed_from_u64(seed),
            calls: scenario.api_trouble,
            watches: scenario.watch_trouble,
            late: scenario.late_answers,
        }));
        let state = Arc::new(Mutex::new(State { dice: dice.clone(), fuse: None, calm: false }));
        let task =
            tokio::spawn(again_and_again(world.clone(), name.to_owned(), seed, state.clone()));
        Self { task, state }
    }

    /// From now on nothing happens to it any more.
    pub fn calm(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.calm = true;
        if let Some(fuse) = &state.fuse {
            fuse.put_out();
        }
        let mut dice = state.dice.lock().unwrap_or_else(PoisonError::into_inner);
        dice.calls = 0.0;
        dice.watches = 0.0;
    }

    /// Kills it.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// The controllers of nodes, where a run is about nodes.
async fn nodes(world: &World, client: Client) {
    if world.scenario.theme != Theme::Nodes {
        return std::future::pending().await;
    }
    let settings = sutler_nodes::Settings {
        concurrency: 2,
        scaling: false,
        ..sutler_nodes::Settings::default()
    };
    let connector = Arc::new(sutler_nodes::Kubeconfigs);
    sutler_nodes::run(client, settings, Arc::new(world.clock), connector).await;
}

async fn again_and_again(world: Arc<World>, name: String, seed: u64, state: Arc<Mutex<State>>) {
    let mut rng = StdRng::seed_from_u64(seed ^ 0xf05e);
    for life in 0u64.. {
        let (fuse, dice) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = match (world.scenario.table, world.scenario.crash_after, state.calm) {
                (Some(step), _, _) if life == 0 => i64::from(step),
                (Some(_), _, _) | (_, 0, _) | (_, _, true) => -1,
                (None, mean, false) => i64::from(rng.random_range(1..=mean * 2)),
            };
            let fuse = Fuse::new(calls, &name, world.log.clone());
            state.fuse = Some(fuse.clone());
            (fuse, state.dice.clone())
        };
        world.log.line(&name, "starts");
        let api = FaultyApi::new(&world, &name, dice, fuse.clone());
        let client = Client::new(api, "default");
        let settings = Settings {
            identity: format!("{name}-{life}"),
            seed: seed ^ life,
            concurrency: 2,
            ..Settings::default()
        };
        let outside = Outside {
            clock: Arc::new(world.clock),
            connector: Arc::new(Platforms::new(
                world.clone(),
                &name,
                seed.wrapping_add(life),
                fuse.clone(),
            )),
            web: Arc::new(Guests::new(world.clone(), &name, seed.wrapping_add(life), fuse.clone())),
        };
        let nodes = nodes(&world, client.clone());
        tokio::select! {
            biased;
            () = fuse.burnt() => {}
            () = nodes => {}
            result = run(client, settings, outside, Box::new(|_| {})) => {
                if let Err(error) = result {
                    world.log.line(&name, format_args!("ends: {error}"));
                }
            }
        }
        let pause = Duration::from_millis(rng.random_range(0..5_000));
        tokio::time::sleep(pause).await;
    }
}
