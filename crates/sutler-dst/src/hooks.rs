//! Guests that are told of their start and their stop, by command and by request.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use kube::ResourceExt as _;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use sutler_api::infra::{PowerState, VirtualMachine};
use sutler_control::machine::hooks::Web;
use sutler_provider::{Error, MachineId, Power, Result, Token};
use sutler_sim::Sim;

use crate::{process::Fuse, world::World};

/// What a machine asks for after its start and before its stop.
pub fn lifecycle(rng: &mut StdRng) -> Value {
    let mut handler = |word: &str| match rng.random_range(0..3) {
        0 => json!({ "exec": { "command": [word] } }),
        1 => json!({ "httpGet": { "path": format!("/{word}"), "port": 80 } }),
        _ => json!({
            "exec": { "command": [word] }, "httpGet": { "path": format!("/{word}"), "port": 80 },
        }),
    };
    json!({ "postStart": handler("started"), "preStop": handler("stopping") })
}

/// The guests' web servers as one process reaches them.
pub struct Guests {
    world: Arc<World>,
    process: String,
    life: u64,
    fuse: Fuse,
    dice: Mutex<StdRng>,
}

impl Guests {
    /// For one life of a process.
    pub fn new(world: Arc<World>, process: &str, life: u64, fuse: Fuse) -> Self {
        let dice = Mutex::new(StdRng::seed_from_u64(life ^ 0x9e7));
        Self { world, process: process.to_owned(), life, fuse, dice }
    }
}

#[async_trait]
impl Web for Guests {
    async fn get(&self, url: &str, timeout: Duration) -> Result<()> {
        let what = format!("GET {url}");
        self.fuse.burn("before", &what).await;
        let how: f64 = self.dice.lock().unwrap_or_else(PoisonError::into_inner).random();
        self.world.judge(|judge| {
            let reader = (self.process.clone(), self.life);
            for sim in self.world.sims.values() {
                judge.hooks.requested(&reader, url, sim);
            }
        });
        let result = if self.world.is_calm() || how < 0.7 {
            Ok(())
        } else if how < 0.8 {
            tokio::time::sleep(timeout).await;
            Err(Error::indeterminate("no answer came"))
        } else {
            Err(Error::unavailable("the guest refused"))
        };
        self.world.log.line(&self.process, format_args!("{what} -> {result:?}"));
        self.fuse.burn("after", &what).await;
        result
    }
}

/// One life of a process.
pub type Reader = (String, u64);

/// Which guests were told what, and by whom.
#[derive(Default)]
pub struct Hooks {
    started: BTreeSet<MachineId>,
    stopping: BTreeSet<(Reader, MachineId)>,
    /// Where requests of stops went: a guest that boots again just then hears nothing of them.
    stops_called: BTreeSet<(Reader, String)>,
    /// Where requests of starts went: a machine that is gone behind our back cannot be told.
    called: BTreeSet<String>,
}

impl Hooks {
    /// A command is run in a guest.
    pub fn executed(&mut self, reader: &Reader, id: &MachineId, command: &[String]) {
        match command.first().map(String::as_str) {
            Some("stopping") => {
                self.stopping.insert((reader.clone(), id.clone()));
            }
            _ => {
                self.started.insert(id.clone());
            }
        }
    }

    /// A request is sent to a guest.
    pub fn requested(&mut self, reader: &Reader, url: &str, sim: &Sim) {
        let word = url.rsplit('/').next().unwrap_or_default().to_owned();
        match word.as_str() {
            "stopping" => self.stops_called.insert((reader.clone(), url.to_owned())),
            _ => self.called.insert(url.to_owned()),
        };
        for truth in sim.machines() {
            if truth.machine.ips.iter().any(|ip| url.contains(&format!("//{ip}:"))) {
                self.executed(reader, &truth.machine.id, std::slice::from_ref(&word));
            }
        }
    }

    /// A machine is about to be stopped or destroyed by its record, which says that it carries this token:
    /// its guest was told.
    pub fn judge_stop(
        &self,
        reader: &Reader,
        id: &MachineId,
        token: &Token,
        vm: &VirtualMachine,
        sim: &Sim,
    ) -> std::result::Result<(), String> {
        let asked = vm.spec.lifecycle.as_ref().is_some_and(|hooks| hooks.pre_stop.is_some());
        let status = vm.status.as_ref();
        let its = status.is_some_and(|status| {
            status.id.as_ref() == Some(&id.0) && status.power_state == Some(PowerState::On)
        });
        let on = |truth: &sutler_sim::Truth| {
            // Another machine, the record's next one too, may have been given the ID of a dead one; the
            // platform refuses then.
            let carried = truth.machine.token.as_ref();
            let own = carried.is_some_and(|carried| carried == token)
                && vm.uid().as_ref() == Some(&token.uid);
            let runs = truth.machine.power == Power::On && !truth.broken;
            truth.machine.id == *id && own && runs
        };
        if !asked || !its || !sim.machines().iter().any(on) {
            return Ok(());
        }
        let at = |ip: &String| {
            let mut own = self.stops_called.iter().filter(|(who, _)| who == reader);
            own.any(|(_, url)| url.contains(&format!("//{ip}:")))
        };
        let told = self.stopping.contains(&(reader.clone(), id.clone()));
        match told || status.is_some_and(|status| status.ips.iter().any(at)) {
            true => Ok(()),
            false => Err(format!("hooks: {} is stopped before it was told", vm.name_any())),
        }
    }

    /// A record says that its machine is on: its guest was told. One that goes may find a second machine
    /// of its own, which nobody has to tell anything.
    pub fn judge_written(&self, vm: &VirtualMachine) -> std::result::Result<(), String> {
        if vm.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let asked = vm.spec.lifecycle.as_ref().is_some_and(|hooks| hooks.post_start.is_some());
        let status = vm.status.as_ref().filter(|_| asked);
        let on = status.filter(|status| status.power_state == Some(PowerState::On));
        let Some(id) = on.and_then(|status| status.id.clone()) else { return Ok(()) };
        let ips = status.into_iter().flat_map(|status| &status.ips);
        // A request needs an address; one that never comes is given up, and said in an event.
        if ips.clone().next().is_none() {
            return Ok(());
        }
        let called = |ip: &String| self.called.iter().any(|url| url.contains(&format!("//{ip}:")));
        match self.started.contains(&MachineId(id.clone())) || ips.into_iter().any(called) {
            true => Ok(()),
            false => Err(format!("hooks: {} is on as {id} before it was told", vm.name_any())),
        }
    }
}
