//! Conditions in the form that the autoscaler group writes them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sutler_api::autoscaler::NodeCondition;

/// Sets a condition, and keeps the time of its last change where its status stays.
pub(crate) fn set(
    list: &mut Vec<NodeCondition>,
    type_: &str,
    status: Option<bool>,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let new = NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
        observed_generation: generation,
    };
    match list.iter_mut().find(|known| known.type_ == type_) {
        None => list.push(new),
        Some(known) => {
            let same = NodeCondition {
                last_transition_time: known.last_transition_time.clone(),
                last_update_time: known.last_update_time.clone(),
                ..new.clone()
            };
            if *known == same {
                return;
            }
            let since = known.last_transition_time.clone().filter(|_| known.status == new.status);
            *known = NodeCondition { last_transition_time: since.or(Some(Time(now))), ..new };
        }
    }
}

/// Takes a condition away.
pub(crate) fn clear(list: &mut Vec<NodeCondition>, type_: &str) {
    list.retain(|known| known.type_ != type_);
}

/// A condition by its type.
pub(crate) fn find<'a>(list: &'a [NodeCondition], type_: &str) -> Option<&'a NodeCondition> {
    list.iter().find(|known| known.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_of_the_last_change_is_that_of_the_status() {
        let mut list = Vec::new();
        set(&mut list, "Ready", Some(false), "A", "a", Some(1), at(1));
        let first = list.clone();
        set(&mut list, "Ready", Some(false), "A", "a", Some(1), at(2));
        assert_eq!(list, first, "nothing new is nothing to write");
        set(&mut list, "Ready", Some(false), "B", "b", Some(1), at(3));
        assert_eq!(list[0].last_transition_time, Some(Time(at(1))));
        assert_eq!(list[0].last_update_time, Some(Time(at(3))));
        set(&mut list, "Ready", Some(true), "B", "b", Some(1), at(4));
        assert_eq!(list[0].last_transition_time, Some(Time(at(4))));
        clear(&mut list, "Ready");
        assert!(find(&list, "Ready").is_none());
    }
}
