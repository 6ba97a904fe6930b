//! The rules that keep record and machine in agreement, as things that must hold at every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::ResourceExt as _;
use sutler_api::{
    conditions,
    infra::VirtualMachine,
    names::{condition_types, finalizers},
};
use sutler_provider::{Accepted, DeleteRequest, ErrorKind, Result, Token, UniqueBy};
use sutler_sim::{Cause, Happened, Sim, Truth};
use tokio::time::Instant;

/// What has been seen so far, and what was wrong with it.
#[derive(Default)]
pub struct Judge {
    /// The first thing that was wrong.
    pub violation: Option<String>,
    /// Records that exist, by UID.
    pub records: BTreeMap<String, VirtualMachine>,
    /// Records that are off the books, by UID: whether their machine may be left.
    pub gone: BTreeMap<String, bool>,
    creates: Vec<Create>,
    lists: BTreeMap<(String, String), Instant>,
    judged: BTreeMap<String, usize>,
    ever: BTreeSet<(String, String)>,
    reported: BTreeSet<(String, String)>,
    /// Machines that carried these tokens once: whose they are, whatever is done to the tokens.
    owners: BTreeMap<(String, String), Option<String>>,
    tampered: BTreeSet<String>,
}

struct Create {
    platform: String,
    token: Token,
    sent: Instant,
    /// Whether it is known, and to whom it matters, that it did nothing or what it did.
    answered: bool,
}

impl Judge {
    fn wrong(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A create leaves a process.
    pub fn create_sent(&mut self, platform: &str, token: &Token) -> usize {
        self.creates.push(Create {
            platform: platform.to_owned(),
            token: token.clone(),
            sent: Instant::now(),
            answered: false,
        });
        self.creates.len() - 1
    }

    /// It was answered.
    pub fn create_answered(&mut self, number: usize, result: &Result<Accepted>) {
        let known = match result {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), ErrorKind::Indeterminate | ErrorKind::Internal),
        };
        self.creates[number].answered |= known;
    }

    /// Rules 1 and 2, at the moment that a create is sent: the intent is on record, nothing of the
    /// record is there or may still come.
    pub fn judge_create(&mut self, number: usize, sim: &Sim, make: Duration) {
        let (platform, token, now) = {
            let create = &self.creates[number];
            (create.platform.clone(), create.token.clone(), create.sent)
        };
        let intent = self
            .records
            .get(&token.uid)
            .and_then(|vm| vm.annotations().get(sutler_api::names::annotations::TOKEN).cloned());
        if intent.as_ref() != Some(&token.to_string()) && !self.gone.contains_key(&token.uid) {
            self.wrong(format!("rule 1: create of {token} was sent with {intent:?} on record"));
        }
        if self.gone.contains_key(&token.uid) {
            self.wrong(format!("rule 1: create of {token} was sent for a record that is gone"));
        }
        let there: Vec<String> = sim
            .machines()
            .iter()
            .filter(|truth| self.owner(&platform, truth).as_deref() == Some(&token.uid))
            .map(|truth| format!("{} {:?}", truth.machine.id, truth.machine.token))
            .collect();
        if !there.is_empty() && sim.settings().unique_by != UniqueBy::None {
            self.wrong(format!("rule 2: create of {token} was sent while {there:?} is there"));
        }
        let open = self.creates[..number].iter().any(|earlier| {
            earlier.platform == platform
                && earlier.token.uid == token.uid
                && !earlier.answered
                && now - earlier.sent < make
        });
        if open {
            self.wrong(format!(
                "rule 2: create of {token} was sent while the outcome of an earlier one is open"
            ));
        }
    }

    /// Rule 9: one list per interval and process, whatever the number of those who wait.
    pub fn list_sent(&mut self, platform: &str, process: &str) {
        let key = (platform.to_owned(), process.to_owned());
        self.lists.insert(key, Instant::now());
    }

    /// Rule 5, as far as the request itself tells: a delete names its proof.
    pub fn delete_sent(&mut self, platform: &str, request: &DeleteRequest) {
        let _ = (platform, request);
    }

    /// Whose a machine is: by the token that it was made with.
    fn owner(&self, platform: &str, truth: &Truth) -> Option<String> {
        let created = truth.machine.created_at.map(|at| at.to_string()).unwrap_or_default();
        let serial = (platform.to_owned(), format!("{}@{created}", truth.machine.id));
        match self.owners.get(&serial) {
            Some(owner) => owner.clone(),
            None => truth.machine.token.as_ref().map(|token| token.uid.clone()),
        }
    }

    /// Judges what happened on a platform since the last time.
    pub fn judge_platform(&mut self, platform: &str, sim: &Sim) {
        let history = sim.history();
        let from = self.judged.insert(platform.to_owned(), history.len()).unwrap_or(0);
        for change in &history[from..] {
            let uid = change.token.as_ref().map(|token| token.uid.clone());
            match (change.what, change.cause) {
                (Happened::Made, Cause::Outside) => {}
                (Happened::Made, _) => {
                    let Some(uid) = &uid else { continue };
                    self.ever.insert((uid.clone(), change.id.0.clone()));
                }
                (Happened::Gone | Happened::Changed, Cause::Outside) => {
                    self.tampered.extend(uid);
                }
                (Happened::Changed, _) => {}
                (Happened::Gone, _) => {
                    // Rule 5: what we delete is ours.
                    let by = change.by.as_ref().map(|owner| owner.token.uid.clone());
                    if let Some(by) = by
                        && uid.as_ref() != Some(&by)
                        && !self.tampered.contains(&by)
                    {
                        self.wrong(format!(
                            "rule 5: machine {} of {uid:?} was deleted for {by}",
                            change.id
                        ));
                    }
                    // Rule 8: what has no record is reported first.
                    if let Some(uid) = &uid
                        && !self.records.contains_key(uid)
                        && self.gone.contains_key(uid)
                        && !self.reported.contains(&(platform.to_owned(), change.id.0.clone()))
                        && !self.records.values().any(|vm| vm.uid().as_deref() == Some(uid))
                    {
                        let since_gone = self.gone.get(uid).copied().unwrap_or(false);
                        if !since_gone && change.by.is_some() {
                            self.wrong(format!(
                                "rule 8: orphan {} was deleted before it was reported",
                                change.id
                            ));
                        }
                    }
                }
            }
        }
        // Never two at any instant, where the platform can see to that.
        if sim.settings().unique_by != UniqueBy::None {
            let mut count: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for truth in sim.machines() {
                if let Some(owner) = self.owner(platform, &truth)
                    && !self.tampered.contains(&owner)
                {
                    count.entry(owner).or_default().push(truth.machine.id.0.clone());
                }
            }
            if let Some((uid, ids)) = count.into_iter().find(|(_, ids)| ids.len() > 1) {
                self.wrong(format!("rule 2: {uid} has the machines {ids:?} at the same time"));
            }
        }
    }

    /// A Provider reports orphans.
    pub fn orphans_reported(&mut self, platform: &str, ids: impl IntoIterator<Item = String>) {
        self.reported.extend(ids.into_iter().map(|id| (platform.to_owned(), id)));
    }

    /// A record was written.
    pub fn record_written(&mut self, new: &VirtualMachine) {
        let uid = new.uid().unwrap_or_default();
        let old = self.records.insert(uid.clone(), new.clone());
        let status = new.status.clone().unwrap_or_default();
        let before = old.as_ref().and_then(|vm| vm.status.clone()).unwrap_or_default();
        // Rule 4: what is said to be on, or ready, was there.
        let ready = conditions::is_true(&status.conditions, condition_types::READY);
        if ready || status.power_state.is_some() {
            let seen = status.id.as_ref().is_some_and(|id| {
                self.ever.contains(&(uid.clone(), id.clone())) || self.tampered.contains(&uid)
            });
            if !seen {
                self.wrong(format!(
                    "rule 4: {} says ready={ready} power={:?} of {:?}, which never was",
                    new.name_any(),
                    status.power_state,
                    status.id
                ));
            }
        }
        // Rule 11: last known facts stay.
        if before.incarnation == status.incarnation
            && before.id == status.id
            && !before.ips.is_empty()
            && status.ips.is_empty()
        {
            self.wrong(format!("rule 11: {} lost its addresses", new.name_any()));
        }
        // Rule 7: one claimant per machine.
        if let Some(id) = &status.id {
            let other = self.records.values().find(|other| {
                other.uid() != new.uid()
                    && other.spec.provider_ref == new.spec.provider_ref
                    && other.status.as_ref().is_some_and(|other| {
                        other.id.as_ref() == Some(id)
                            && other.created_at.is_some()
                            && other.created_at == status.created_at
                    })
            });
            if let Some(other) = other {
                let (a, b) = (new.name_any(), other.name_any());
                self.wrong(format!("rule 7: {a} and {b} both claim machine {id}"));
            }
        }
        let (was, is) =
            (old.as_ref().and_then(|vm| vm.metadata.generation), new.metadata.generation);
        if was > is {
            self.wrong(format!("the generation of {} went back", new.name_any()));
        }
    }

    /// A record went off the books: rule 6.
    pub fn record_gone(&mut self, vm: &VirtualMachine, sims: &BTreeMap<String, Sim>) {
        let uid = vm.uid().unwrap_or_default();
        let last = self.records.remove(&uid);
        let last = last.as_ref().unwrap_or(vm);
        let retained = last.spec.deletion_policy == Some(sutler_api::infra::DeletionPolicy::Retain);
        let forgotten = last
            .annotations()
            .get(sutler_api::names::annotations::FORGET)
            .is_some_and(|value| value == "true");
        self.gone.insert(uid.clone(), retained || forgotten);
        let held = last.finalizers().iter().any(|f| f == finalizers::VIRTUAL_MACHINE);
        if retained || forgotten || self.tampered.contains(&uid) && !held {
            return;
        }
        for (platform, sim) in sims {
            for truth in sim.machines() {
                if self.owner(platform, &truth).as_deref() == Some(&uid) {
                    self.wrong(format!(
                        "rule 6: {} is off the books and machine {} is still there",
                        vm.name_any(),
                        truth.machine.id
                    ));
                }
            }
        }
    }

    /// After the calm: machines = records.
    pub fn judge_end(&mut self, sims: &BTreeMap<String, Sim>) {
        for vm in self.records.clone().into_values() {
            let name = vm.name_any();
            let status = vm.status.clone().unwrap_or_default();
            let ready = conditions::find(&status.conditions, condition_types::READY).cloned();
            let Some(ready) = ready else {
                self.wrong(format!("{name} says nothing of itself"));
                continue;
            };
            if vm.metadata.deletion_timestamp.is_some() {
                self.wrong(format!("{name} is still being deleted: {}", ready.message));
                continue;
            }
            if ready.status == "True" {
                let uid = vm.uid().unwrap_or_default();
                let mine: Vec<String> = sims
                    .iter()
                    .flat_map(|(platform, sim)| {
                        sim.machines().into_iter().map(move |truth| (platform.clone(), truth))
                    })
                    .filter(|(platform, truth)| {
                        self.owner(platform, truth).as_deref() == Some(&uid)
                    })
                    .map(|(_, truth)| truth.machine.id.0)
                    .collect();
                if mine != status.id.clone().into_iter().collect::<Vec<_>>() {
                    self.wrong(format!(
                        "{name} says it is machine {:?}, and has {mine:?}",
                        status.id
                    ));
                }
                continue;
            }
            if !may_rest(&ready.reason) {
                self.wrong(format!("{name} has not settled: {} {}", ready.reason, ready.message));
            }
        }
        for (platform, sim) in sims {
            for truth in sim.machines() {
                let Some(owner) = self.owner(platform, &truth) else { continue };
                let excused = self.gone.get(&owner).copied().unwrap_or(false);
                let known = self.records.contains_key(&owner) || self.gone.contains_key(&owner);
                if known && !self.records.contains_key(&owner) && !excused {
                    self.wrong(format!("machine {} of {owner} was left behind", truth.machine.id));
                }
            }
        }
    }

    /// Waits for nothing else: nobody has anything left to do.
    pub fn unsettled(&self) -> Option<String> {
        self.records.values().find_map(|vm| {
            let status = vm.status.as_ref()?;
            let ready = conditions::find(&status.conditions, condition_types::READY);
            match ready {
                _ if vm.metadata.deletion_timestamp.is_some() => Some(vm.name_any()),
                Some(ready) if ready.status == "True" || may_rest(&ready.reason) => None,
                _ => Some(vm.name_any()),
            }
        })
    }

    /// Notes whose a machine is before its token is tampered with.
    pub fn note_owner(&mut self, platform: &str, truth: &Truth) {
        let owner = self.owner(platform, truth);
        let created = truth.machine.created_at.map(|at| at.to_string()).unwrap_or_default();
        let serial = (platform.to_owned(), format!("{}@{created}", truth.machine.id));
        self.owners.insert(serial, owner);
    }
}

/// Reasons with which a record may wait for a person for ever.
fn may_rest(reason: &str) -> bool {
    matches!(
        reason,
        "DiscoveryTimeout"
            | "OwnershipLost"
            | "Invalid"
            | "Failed"
            | "Conflict"
            | "Unsupported"
            | "Paused"
            | "NotYetServed"
    )
}
