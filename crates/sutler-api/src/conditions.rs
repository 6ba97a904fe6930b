//! Conditions: what is observed of an object, one aspect each.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::patterns;

/// The schema of a list of conditions, with the limits that Kubernetes documents for them.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One observed aspect of the object.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "What is observed, such as Ready.",
                    "maxLength": 316,
                    "pattern": patterns::CONDITION_TYPE,
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds: True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "The generation that this condition speaks of.",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "reason": {
                    "type": "string",
                    "description": "A stable word for the cause of the last change.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": patterns::REASON,
                },
                "message": {
                    "type": "string",
                    "description": "The cause of the last change, for people.",
                    "maxLength": 32768,
                },
            },
        },
    })
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl ConditionStatus {
    /// The status as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The condition of `type_`, if it is there.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of `type_` is there and holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Writes the conditions of one status: all of them speak of the same generation and time.
#[derive(Debug)]
pub struct Writer<'a> {
    /// The status's list.
    pub conditions: &'a mut Vec<Condition>,
    /// The generation that they speak of.
    pub observed_generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

impl Writer<'_> {
    /// Writes a condition that is always there.
    pub fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let (generation, now) = (self.observed_generation, self.now);
        set(self.conditions, type_, holds.into(), reason, message, generation, now);
    }

    /// Writes a condition that is there and holds only while `applies`.
    pub fn set_while(&mut self, applies: bool, type_: &str, reason: &str, message: &str) {
        match applies {
            true => self.set(type_, true, reason, message),
            false => self.remove(type_),
        }
    }

    /// Writes a condition that is there and does not hold only while `applies`.
    pub fn deny_while(&mut self, applies: bool, type_: &str, reason: &str, message: &str) {
        match applies {
            true => self.set(type_, false, reason, message),
            false => self.remove(type_),
        }
    }

    fn remove(&mut self, type_: &str) {
        self.conditions.retain(|condition| condition.type_ != type_);
    }
}

/// Writes a condition, and says whether anything changed. The transition time moves only when the
/// status does, and conditions stay sorted by type, so that equal states are equal lists.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut new = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: Time(now),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != new;
            *old = new;
            changed
        }
        None => {
            let place = conditions.partition_point(|condition| condition.type_.as_str() < type_);
            conditions.insert(place, new);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut list = Vec::new();
        assert!(set(&mut list, "Ready", false.into(), "Waiting", "for IP", Some(1), at(1)));
        assert!(!set(&mut list, "Ready", false.into(), "Waiting", "for IP", Some(1), at(2)));
        assert!(set(&mut list, "Ready", false.into(), "Waiting", "for disk", Some(2), at(3)));
        assert_eq!(list[0].last_transition_time, Time(at(1)));
        assert!(!is_true(&list, "Ready"));
        assert!(set(&mut list, "Ready", true.into(), "Running", "", Some(2), at(4)));
        assert_eq!(list[0].last_transition_time, Time(at(4)));
        assert!(is_true(&list, "Ready"));
    }

    #[test]
    fn the_order_of_writing_does_not_show() {
        let mut one = Vec::new();
        let mut two = Vec::new();
        for type_ in ["Ready", "Deleting", "Provisioning"] {
            set(&mut one, type_, ConditionStatus::Unknown, "New", "", None, at(1));
        }
        for type_ in ["Provisioning", "Ready", "Deleting"] {
            set(&mut two, type_, ConditionStatus::Unknown, "New", "", None, at(1));
        }
        assert_eq!(one, two);
        assert!(find(&one, "Paused").is_none());
    }
}
