//! Which writes to node groups, their nodes and the autoscaler's settings are refused, and why.
//!
//! [`check`] is pure: an API server calls it in process, and [`review`] makes a webhook of it for the
//! API server of a cluster. It comes after the schema, and knows what a schema cannot say.
//!
//! Three rules keep it from ever being in the way:
//! - What did not change is not refused (`ratchet`), so that what is wrong in an old object holds up
//!   nobody who repairs something else, nor a finalizer.
//! - An object that is being deleted may be written as anybody likes.
//! - What Sutler's controllers write passes by itself. Only where a person would break what they keep
//!   is it asked who writes.

mod config;
mod denial;
mod labels;
mod node;
mod node_group;
mod ratchet;
pub mod review;
mod syntax;
mod vpsie_node;
pub mod webhook;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use denial::Denial;
pub use node_group::impossible;

use ratchet::{Findings, Problem};

/// What a person should know of a write that was taken.
pub type Warnings = Vec<String>;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// Its end is asked for.
    Delete,
}

/// The kinds whose writes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A group of nodes.
    NodeGroup,
    /// The claim to one node.
    VpsieNode,
    /// The autoscaler's settings.
    AutoscalerConfig,
    /// A node of Kubernetes.
    Node,
}

impl Kind {
    /// The kind behind a resource; none where its writes are not looked at.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let (own, plural, _) = kind.names();
            (own, plural) == (group, resource)
        })
    }

    /// Its API group, the plural of its resource and its own name.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        let ours = sutler_api::autoscaler::GROUP;
        match self {
            Self::NodeGroup => (ours, "nodegroups", "NodeGroup"),
            Self::VpsieNode => (ours, "vpsienodes", "VPSieNode"),
            Self::AutoscalerConfig => (ours, "autoscalerconfigs", "AutoscalerConfig"),
            Self::Node => ("", "nodes", "Node"),
        }
    }

    const ALL: [Self; 4] = [Self::NodeGroup, Self::VpsieNode, Self::AutoscalerConfig, Self::Node];
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// The user's name.
    pub user: &'a str,
    /// Whether that is Sutler itself.
    pub sutler: bool,
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Refusal {
    /// The field that has to change, as `spec.minNodes`.
    pub field: String,
    /// What is wrong with it, and what to do.
    pub message: String,
}

/// Allows a write, with what a person should know, or says everything that speaks against it.
///
/// `old` is the object as it is, `new` as it would be. Subresources are not looked at: a status is the
/// controllers' own, and a size that comes by `scale` is kept within its bounds by them.
pub fn check(
    operation: Operation,
    kind: Kind,
    old: Option<&Value>,
    new: Option<&Value>,
    who: &Who<'_>,
) -> Result<Warnings, Vec<Refusal>> {
    let (before, after) = match (operation, old, new) {
        (Operation::Delete, Some(old), _) if kind == Kind::Node => return node::delete(old, who),
        (Operation::Create, _, Some(new)) => (None, new),
        (Operation::Update, Some(old), Some(new)) => (Some(old), new),
        _ => return Ok(Warnings::new()),
    };
    if after.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
        return Ok(Warnings::new());
    }
    let findings = match kind {
        Kind::NodeGroup => read(before, after, node_group::check),
        Kind::VpsieNode => read(before, after, |old, new| vpsie_node::check(old, new, who)),
        Kind::AutoscalerConfig => read(before, after, |_, new| config::check(new)),
        Kind::Node if before.is_some() => node::update(after),
        Kind::Node => Findings::default(),
    };
    findings.verdict(before, after)
}

/// Reads both states and looks at them. An object that no controller can read would be seen by none:
/// it is refused, unless it was so before.
fn read<T: DeserializeOwned>(
    old: Option<&Value>,
    new: &Value,
    look: impl FnOnce(Option<&T>, &T) -> Findings,
) -> Findings {
    let parse = |value: &Value| T::deserialize(value);
    let before = old.map(parse);
    match (before, parse(new)) {
        (before, Ok(new)) => look(before.and_then(Result::ok).as_ref(), &new),
        (Some(Err(_)), Err(_)) => Findings::default(),
        (_, Err(error)) => {
            let (field, error) = (culprit::<T>(new, &error.to_string()), error.to_string());
            Findings::from(Problem::new(&field, format!("cannot be read: {error}")))
        }
    }
}

/// The field of the spec without which an object fails otherwise, or not at all.
fn culprit<T: DeserializeOwned>(object: &Value, error: &str) -> String {
    let spec = object.get("spec").and_then(Value::as_object);
    let guilty = spec.into_iter().flat_map(|spec| spec.keys()).find(|key| {
        let mut without = object.clone();
        if let Some(spec) = without.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove(*key);
        }
        T::deserialize(&without).map_or_else(|other| other.to_string() != error, |_| true)
    });
    guilty.map_or_else(|| "spec".to_owned(), |key| format!("spec.{key}"))
}

#[cfg(test)]
mod tests;
