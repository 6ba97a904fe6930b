//! From a set's record to what it should be like, or the field that makes no sense.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
    util::intstr::IntOrString,
};
use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};
use sutler_api::{
    infra::{ManagementPolicy, RollingUpdate, UpdateStrategyType, VMSet, VMSetSpec},
    names::{annotations, reasons},
};

use super::{
    plan::{Update, Wanted},
    volumes::volumes,
};

/// Why nothing is done for a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// A stable word.
    pub(crate) reason: &'static str,
    /// The field and what is wrong with it, for people.
    pub(crate) message: String,
}

pub(super) fn invalid(field: &str, message: impl std::fmt::Display) -> Refusal {
    Refusal { reason: reasons::INVALID, message: format!("{field}: {message}") }
}

/// What a set should be like. Its revisions are filled in later.
pub(crate) fn wanted(set: &VMSet) -> Result<Wanted, Refusal> {
    let spec = &set.spec;
    selected(spec)?;
    let has_volumes = !volumes(spec)?.is_empty();
    let replicas = u32::try_from(spec.replicas)
        .map_err(|_| invalid("spec.replicas", "there is no negative number of machines"))?;
    let start = spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start);
    let start =
        u32::try_from(start).map_err(|_| invalid("spec.ordinals.start", "it is negative"))?;
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let rolling = strategy.rolling_update.unwrap_or_default();
    let ordered = rolling.pod_management_policy == ManagementPolicy::OrderedReady;
    let update = match strategy.type_ {
        UpdateStrategyType::RollingUpdate => bounds(&rolling, replicas, has_volumes)?,
        UpdateStrategyType::OnDelete => Update::OnDelete,
        UpdateStrategyType::Recreate => Update::Recreate,
    };
    let min_ready = u64::try_from(spec.min_ready_seconds.unwrap_or(0)).unwrap_or(0);
    let paused = set.annotations().get(annotations::PAUSED).is_some_and(|value| value == "true");
    Ok(Wanted {
        replicas,
        start,
        update,
        ordered,
        min_ready: Duration::from_secs(min_ready),
        revision: String::new(),
        current: String::new(),
        paused,
    })
}

/// A set must know its own machines, or it would make new ones without end.
fn selected(spec: &VMSetSpec) -> Result<(), Refusal> {
    let empty = spec.selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
        && spec.selector.match_expressions.as_ref().is_none_or(|list| list.is_empty());
    if empty {
        return Err(invalid("spec.selector", "it selects everything: name labels of the template"));
    }
    let selector: Selector = spec
        .selector
        .clone()
        .try_into()
        .map_err(|error| invalid("spec.selector", format!("it cannot be read: {error}")))?;
    let labels = spec.template.metadata.as_ref().map(|m| m.labels.clone()).unwrap_or_default();
    match selector.matches(&labels) {
        true => Ok(()),
        false => Err(invalid(
            "spec.template.metadata.labels",
            "spec.selector does not match them: machines of this set would not be its own",
        )),
    }
}

/// The selector as text, as the scale subresource tells it.
pub(crate) fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(expression);
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

fn expression(requirement: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let values = values.clone().unwrap_or_default().join(",");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}

fn bounds(rolling: &RollingUpdate, replicas: u32, has_volumes: bool) -> Result<Update, Refusal> {
    let field = "spec.updateStrategy.rollingUpdate";
    let of = |value: &IntOrString, name: &str, up: bool| {
        share(value, replicas, up).map_err(|why| invalid(&format!("{field}.{name}"), why))
    };
    let max_surge = of(&rolling.max_surge, "maxSurge", true)?;
    // A machine that stands in for another would have none of what is on that one's disks.
    let max_surge = if has_volumes { 0 } else { max_surge };
    let max_unavailable = of(&rolling.max_unavailable, "maxUnavailable", false)?;
    // Where neither more nor fewer were allowed, nothing could ever be replaced.
    let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
    let partition = u32::try_from(rolling.partition.unwrap_or(0)).unwrap_or(0);
    Ok(Update::Rolling { max_unavailable, max_surge, partition })
}

/// A number, or a share of all.
fn share(value: &IntOrString, all: u32, up: bool) -> Result<u32, String> {
    let text = match value {
        IntOrString::Int(number) => {
            return u32::try_from(*number).map_err(|_| format!("{number} is negative"));
        }
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok());
    let Some(percent) = percent.filter(|percent| *percent <= 10_000) else {
        return Err(format!("{text:?} is neither a number nor a share such as 25%"));
    };
    let part = u64::from(all) * percent;
    let part = if up { part.div_ceil(100) } else { part / 100 };
    Ok(u32::try_from(part).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> VMSet {
        let mut set = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSet",
            "metadata": { "name": "web" },
            "spec": { "replicas": 10, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } },
                    "spec": { "providerRef": { "name": "p" } } } },
        });
        change(&mut set);
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn what_makes_no_sense_names_the_field() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 4] = [
            (|set| set["spec"]["selector"] = json!({}), "spec.selector"),
            (
                |set| set["spec"]["template"]["metadata"] = json!({}),
                "spec.template.metadata.labels",
            ),
            (
                |set| {
                    set["spec"]["updateStrategy"] =
                        json!({ "rollingUpdate": { "maxSurge": "many" } });
                },
                "spec.updateStrategy.rollingUpdate.maxSurge",
            ),
            (
                |set| set["spec"]["volumeClaimTemplates"] = json!([{ "spec": {} }]),
                "spec.volumeClaimTemplates[0].metadata.name",
            ),
        ];
        for (change, field) in cases {
            let refusal = wanted(&set(change)).unwrap_err();
            assert!(refusal.message.starts_with(&format!("{field}:")), "{refusal:?}");
        }
    }

    #[test]
    fn shares_are_rounded_to_the_safe_side() {
        let update = |rolling: Value| {
            let set = set(|set| {
                set["spec"]["updateStrategy"] = json!({ "rollingUpdate": rolling });
            });
            match wanted(&set).unwrap().update {
                Update::Rolling { max_unavailable, max_surge, partition } => {
                    (max_unavailable, max_surge, partition)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(update(json!({})), (2, 3, 0));
        assert_eq!(update(json!({ "maxUnavailable": "0%", "maxSurge": 0 })), (1, 0, 0));
        assert_eq!(update(json!({ "maxUnavailable": 0, "maxSurge": "1%" })), (0, 1, 0));
        assert_eq!(update(json!({ "maxUnavailable": 4, "partition": 7 })), (4, 3, 7));
    }

    #[test]
    fn a_selector_reads_as_kubernetes_writes_it() {
        let selector = json!({ "matchLabels": { "app": "web" }, "matchExpressions": [
            { "key": "tier", "operator": "In", "values": ["a", "b"] },
            { "key": "old", "operator": "DoesNotExist" } ] });
        let selector = serde_json::from_value(selector).unwrap();
        assert_eq!(selector_text(&selector), "app=web,tier in (a,b),!old");
    }
}
