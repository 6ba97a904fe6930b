//! What is to be done next for one node's record, as a pure function of what is known.

use std::time::Duration;

use jiff::Timestamp;
use sutler_api::{autoscaler::VpsieNodePhase as Phase, names::reasons};

use super::record::{Asked, Machine, MachineRecord, Record};
use crate::cluster::Seen;

/// How long a step of a drain is left to have its effect.
const DRAIN_POLL: Duration = Duration::from_secs(5);

/// How long a node may take to be what it should.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For its machine to run once it was found.
    pub provisioning: Duration,
    /// For it to join, and to be ready again when it was.
    pub joining: Duration,
}

/// Everything that a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The record.
    pub record: &'a Record,
    /// The record of its machine.
    pub machine: &'a MachineRecord,
    /// Its node.
    pub node: Option<&'a Seen>,
    /// Whether all nodes of its cluster are known: a node that is not seen is absent only then.
    pub in_sight: bool,
    /// Whether the API itself said that the node which it claimed is not there any more.
    pub node_gone: bool,
    /// Whether its node carries everything that it should.
    pub labelled: bool,
    /// Whether its group sends it away.
    pub removing: bool,
    /// What this process knows of its drain.
    pub drain: &'a Drain,
    /// Addresses of nodes that its machine may be, where those on record are others.
    pub hints: Option<&'a [String]>,
    /// How long things may take.
    pub limits: Limits,
    /// The time.
    pub now: Timestamp,
}

/// What is known of a drain.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Drain {
    /// Nothing.
    #[default]
    Unknown,
    /// Pods are still there: how many, and what keeps them.
    Waiting {
        /// How many are to leave.
        left: usize,
        /// What keeps them, for people.
        blocked: Option<String>,
        /// When that was so.
        at: Timestamp,
    },
    /// They did not leave in their time.
    GivenUp {
        /// Why, for people.
        why: String,
    },
    /// None is there that has to leave.
    Done,
}

/// What to do, and what to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to do.
    pub step: Step,
    /// What to say.
    pub report: Report,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing until something changes.
    Rest,
    /// Nothing until then, or until something changes.
    Wait(Timestamp),
    /// Write down that a machine is asked for, with the finalizer.
    Ask,
    /// Make the machine's record.
    MakeMachine,
    /// Write addresses of nodes that it may be onto the machine's record.
    Hint(Vec<String>),
    /// Write down which node is claimed.
    Intend(String),
    /// Claim a node and give it what it should carry, in one write.
    Claim(String),
    /// Keep new pods off a node and ask those on it to leave.
    Drain(String),
    /// Let pods onto a node again.
    Uncordon(String),
    /// Delete the machine's record.
    DeleteMachine,
    /// Delete the node's object.
    DeleteNode(String),
    /// Take the record off the books.
    Forget,
}

/// What a record says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where it is in its life.
    pub phase: Phase,
    /// Why, in a word.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Whether something went wrong.
    pub error: bool,
    /// When it is tried or given up.
    pub next: Option<Timestamp>,
}

impl Report {
    fn new(phase: Phase, reason: &str, message: impl Into<String>) -> Self {
        let (reason, message) = (reason.to_owned(), message.into());
        Self { phase, reason, message, error: false, next: None }
    }

    fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self { error: true, ..Self::new(Phase::Failed, reason, message) }
    }

    fn until(self, next: Timestamp) -> Self {
        Self { next: Some(next), ..self }
    }
}

/// Decides on the next step.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    if inputs.record.deleting {
        return leave(inputs);
    }
    if inputs.record.asked == Asked::No || !inputs.record.finalizer {
        let report =
            Report::new(Phase::Pending, reasons::PENDING, "its machine is being asked for");
        return Plan { step: Step::Ask, report };
    }
    if inputs.removing && inputs.machine.ours().is_some() {
        return send_away(inputs);
    }
    let plan = stay(inputs);
    match inputs.node {
        // Nobody sends it away any more, and it was us who kept pods off it.
        Some(node) if node.draining.is_some() && plan.step == Step::Rest => {
            Plan { step: Step::Uncordon(node.name.clone()), ..plan }
        }
        _ => plan,
    }
}

/// A record whose node should be there.
fn stay(inputs: &Inputs<'_>) -> Plan {
    let Inputs { record, machine, .. } = *inputs;
    let machine = match machine {
        MachineRecord::Absent if record.made => {
            let message = "its VirtualMachine was deleted: delete this record, and its group makes \
                           another";
            return rest(Report::failed(reasons::MACHINE_LOST, message));
        }
        MachineRecord::Absent => {
            let report = Report::new(Phase::Pending, reasons::PENDING, "its machine is asked for");
            return Plan { step: Step::MakeMachine, report };
        }
        MachineRecord::Foreign => {
            let message = format!(
                "a VirtualMachine called {} is there and not of this record: rename or delete it",
                record.key.name
            );
            return rest(Report::failed(reasons::NAME_TAKEN, message));
        }
        MachineRecord::Ours(machine) => machine,
    };
    if let Some(node) = inputs.node
        && !inputs.labelled
    {
        let message = format!("node {} has joined and is claimed", node.name);
        let report = Report::new(Phase::Joining, "Claiming", message);
        // Who takes the record off the books meanwhile has to know of the node.
        let step = match record.claimed.as_ref() == Some(&node.name) {
            true => Step::Claim(node.name.clone()),
            false => Step::Intend(node.name.clone()),
        };
        return Plan { step, report };
    }
    if machine.deleting {
        let message = "its VirtualMachine is being deleted: delete this record, and its group makes \
                       another";
        return rest(Report::failed(reasons::MACHINE_LOST, message));
    }
    if let Some(node) = inputs.node {
        return joined(inputs, node);
    }
    if record.node.is_some() && !inputs.in_sight {
        return rest(out_of_sight(inputs));
    }
    let plan = unjoined(inputs, machine);
    match inputs.hints {
        // It says the same with them: whoever counts it must not be led astray.
        Some(hints) => Plan { step: Step::Hint(hints.to_vec()), ..plan },
        None => plan,
    }
}

/// A record whose cluster cannot be looked at: what was known of its node stays.
fn out_of_sight(inputs: &Inputs<'_>) -> Report {
    let record = inputs.record;
    let phase = record.phase.clone().unwrap_or(Phase::Joining);
    let message = "the nodes of its cluster cannot be seen: look at its group's conditions";
    Report { error: true, ..Report::new(phase, reasons::CLUSTER_UNREACHABLE, message) }
}

/// A record for which no node is in the cluster.
fn unjoined(inputs: &Inputs<'_>, machine: &Machine) -> Plan {
    let Inputs { record, now, .. } = *inputs;
    if machine.failed {
        return rest(Report::failed(word(&machine.reason), machine.message.clone()));
    }
    if !machine.ready {
        let end = later(record.asked_at, inputs.limits.provisioning);
        // While its ID is not known the engine's own clock counts.
        if machine.id.is_some() && record.provisioned_at.is_none() && now >= end {
            let message = format!("its machine did not run in time: {}", machine.message);
            return rest(Report::failed(reasons::PROVISIONING_TIMEOUT, message));
        }
        let report = waiting_for_machine(inputs, &machine.reason, &machine.message);
        let known = machine.id.is_some() && record.provisioned_at.is_none();
        return match known {
            true => Plan { step: Step::Wait(end), report: report.until(end) },
            false => rest(report),
        };
    }
    let Some(since) = record.provisioned_at else {
        return rest(Report::new(Phase::Provisioned, "Provisioned", "its machine runs"));
    };
    let (since, reason, message) = match &record.node {
        Some(name) => (
            record.unready_since.unwrap_or(now),
            reasons::NODE_NOT_FOUND,
            format!("node {name} is no longer in the cluster; it is expected to join again"),
        ),
        None => (since, "Joining", "its machine runs; its node is expected to join".to_owned()),
    };
    let end = later(since, inputs.limits.joining);
    if now >= end {
        let message = match &record.node {
            Some(name) => format!("node {name} left the cluster and did not come back"),
            None => format!(
                "no node joined from {} in time: look at the machine's console, or delete this record",
                addresses(&machine.ips)
            ),
        };
        let reason = match record.node {
            Some(_) => reasons::NODE_NOT_FOUND,
            None => reasons::JOINING_TIMEOUT,
        };
        return rest(Report::failed(reason, message));
    }
    let report = Report::new(Phase::Joining, reason, message).until(end);
    Plan { step: Step::Wait(end), report }
}

/// A record whose node is in the cluster and carries what it should.
fn joined(inputs: &Inputs<'_>, node: &Seen) -> Plan {
    let Err(why) = &node.ready else {
        return rest(Report::new(Phase::Ready, reasons::READY, "its node takes pods"));
    };
    let since = inputs.record.unready_since.unwrap_or(inputs.now);
    let end = later(since, inputs.limits.joining);
    let message = format!("node {} is not ready: {why}", node.name);
    match inputs.now >= end {
        true => rest(Report::failed(reasons::JOINING_TIMEOUT, message)),
        false => {
            let report = Report::new(Phase::Joining, "NodeNotReady", message).until(end);
            Plan { step: Step::Wait(end), report }
        }
    }
}

/// A record that its group sends away: its pods leave first, or it stays.
fn send_away(inputs: &Inputs<'_>) -> Plan {
    let Some(node) = inputs.node else {
        return rest(Report::new(Phase::Terminating, DRAINED, "it is sent away and has no node"));
    };
    match inputs.drain {
        Drain::Done => {
            let message = format!("all pods have left node {}", node.name);
            rest(Report::new(Phase::Terminating, DRAINED, message))
        }
        Drain::GivenUp { why } => {
            let message = format!("it stays: {why}");
            let report = Report::new(phase_of(inputs, node), reasons::DRAIN_FAILED, message);
            rest(Report { error: true, ..report })
        }
        drain => draining(inputs, node, drain),
    }
}

/// A record that is deleted: pods, machine and node go, in this order.
fn leave(inputs: &Inputs<'_>) -> Plan {
    let Inputs { record, machine, node, .. } = *inputs;
    if !record.finalizer {
        return rest(Report::new(Phase::Terminating, reasons::DELETING, "other finalizers wait"));
    }
    let going = |message: &str| Report::new(Phase::Deleting, reasons::DELETING, message);
    // Pods may be on a node that nobody sees, and its object may be left behind.
    let joined = record.node.is_some() || record.claimed.is_some();
    if joined && !inputs.in_sight && !record.forced {
        let message = format!(
            "the nodes of its cluster cannot be seen: make it reachable, or annotate this record with \
             {}=true to remove the machine without asking its pods to leave",
            sutler_api::names::annotations::FORCE_REMOVAL
        );
        let report = Report::new(Phase::Terminating, reasons::CLUSTER_UNREACHABLE, message);
        return rest(Report { error: true, ..report });
    }
    // One that joined meanwhile goes as well: its object would be left, and nobody would know whose it was.
    let late = node.filter(|node| {
        let own = inputs.labelled || node.is_claimed_by(&record.key);
        !own && record.claimed.as_ref() != Some(&node.name)
    });
    if let (MachineRecord::Ours(_), Some(node)) = (machine, late) {
        let report = going(&format!("node {} has joined and goes with its machine", node.name));
        return Plan { step: Step::Intend(node.name.clone()), report };
    }
    match machine {
        MachineRecord::Ours(machine) if machine.deleting => {
            let message = format!("its machine is being removed: {}", machine.message);
            rest(going(&message))
        }
        MachineRecord::Ours(_) => match node {
            Some(node) if !record.forced && *inputs.drain != Drain::Done => {
                draining(inputs, node, inputs.drain)
            }
            _ => Plan { step: Step::DeleteMachine, report: going("its machine is being removed") },
        },
        MachineRecord::Absent | MachineRecord::Foreign => {
            let own = node.filter(|node| inputs.labelled || node.is_claimed_by(&record.key));
            // A claim may have been carried out by another process since the nodes were looked at.
            let claimed = record.claimed.as_ref().filter(|_| !inputs.node_gone && inputs.in_sight);
            match own.map(|node| &node.name).or(claimed) {
                Some(name) => Plan {
                    step: Step::DeleteNode(name.clone()),
                    report: going("its machine is gone, and its node goes as well"),
                },
                None => Plan { step: Step::Forget, report: going("nothing of it is left") },
            }
        }
    }
}

fn draining(inputs: &Inputs<'_>, node: &Seen, drain: &Drain) -> Plan {
    let name = &node.name;
    let (next, report) = match drain {
        Drain::Waiting { left, blocked, at } => {
            let next = later(*at, DRAIN_POLL);
            let message = match blocked {
                Some(why) => format!("{left} pods are still on node {name}: {why}"),
                None => format!("{left} pods are leaving node {name}"),
            };
            let reason = if blocked.is_some() { reasons::DRAIN_FAILED } else { DRAINING };
            (next, Report::new(Phase::Terminating, reason, message).until(next))
        }
        Drain::GivenUp { why } => {
            let message = format!(
                "{why}; it is tried again. Let the pods go, or annotate this record with \
                 {}=true to remove the machine under them",
                sutler_api::names::annotations::FORCE_REMOVAL
            );
            let report = Report::new(Phase::Terminating, reasons::DRAIN_FAILED, message);
            (inputs.now, Report { error: true, ..report })
        }
        Drain::Unknown | Drain::Done => {
            let message = format!("pods are asked to leave node {name}");
            (inputs.now, Report::new(Phase::Terminating, DRAINING, message))
        }
    };
    match next > inputs.now {
        true => Plan { step: Step::Wait(next), report },
        false => Plan { step: Step::Drain(name.clone()), report },
    }
}

/// The reason of a record whose pods leave.
pub const DRAINING: &str = "Draining";
/// The reason of a record that its group may delete.
pub const DRAINED: &str = "Drained";

fn phase_of(inputs: &Inputs<'_>, node: &Seen) -> Phase {
    match (&node.ready, inputs.record.phase.clone()) {
        (Ok(()), _) => Phase::Ready,
        (Err(_), Some(Phase::Failed)) => Phase::Failed,
        (Err(_), _) => Phase::Joining,
    }
}

fn waiting_for_machine(inputs: &Inputs<'_>, reason: &str, message: &str) -> Report {
    let phase = match inputs.record.provisioned_at {
        Some(_) => Phase::Joining,
        None => Phase::Provisioning,
    };
    let error = matches!(reason, reasons::EXHAUSTED | reasons::UNAVAILABLE | reasons::DENIED);
    let message = match message.is_empty() {
        true => "its machine is being made",
        false => message,
    };
    Report { error, ..Report::new(phase, word(reason), message) }
}

/// A machine's reason in the words that users of nodes know.
fn word(reason: &str) -> &str {
    match reason {
        "" => reasons::PROVISIONING,
        reasons::EXHAUSTED => reasons::CAPACITY_LIMIT_REACHED,
        other => other,
    }
}

fn addresses(ips: &[String]) -> String {
    match ips.is_empty() {
        true => "its machine".to_owned(),
        false => ips.join(", "),
    }
}

fn rest(report: Report) -> Plan {
    Plan { step: Step::Rest, report }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
