//! The rules that keep record and machine in agreement, as things that must hold at every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use sutler_api::{
    conditions,
    infra::VirtualMachine,
    names::{condition_types, finalizers},
};
use sutler_provider::{Accepted, ErrorKind, Result, Token, UniqueBy};
use sutler_sim::{Cause, Happened, Sim, Truth};
use tokio::time::Instant;

use crate::{
    copies::Copies, disks::Disks, hooks::Hooks, images::Images, nodes::Nodes, sets::Sets,
    snapshots::Snapshots, world::MAIN,
};

/// What has been seen so far, and what was wrong with it.
#[derive(Default)]
pub struct Judge {
    /// The first thing that was wrong.
    pub violation: Option<String>,
    /// Which control plane this is.
    pub installation: String,
    /// Records that exist, by UID.
    pub records: BTreeMap<String, VirtualMachine>,
    /// Records that are off the books, by UID: whether their machine may be left.
    pub gone: BTreeMap<String, bool>,
    /// What images are on record and where.
    pub images: Images,
    /// Which guests were told of their start and stop.
    pub hooks: Hooks,
    /// What snapshots are on record and where.
    pub snapshots: Snapshots,
    /// What copies are on record.
    pub copies: Copies,
    /// What sets are on record.
    pub sets: Sets,
    /// What disks that outlive machines are on record.
    pub disks: Disks,
    /// What nodes are on record and in the cluster.
    pub nodes: Nodes,
    /// Whether machines on the platform that gets into trouble carry tokens, as they do on its
    /// neighbour.
    pub tokens: bool,
    creates: Vec<Create>,
    lists: BTreeMap<(String, String), Instant>,
    judged: BTreeMap<String, usize>,
    ever: BTreeSet<(String, String)>,
    reported: BTreeSet<(String, String)>,
    /// Machines that carried these tokens once: whose they are, whatever is done to the tokens.
    owners: BTreeMap<(String, String), Option<String>>,
    tampered: BTreeSet<String>,
    born: BTreeMap<String, Instant>,
    once_ready: BTreeSet<String>,
}

/// How often a platform is listed at most.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a machine may take on a platform to which nothing happens.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(15);

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

    /// Notes what was wrong, if anything was.
    pub fn insist(&mut self, judged: std::result::Result<(), String>) {
        if let Err(what) = judged {
            self.wrong(what);
        }
    }

    /// Images that a platform has are on record, and there once.
    pub fn judge_images(&mut self, platform: &str, sim: &Sim) {
        let judged = self.images.judge(platform, sim);
        self.insist(judged);
    }

    /// An image went off the books.
    pub fn image_gone(&mut self, uid: &str, sims: &BTreeMap<String, Sim>) {
        let judged = self.images.gone(uid, sims);
        self.insist(judged);
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
        if self.once_ready.contains(&token.uid) {
            let once = self.nodes.judge_create(&token.uid);
            self.insist(once);
        }
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
    pub fn listed(&mut self, platform: &str, reader: &str) {
        let key = (platform.to_owned(), reader.to_owned());
        let now = Instant::now();
        if let Some(last) = self.lists.insert(key, now)
            && now - last < LIST_INTERVAL / 2
        {
            self.wrong(format!("rule 9: {reader} listed {platform} again after {:?}", now - last));
        }
    }

    /// Rule 10: what happens to one platform does not hold up another.
    pub fn judge_neighbour(&mut self, neighbour: &str) {
        let now = Instant::now();
        let late = self.records.iter().find(|(uid, vm)| {
            let ready = vm.status.as_ref().is_some_and(|status| {
                conditions::is_true(&status.conditions, condition_types::READY)
            });
            vm.spec.provider_ref.name == neighbour
                && !ready
                && vm.metadata.deletion_timestamp.is_none()
                && self.born.get(*uid).is_some_and(|born| now - *born > NEIGHBOUR_PATIENCE)
                && !self.once_ready.contains(*uid)
                // A guest that does not answer its hook holds itself up.
                && vm.spec.lifecycle.is_none()
        });
        if let Some((_, vm)) = late {
            let name = vm.name_any();
            self.wrong(format!("rule 10: {name} waits although nothing happened to {neighbour}"));
        }
    }

    /// Whose a machine is: by the token that it was made with.
    fn owner(&self, platform: &str, truth: &Truth) -> Option<String> {
        if let Some(owner) = self.nodes.owner(platform, truth) {
            return owner;
        }
        let created = truth.machine.created_at.map(|at| at.to_string()).unwrap_or_default();
        let serial = (platform.to_owned(), format!("{}@{created}", truth.machine.id));
        match self.owners.get(&serial) {
            Some(owner) => owner.clone(),
            None => truth.machine.token.as_ref().map(|token| token.uid.clone()),
        }
    }

    /// Judges what happened on a platform since the last time.
    pub fn judge_platform(&mut self, platform: &str, sim: &Sim) {
        let judged = self.judged.entry(platform.to_owned()).or_default();
        let history = sim.history_since(*judged);
        // Machines that did not change are judged already.
        if history.is_empty() {
            return;
        }
        *judged += history.len();
        for change in &history {
            let uid = change.token.as_ref().map(|token| token.uid.clone());
            let uid = self.nodes.owner_of(platform, &change.id).unwrap_or(uid);
            match (change.what, change.cause) {
                (Happened::Made, Cause::Outside) => {}
                (Happened::Made, _) => {
                    self.nodes.made(platform, &change.id, uid.as_ref());
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
                    let place = (platform.to_owned(), change.id.0.clone());
                    if let Some(uid) = &uid
                        && change.by.is_some()
                        && change.installation.as_ref() == Some(&self.installation)
                        && !self.records.contains_key(uid)
                        && !self.reported.contains(&place)
                    {
                        self.wrong(format!(
                            "rule 8: orphan {} of {uid} was deleted before it was reported",
                            change.id
                        ));
                    }
                }
            }
        }
        let apart = self.sets.judge_places(sim, &self.records);
        self.insist(apart);
        let same = self.disks.judge_platform(sim);
        self.insist(same);
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
    pub fn record_written(&mut self, new: &VirtualMachine, sims: &BTreeMap<String, Sim>) {
        let uid = new.uid().unwrap_or_default();
        self.born.entry(uid.clone()).or_insert_with(Instant::now);
        let old = self.records.insert(uid.clone(), new.clone());
        let status = new.status.clone().unwrap_or_default();
        let before = old.as_ref().and_then(|vm| vm.status.clone()).unwrap_or_default();
        // Rule 4: what is said to be on, or ready, was there.
        let ready = conditions::is_true(&status.conditions, condition_types::READY);
        if ready {
            self.once_ready.insert(uid.clone());
        }
        if ready || status.power_state.is_some() {
            let seen = status.id.as_ref().is_some_and(|id| {
                self.ever.contains(&(uid.clone(), id.clone()))
                    || self.tampered.contains(&uid)
                    || self.nodes.was_made(id)
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
        let new_to_it = self.nodes.machine_written(new);
        self.insist(new_to_it);
        let told = self.hooks.judge_written(new);
        self.insist(told);
        let copied = self.copies.judge_record(new, &self.records);
        self.insist(copied);
        let counted = self.sets.judge_record(new, &self.records);
        self.insist(counted);
        // Rule 11: last known facts stay, as long as they are of the same machine: another one of the
        // record's name may have been given its ID.
        if before.incarnation == status.incarnation
            && before.id == status.id
            && before.created_at == status.created_at
            && !before.ips.is_empty()
            && status.ips.is_empty()
        {
            self.wrong(format!("rule 11: {} lost its addresses", new.name_any()));
        }
        // Rule 7: one claimant per machine. Where tokens prove it, one that is on its way out, or that
        // had it once, and has no machine any more may name an ID that was given away within the second.
        // Elsewhere both have to have had it.
        if let Some(id) = &status.id {
            let platform = &new.spec.provider_ref.name;
            let proven = self.tokens || platform != MAIN;
            let has = |vm: &VirtualMachine| {
                let machines = sims.get(platform).map(Sim::machines).unwrap_or_default();
                let uids = machines.iter().filter_map(|truth| truth.machine.token.as_ref());
                uids.into_iter().any(|token| Some(&token.uid) == vm.metadata.uid.as_ref())
            };
            let had = |vm: &VirtualMachine| {
                self.ever.contains(&(vm.uid().unwrap_or_default(), id.clone()))
            };
            let spent = |vm: &VirtualMachine| {
                (vm.metadata.deletion_timestamp.is_some() || had(vm)) && !has(vm)
            };
            let other = self.records.values().find(|other| {
                other.uid() != new.uid()
                    && other.spec.provider_ref == new.spec.provider_ref
                    && other.status.as_ref().is_some_and(|other| {
                        other.id.as_ref() == Some(id)
                            && other.created_at.is_some()
                            && other.created_at == status.created_at
                    })
                    && !(proven && (spent(other) || spent(new)))
                    && !(had(other) && had(new) && !(has(other) && has(new)))
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

    /// Whether a machine was made by a request that had been answered, and after its record was to
    /// go: a platform that carries out one request twice. Its token tells whose it was, and rule 8
    /// what is done about it.
    fn is_second_effect(&self, vm: &VirtualMachine, truth: &Truth) -> bool {
        let Some(token) = &truth.machine.token else { return false };
        let mut asked = self.creates.iter().filter(|create| create.token == *token).peekable();
        let answered = asked.peek().is_some() && asked.all(|create| create.answered);
        let deleted = vm.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        answered && deleted.zip(truth.machine.created_at).is_some_and(|(at, made)| made > at)
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
                let ours = self.owner(platform, &truth).as_deref() == Some(&uid);
                if ours && !self.is_second_effect(last, &truth) {
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
            if !may_rest(&ready) && !self.images.excuses(&ready.reason) {
                self.wrong(format!("{name} has not settled: {} {}", ready.reason, ready.message));
            }
        }
        for judged in [
            self.images.judge_end(sims, self.records.values()),
            self.snapshots.judge_end(sims),
            self.copies.judge_end(&self.records),
            self.sets.judge_end(&self.records),
            self.disks.judge_end(sims),
            self.nodes.judge_end(sims, &self.records),
        ] {
            self.insist(judged);
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
                Some(ready) if ready.status == "True" || may_rest(ready) => None,
                Some(ready) if self.images.excuses(&ready.reason) => None,
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

/// Whether a record may wait for a person for ever.
fn may_rest(ready: &Condition) -> bool {
    // Somebody has to make the snapshot or the machine that it names.
    let named = ["spec.snapshot.revertToRef", "spec.cloneFrom"]
        .iter()
        .any(|field| ready.message.starts_with(field));
    if named && matches!(ready.reason.as_str(), "ReferenceNotFound" | "Waiting") {
        return true;
    }
    // Whoever keeps nodes decides what comes in the place of one that is lost.
    if ready.reason == "MachineLost" && ready.message.contains("is not made again") {
        return true;
    }
    matches!(
        ready.reason.as_str(),
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
