//! Brings one ready-made object up to date.

use serde_json::{Map, Value};

use super::AUTOUPDATE;
use crate::auth::rbac::Rule;

/// What to do with one ready-made object at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It holds at least what it should.
    Keep,
    /// It lacks something, but a person has set its autoupdate annotation to `"false"`.
    Protected,
    /// It is not there.
    Create(Value),
    /// It lacks something; this is the object with it added.
    Update(Value),
    /// A binding to another role: that reference cannot change, so delete it and create this.
    Recreate(Value),
}

/// Compares the stored object, if there is one, with what a start wants. Rules, subjects, labels
/// and annotations that a person added stay; what is missing is added.
pub fn reconcile(existing: Option<&Value>, wanted: &Value) -> Action {
    let Some(existing) = existing else {
        return Action::Create(wanted.clone());
    };
    let action = match wanted.get("roleRef") {
        Some(_) => reconcile_binding(existing, wanted),
        None => reconcile_role(existing, wanted),
    };
    let autoupdate = existing.pointer("/metadata/annotations").and_then(|a| a.get(AUTOUPDATE));
    match action {
        Action::Update(_) | Action::Recreate(_) if autoupdate == Some(&"false".into()) => {
            Action::Protected
        }
        action => action,
    }
}

fn reconcile_role(existing: &Value, wanted: &Value) -> Action {
    let mut merged = existing.clone();
    merge_metadata(&mut merged, wanted);
    let held = Rule::list_of(existing);
    let missing = crate::auth::rbac::missing_rules(&held, &Rule::list_of(wanted));
    extend(&mut merged, "rules", missing.iter().map(Rule::to_value).collect());
    match (wanted.get("aggregationRule"), existing.get("aggregationRule")) {
        (None, Some(_)) => {
            if let Some(object) = merged.as_object_mut() {
                object.remove("aggregationRule");
            }
        }
        (None, None) => {}
        (Some(wanted), existing) => {
            let selectors = |rule: &Value| items(rule, "clusterRoleSelectors").to_vec();
            let held = existing.map(selectors).unwrap_or_default();
            let lacking = selectors(wanted).into_iter().filter(|s| !held.contains(s)).collect();
            let mut rule = existing.cloned().unwrap_or_else(|| Value::Object(Map::new()));
            extend(&mut rule, "clusterRoleSelectors", lacking);
            merged["aggregationRule"] = rule;
        }
    }
    changed(existing, merged)
}

fn reconcile_binding(existing: &Value, wanted: &Value) -> Action {
    if existing.get("roleRef") != wanted.get("roleRef") {
        return Action::Recreate(wanted.clone());
    }
    let mut merged = existing.clone();
    merge_metadata(&mut merged, wanted);
    let held = items(existing, "subjects");
    let lacking = items(wanted, "subjects").iter().filter(|s| !held.contains(s)).cloned();
    extend(&mut merged, "subjects", lacking.collect());
    changed(existing, merged)
}

fn changed(existing: &Value, merged: Value) -> Action {
    match *existing == merged {
        true => Action::Keep,
        false => Action::Update(merged),
    }
}

/// Adds the wanted labels and annotations; where both have a key, the person's value stays.
fn merge_metadata(merged: &mut Value, wanted: &Value) {
    for part in ["labels", "annotations"] {
        let Some(wanted) = wanted.pointer(&format!("/metadata/{part}")).and_then(Value::as_object)
        else {
            continue;
        };
        let place = &mut merged["metadata"][part];
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        if let Some(place) = place.as_object_mut() {
            for (key, value) in wanted {
                place.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
}

fn items<'v>(object: &'v Value, key: &str) -> &'v [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn extend(object: &mut Value, key: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    match object[key].as_array_mut() {
        Some(list) => list.extend(more),
        None => object[key] = Value::Array(more),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::objects;
    use super::*;

    fn named(kind: &str, name: &str) -> Value {
        let found = objects()
            .into_iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap()
    }

    #[test]
    fn what_is_there_is_kept_and_what_is_not_is_made() {
        for wanted in objects() {
            assert_eq!(reconcile(None, &wanted), Action::Create(wanted.clone()));
            assert_eq!(reconcile(Some(&wanted), &wanted), Action::Keep);
        }
    }

    #[test]
    fn additions_stay_and_losses_are_made_good() {
        let wanted = named("ClusterRole", "system:basic-user");
        let mut stored = wanted.clone();
        stored["metadata"]["labels"] = json!({"mine": "yes"});
        stored["metadata"]["resourceVersion"] = "7".into();
        let extra = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]});
        stored["rules"] = json!([wanted["rules"][0], extra]);
        let Action::Update(merged) = reconcile(Some(&stored), &wanted) else { panic!() };
        assert_eq!(merged["rules"], json!([wanted["rules"][0], extra, wanted["rules"][1]]));
        assert_eq!(merged["metadata"]["labels"]["mine"], "yes");
        assert_eq!(merged["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
        assert_eq!(merged["metadata"]["resourceVersion"], "7");
        assert_eq!(reconcile(Some(&merged), &wanted), Action::Keep);
    }

    #[test]
    fn a_rule_that_covers_more_is_enough() {
        let wanted = named("ClusterRole", "system:basic-user");
        let mut stored = wanted.clone();
        stored["rules"] = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        assert_eq!(reconcile(Some(&stored), &wanted), Action::Keep);
    }

    #[test]
    fn aggregation_is_restored_or_taken_off() {
        let wanted = named("ClusterRole", "view");
        let mut stored = wanted.clone();
        let mine = json!({"matchLabels": {"mine": "yes"}});
        stored["aggregationRule"]["clusterRoleSelectors"] = json!([mine]);
        stored["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let Action::Update(merged) = reconcile(Some(&stored), &wanted) else { panic!() };
        let selectors = &merged["aggregationRule"]["clusterRoleSelectors"];
        assert_eq!(selectors[0], mine);
        assert_eq!(selectors[1], wanted["aggregationRule"]["clusterRoleSelectors"][0]);
        assert_eq!(merged["rules"], stored["rules"]);

        let wanted = named("ClusterRole", "cluster-admin");
        let mut stored = wanted.clone();
        stored["aggregationRule"] = json!({"clusterRoleSelectors": [mine]});
        assert_eq!(reconcile(Some(&stored), &wanted), Action::Update(wanted));
    }

    #[test]
    fn bindings_gain_subjects_and_are_remade_for_another_role() {
        let wanted = named("ClusterRoleBinding", "system:discovery");
        let mut stored = wanted.clone();
        let mine = json!({"kind": "User", "apiGroup": super::super::GROUP, "name": "jane"});
        stored["subjects"] = json!([mine]);
        let Action::Update(merged) = reconcile(Some(&stored), &wanted) else { panic!() };
        assert_eq!(merged["subjects"], json!([mine, wanted["subjects"][0]]));

        let mut stored = wanted.clone();
        stored["roleRef"]["name"] = "other".into();
        assert_eq!(reconcile(Some(&stored), &wanted), Action::Recreate(wanted.clone()));
        stored["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(reconcile(Some(&stored), &wanted), Action::Protected);
    }

    #[test]
    fn a_person_can_opt_out() {
        let wanted = named("ClusterRole", "system:discovery");
        let mut stored = wanted.clone();
        stored["rules"] = json!([]);
        stored["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(reconcile(Some(&stored), &wanted), Action::Protected);
    }
}
