//! Snapshots: users who take, keep, go back to and delete them, schedules that do so by themselves,
//! and what must hold of all of it at every step.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde::Deserialize;
use serde_json::{Value, json};
use sutler_api::{
    conditions,
    infra::{ConcurrencyPolicy, SnapshotPhase, VMSnapshot, VirtualMachine},
    names::{annotations, condition_types, finalizers, labels},
};
use sutler_provider::{ErrorKind, MachineId, Result, SnapshotId, SnapshotRequest, Token};
use sutler_sim::{Sim, Truth};
use tokio::time::Instant;

/// The schedule of a run that is about snapshots.
const SCHEDULE: &str = "often";
/// How many of its snapshots are kept.
const KEPT: usize = 2;
/// How many snapshots users make.
const OWN: usize = 3;

fn manifest(name: &str, machine: &str) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "vmRef": { "name": machine } },
    })
}

/// Somebody takes a snapshot, deletes one, has them taken by a schedule or goes back to one.
pub async fn act(client: &Client, machine: &str, rng: &mut StdRng) {
    let api: Api<VMSnapshot> = Api::namespaced(client.clone(), "default");
    let own = format!("snap-{}", rng.random_range(0..OWN));
    match rng.random_range(0..10) {
        0..4 => make(&api, manifest(&own, machine)).await,
        4 => {
            let _ = api.delete(&own, &DeleteParams::default()).await;
        }
        5 | 6 => {
            let mut schedule = manifest(SCHEDULE, machine);
            let every = ["*/15 * * * * *", "*/40 * * * * *"][rng.random_range(0..2)];
            let policy = ["Allow", "Forbid", "Replace"][rng.random_range(0..3)];
            schedule["spec"]["schedule"] =
                json!({ "enabled": true, "cronSpec": every, "concurrencyPolicy": policy });
            schedule["spec"]["retentionPolicy"] = json!({ "maxCount": KEPT });
            make(&api, schedule).await;
            // Somebody marks a snapshot of their own as if the schedule had made it.
            if let Ok(Some(schedule)) = api.get_opt(SCHEDULE).await {
                let mark = json!({ "metadata": { "labels": {
                    labels::SCHEDULE_UID: schedule.uid().unwrap_or_default(),
                } } });
                let _ = api.patch(&own, &PatchParams::default(), &Patch::Merge(mark)).await;
            }
        }
        _ => {
            let machines: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
            let all = api.list(&Default::default()).await.map(|list| list.items);
            let good = all.unwrap_or_default().into_iter().find(|snapshot| {
                snapshot.spec.vm_ref.name == machine
                    && phase(snapshot) == Some(SnapshotPhase::Ready)
                    && intent(snapshot).is_some()
            });
            // One that is not there holds the machine up until somebody thinks better of it.
            if good.is_none() && rng.random_bool(0.9) {
                return;
            }
            let own = good.map_or(own, |good| good.name_any());
            let to = if rng.random_bool(0.7) { json!({ "name": own }) } else { Value::Null };
            let patch = json!({ "spec": { "snapshot": { "revertToRef": to } } });
            let _ = machines.patch(machine, &PatchParams::default(), &Patch::Merge(patch)).await;
        }
    }
}

async fn make(api: &Api<VMSnapshot>, manifest: Value) {
    let snapshot = serde_json::from_value(manifest).expect("a manifest of ours can be read");
    let _ = api.create(&PostParams::default(), &snapshot).await;
}

/// The time of trouble is over: the schedule would never come to rest.
pub async fn finish(client: &Client) {
    let api: Api<VMSnapshot> = Api::namespaced(client.clone(), "default");
    let stop = json!({ "spec": { "schedule": { "suspend": true } } });
    let _ = api.patch(SCHEDULE, &PatchParams::default(), &Patch::Merge(stop)).await;
}

/// What is written down before a snapshot is asked for.
#[derive(Debug, Clone, Deserialize)]
struct Intent {
    name: String,
    machine: MachineId,
    token: Token,
    of: String,
}

fn intent(snapshot: &VMSnapshot) -> Option<Intent> {
    let text = snapshot.annotations().get(annotations::SNAPSHOT_INTENT)?;
    let intent: Intent = serde_json::from_str(text).ok()?;
    (snapshot.uid().as_deref() == Some(intent.of.as_str())).then_some(intent)
}

struct Sent {
    record: String,
    at: Instant,
    known: bool,
    /// Answered with an error that says that nothing came of it.
    refused: bool,
}

impl Sent {
    const fn new(record: String, at: Instant) -> Self {
        Self { record, at, known: false, refused: false }
    }
}

/// What has been seen of snapshots so far.
#[derive(Default)]
pub struct Snapshots {
    /// Those on record, by UID.
    records: BTreeMap<String, VMSnapshot>,
    /// Requests for snapshots.
    taken: Vec<Sent>,
    /// Requests to go back, by the UID of the machine's record: when each was sent, and how long it
    /// may still take effect.
    reverts: BTreeMap<String, Vec<Sent>>,
}

impl Snapshots {
    /// A record was written.
    pub fn written(&mut self, snapshot: VMSnapshot) -> std::result::Result<(), String> {
        let uid = snapshot.uid().unwrap_or_default();
        let run = snapshot.annotations().get(annotations::SCHEDULED_AT);
        let judged = match run.map(|run| run.parse::<Timestamp>()) {
            Some(Ok(run)) => self.judge_run(&snapshot, run),
            _ => Ok(()),
        };
        self.records.insert(uid, snapshot);
        judged
    }

    /// One run of a schedule is one snapshot, of a time that the schedule has.
    fn judge_run(&self, child: &VMSnapshot, run: Timestamp) -> std::result::Result<(), String> {
        let name = child.name_any();
        let mark = child.labels().get(labels::SCHEDULE_UID);
        let twin = self.records.values().find(|other| {
            other.uid() != child.uid()
                && other.labels().get(labels::SCHEDULE_UID) == mark
                && other.annotations().get(annotations::SCHEDULED_AT) == Some(&run.to_string())
        });
        if let Some(twin) = twin {
            return Err(format!("snapshots: {name} and {} are of one run", twin.name_any()));
        }
        match run.as_second() % 5 {
            0 => Ok(()),
            _ => Err(format!("snapshots: {name} is of {run}, which is no time of its schedule")),
        }
    }

    /// Whether this is on record.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// The records that there are, by UID.
    pub fn uids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// A record went off the books: nothing of it is left on a machine that is.
    pub fn gone(
        &mut self,
        uid: &str,
        machines: &BTreeMap<String, VirtualMachine>,
        sims: &BTreeMap<String, Sim>,
    ) -> std::result::Result<(), String> {
        let Some(snapshot) = self.records.remove(uid) else { return Ok(()) };
        let Some(intent) = intent(&snapshot) else { return Ok(()) };
        let left = sims.values().find_map(|sim| {
            let on = |truth: &Truth| {
                let token = truth.machine.token.as_ref();
                let kept = token.is_some_and(|token| machines.contains_key(&token.uid));
                let names = truth.machine.snapshots.iter().flatten();
                kept && truth.machine.id == intent.machine
                    && names.into_iter().any(|found| found.name == intent.name)
            };
            sim.machines().into_iter().find(on)
        });
        match left {
            Some(truth) => Err(format!(
                "snapshots: {} is off the books and still on machine {}",
                snapshot.name_any(),
                truth.machine.id
            )),
            None => Ok(()),
        }
    }

    /// A snapshot is about to be asked for: that is on record, and no other request for it may still
    /// take one.
    pub fn take_sent(
        &mut self,
        request: &SnapshotRequest,
        sim: &Sim,
    ) -> std::result::Result<usize, String> {
        let of = self.records.iter().find(|(_, snapshot)| {
            let intent = intent(snapshot);
            intent.is_some_and(|i| i.name == request.name && i.machine == request.id)
        });
        let record = of.map(|(uid, _)| uid.clone());
        let ready = of.is_some_and(|(_, snapshot)| {
            snapshot.finalizers().iter().any(|name| name == finalizers::VM_SNAPSHOT)
        });
        let (now, make) = (Instant::now(), sim.settings().deadlines.make);
        let open = self.taken.iter().any(|sent| {
            Some(&sent.record) == record.as_ref() && !sent.known && now - sent.at < make
        });
        // A request that was refused may have been delivered twice, and the second time it was not.
        let second = self.taken.iter().any(|sent| {
            Some(&sent.record) == record.as_ref() && sent.refused && now - sent.at < make
        });
        self.taken.push(Sent::new(record.unwrap_or_default(), now));
        let machines = sim.machines();
        let machine = machines.iter().find(|truth| truth.machine.id == request.id);
        let mut names =
            machine.into_iter().flat_map(|truth| truth.machine.snapshots.iter().flatten());
        let there = names.any(|found| found.name == request.name);
        match () {
            // Its record may go with the machine while the request is on its way: nothing comes of it.
            () if !ready && machine.is_some() => {
                Err(format!("snapshots: {} is asked for, and no record says so", request.name))
            }
            () if open => Err(format!(
                "snapshots: {} is asked for while the outcome of an earlier request is open",
                request.name
            )),
            () if there && !second => {
                Err(format!("snapshots: {} is asked for and is there", request.name))
            }
            () => Ok(self.taken.len() - 1),
        }
    }

    /// It was answered.
    pub fn take_answered<T>(&mut self, number: usize, result: &Result<T>) {
        if let Some(sent) = self.taken.get_mut(number) {
            sent.known |= is_known(result);
            sent.refused |= is_known(result) && result.is_err();
        }
    }

    /// A snapshot is about to be deleted: its own record wants it gone.
    pub fn delete_sent(
        &self,
        id: &MachineId,
        snapshot: &SnapshotId,
        sim: &Sim,
    ) -> std::result::Result<(), String> {
        let machines = sim.machines();
        let on = machines.iter().find(|truth| truth.machine.id == *id);
        let all = on.into_iter().flat_map(|truth| truth.machine.snapshots.iter().flatten());
        let Some(found) = all.into_iter().find(|found| found.id == *snapshot) else {
            return Ok(());
        };
        let owner = self.records.values().find(|record| {
            intent(record).is_some_and(|i| i.name == found.name && i.machine == *id)
        });
        match owner.map(|owner| owner.metadata.deletion_timestamp.is_some()) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("snapshots: {} is deleted and wanted", found.name)),
            None => Err(format!("snapshots: {} is deleted for nobody", found.name)),
        }
    }

    /// A machine is about to go back: its record says so, and has not done it. No other request to do
    /// so may still have an effect, which would undo what happens after this one.
    pub fn revert_sent(
        &mut self,
        vm: &VirtualMachine,
        snapshot: &SnapshotId,
        sim: &Sim,
    ) -> std::result::Result<usize, String> {
        let name = vm.name_any();
        let (now, make) = (Instant::now(), sim.settings().deadlines.make);
        let sent = self.reverts.entry(vm.uid().unwrap_or_default()).or_default();
        let open = sent.iter().any(|sent| !sent.known && now - sent.at < make);
        sent.push(Sent::new(name.clone(), now));
        let number = sent.len() - 1;
        let wanted = vm.spec.snapshot.as_ref().and_then(|own| own.revert_to_ref.as_ref());
        let Some(wanted) = wanted else {
            return Err(format!("snapshots: {name} goes back, and nobody asked for it"));
        };
        let done = vm.status.as_ref().and_then(|status| status.reverted_to.as_ref());
        let right = self.records.values().any(|record| {
            let id = record.status.as_ref().and_then(|status| status.snapshot_id.as_ref());
            record.name_any() == wanted.name && id == Some(&snapshot.0)
        });
        match () {
            () if done == Some(&wanted.name) => {
                Err(format!("snapshots: {name} goes back to {} a second time", wanted.name))
            }
            () if !right => {
                Err(format!("snapshots: {name} goes back to {snapshot}, not {}", wanted.name))
            }
            () if open => Err(format!(
                "snapshots: {name} goes back while an earlier request to do so is open"
            )),
            () => Ok(number),
        }
    }

    /// It was answered.
    pub fn revert_answered<T>(&mut self, uid: &str, number: usize, result: &Result<T>) {
        if let Some(sent) = self.reverts.get_mut(uid).and_then(|sent| sent.get_mut(number)) {
            sent.known |= is_known(result);
        }
    }

    /// A record was deleted by a process: a schedule keeps the newest of its own, and what a schedule
    /// did not make goes only with its machine.
    pub fn deleted_by_us(
        &self,
        uid: &str,
        machines: &BTreeMap<String, VirtualMachine>,
        sims: &BTreeMap<String, Sim>,
    ) -> std::result::Result<(), String> {
        let Some(snapshot) = self.records.get(uid) else { return Ok(()) };
        let name = snapshot.name_any();
        // What was never asked for goes with nobody.
        let there = intent(snapshot).is_none_or(|i| machines.contains_key(&i.token.uid));
        if !there || snapshot.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let Some(run) = run_of(snapshot) else {
            return Err(format!("snapshots: {name} was deleted, which no schedule made"));
        };
        // One that failed, or was to make room for the next, was never good.
        if phase(snapshot) != Some(SnapshotPhase::Ready) {
            return Ok(());
        }
        // One that went with its machine is of no use, whoever still says that it is ready.
        if !intent(snapshot).is_some_and(|intent| is_on(&intent, sims)) {
            return Ok(());
        }
        let mark = snapshot.labels().get(labels::SCHEDULE_UID);
        let schedule = mark.and_then(|mark| self.records.get(mark));
        let policy = schedule.and_then(|schedule| schedule.spec.schedule.as_ref());
        // It was still under way when the next one was to be taken instead.
        if policy.is_some_and(|own| own.concurrency_policy == ConcurrencyPolicy::Replace) {
            return Ok(());
        }
        let newer = self.records.values().filter(|other| {
            // Of two processes that both think that they lead, one may not know yet what the other saw:
            // what is on the platform is good, whoever writes last.
            let good = || intent(other).is_some_and(|intent| is_on(&intent, sims));
            other.labels().get(labels::SCHEDULE_UID) == mark
                && (phase(other) == Some(SnapshotPhase::Ready) || good())
                && run_of(other).is_some_and(|other| other > run)
        });
        match newer.count() >= KEPT {
            true => Ok(()),
            false => Err(format!("snapshots: {name} was deleted and is one of the newest")),
        }
    }

    /// What has not come to rest.
    pub fn unsettled(&self, sims: &BTreeMap<String, Sim>) -> Option<String> {
        self.records.values().find_map(|snapshot| {
            let name = snapshot.name_any();
            let status = snapshot.status.as_ref();
            let stalled = status
                .is_some_and(|s| conditions::is_true(&s.conditions, condition_types::STALLED));
            let ready =
                status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
            let Some(ready) = ready else { return Some(format!("snapshot {name} says nothing")) };
            // A machine that was left half made keeps its snapshots until a person looks at it.
            let stuck = || intent(snapshot).is_some_and(|intent| is_half_made(&intent, sims));
            let helpless = stalled || ready.reason == "Conflict" || stuck();
            if snapshot.metadata.deletion_timestamp.is_some() && !helpless {
                return Some(format!("snapshot {name} is still being deleted: {}", ready.message));
            }
            let rests = ready.status == "True"
                || stalled
                || stuck()
                // Its machine is not there, no longer ours or half made, and that may never change.
                || ["ReferenceNotFound", "Waiting", "Suspended", "OwnershipLost", "Conflict"]
                    .contains(&ready.reason.as_str());
            let (reason, message) = (&ready.reason, &ready.message);
            (!rests).then(|| format!("snapshot {name} has not settled: {reason} {message}"))
        })
    }

    /// After the calm: what is ready is there, and a schedule has no more than it keeps.
    pub fn judge_end(&self, sims: &BTreeMap<String, Sim>) -> std::result::Result<(), String> {
        if let Some(open) = self.unsettled(sims) {
            return Err(open);
        }
        let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
        for snapshot in self.records.values().filter(|s| phase(s) == Some(SnapshotPhase::Ready)) {
            if let (Some(_), Some(mark)) =
                (run_of(snapshot), snapshot.labels().get(labels::SCHEDULE_UID))
            {
                *kept.entry(mark).or_default() += 1;
            }
            let Some(intent) = intent(snapshot) else { continue };
            if !is_on(&intent, sims) {
                return Err(format!("snapshot {} is ready and nowhere", snapshot.name_any()));
            }
        }
        // A schedule that is gone keeps nothing in order any more.
        let lives = |mark: &str| self.records.contains_key(mark);
        match kept.iter().find(|(mark, count)| lives(mark) && **count > KEPT) {
            Some((mark, count)) => Err(format!("schedule {mark} keeps {count} snapshots")),
            None => Ok(()),
        }
    }
}

/// Whether a machine has the snapshot that was asked for.
fn is_on(intent: &Intent, sims: &BTreeMap<String, Sim>) -> bool {
    sims.values().any(|sim| {
        sim.machines().iter().any(|truth| {
            let names = truth.machine.snapshots.iter().flatten();
            truth.machine.id == intent.machine
                && names.into_iter().any(|found| found.name == intent.name)
        })
    })
}

/// Whether the machine of a snapshot was given up half way: what is on it stays.
fn is_half_made(intent: &Intent, sims: &BTreeMap<String, Sim>) -> bool {
    let all = sims.values().flat_map(Sim::machines);
    all.into_iter().any(|truth| truth.machine.id == intent.machine && truth.broken)
}

fn run_of(snapshot: &VMSnapshot) -> Option<Timestamp> {
    snapshot.annotations().get(annotations::SCHEDULED_AT)?.parse().ok()
}

fn phase(snapshot: &VMSnapshot) -> Option<SnapshotPhase> {
    snapshot.status.as_ref().and_then(|status| status.phase)
}

/// Whether an answer tells what came of a request.
fn is_known<T>(result: &Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::Indeterminate | ErrorKind::Internal),
    }
}

/// How long a run with schedules is at least, so that they have several runs.
pub const LASTS: std::ops::Range<u64> = 100..260;

/// The pause between two things that users do.
pub fn pause(rng: &mut StdRng) -> Duration {
    Duration::from_millis(rng.random_range(2_000..12_000))
}
