//! Machines that are to be off once they are made. VPSie switches on what it makes, so they are switched
//! off when they show. Who forgets it does no harm: whoever compares the machine with its record switches
//! it off then.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use sutler_provider::{Machine, Power};

use super::{Inner, show};
use crate::client::Action;

/// Names of machines that are to be off, and until when they are looked for.
#[derive(Debug, Default)]
pub(super) struct OffWanted(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    names: BTreeMap<String, Timestamp>,
    /// Whether somebody looks for them.
    watched: bool,
}

impl OffWanted {
    fn with<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A machine that is still to be switched off is not at rest.
    pub(super) fn mark(&self, mut machine: Machine) -> Machine {
        machine.busy |= self.with(|waiting| waiting.names.contains_key(&machine.name));
        machine
    }

    /// Forgets a machine that was not asked for after all.
    pub(super) fn forget(&self, name: &str) {
        self.with(|waiting| waiting.names.remove(name));
    }
}

impl Inner {
    /// Sees to it that a machine is off once it shows.
    pub(super) fn want_off(self: &Arc<Self>, name: &str) {
        let until = self.clock.now().saturating_add(self.settings.list_lag);
        let until = until.unwrap_or(Timestamp::MAX);
        let begin = self.off.with(|waiting| {
            waiting.names.insert(name.to_owned(), until);
            !std::mem::replace(&mut waiting.watched, true)
        });
        if begin {
            let inner = self.clone();
            tokio::spawn(async move { inner.watch().await });
        }
    }

    async fn watch(&self) {
        loop {
            tokio::time::sleep(self.poll).await;
            let now = self.clock.now();
            let done = self.off.with(|waiting| {
                waiting.names.retain(|_, until| *until > now);
                waiting.watched = !waiting.names.is_empty();
                !waiting.watched
            });
            if done {
                return;
            }
            // What cannot be read now is read the next time.
            match self.api.list_vms().await {
                Ok(vms) => {
                    for vm in &vms {
                        if let Some(machine) = show::vm(self.settings.dialect, vm) {
                            self.switch_off(&machine).await;
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "machines that are to be off cannot be listed")
                }
            }
        }
    }

    async fn switch_off(&self, machine: &Machine) {
        let name = &machine.name;
        if !self.off.with(|waiting| waiting.names.contains_key(name)) {
            return;
        }
        match machine.power {
            Power::Off => self.off.forget(name),
            Power::On => {
                if let Err(error) = self.api.act(&machine.id.0, Action::Stop).await {
                    tracing::debug!(%error, machine = %machine.id, "it is not switched off yet");
                }
            }
            Power::Paused | Power::Unknown => {}
        }
    }
}
