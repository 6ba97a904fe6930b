use serde_json::json;

use super::*;

fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

fn managers(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|e| e["manager"].as_str().unwrap()).collect()
}

#[test]
fn appliers_come_first_then_the_oldest() {
    let (early, late) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
    let fields = json!({"f:a": {}});
    let list = json!([
        entry("u-late", "Update", late, fields.clone()),
        entry("u-early-b", "Update", early, fields.clone()),
        entry("u-early-a", "Update", early, fields.clone()),
        entry("a-late", "Apply", late, fields),
    ]);
    let encoded = Managed::decode(Some(&list)).unwrap().encode().unwrap();
    assert_eq!(managers(&encoded), ["a-late", "u-early-a", "u-early-b", "u-late"]);
    assert_eq!(encoded[3], list[0]);
}

#[test]
fn times_are_normalized_and_may_be_absent() {
    let mut list = json!([entry("m", "Apply", "2020-01-01T02:00:00.9+02:00", json!({"f:a": {}}))]);
    let encoded = Managed::decode(Some(&list)).unwrap().encode().unwrap();
    assert_eq!(encoded[0]["time"], "2020-01-01T00:00:00Z");
    list[0].as_object_mut().unwrap().remove("time");
    let encoded = Managed::decode(Some(&list)).unwrap().encode().unwrap();
    assert_eq!(encoded, list);
}

#[test]
fn entries_that_are_refused() {
    let good = entry("m", "Apply", "2020-01-01T00:00:00Z", json!({}));
    let with = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        Managed::decode(Some(&json!([entry])))
    };
    let reason = |result: Result<Managed, ManagedError>| result.unwrap_err().reason;
    assert_eq!(reason(with("operation", json!("Own"))), "operation must be `Apply` or `Update`");
    assert_eq!(reason(with("apiVersion", json!(""))), "apiVersion must not be empty");
    assert_eq!(
        reason(with("fieldsType", json!(""))),
        "missing fieldsType in managed fields entry 0"
    );
    assert_eq!(
        reason(with("fieldsType", json!("V9"))),
        "invalid fieldsType \"V9\" in managed fields entry 0"
    );
    assert!(with("fieldsV1", json!({"nope": {}})).is_err());
    // What is no entry at all makes the list count as absent.
    assert_eq!(with("time", json!("yesterday")).unwrap(), Managed::default());
    assert_eq!(Managed::decode(Some(&json!([5]))).unwrap(), Managed::default());
}

#[test]
fn the_oldest_updaters_are_merged() {
    let mut managed = Managed::default();
    for i in 0..12 {
        let id = ManagerId::new(&format!("u{i:02}"), Operation::Update, "v1", "");
        let fields = FieldSet::of_fields(&[&[&format!("f{i}")]]);
        managed.entries.insert(id, Owned { api_version: "v1".into(), fields, time: Some(i) });
    }
    managed.cap_updaters(10);
    assert_eq!(managed.entries.len(), 10);
    let bucket = ManagerId::new("ancient-changes", Operation::Update, "v1", "");
    let old = &managed.entries[&bucket];
    assert_eq!(old.fields, FieldSet::of_fields(&[&["f0"], &["f1"], &["f2"]]));
    assert_eq!(old.time, Some(2));
}

#[test]
fn the_name_of_a_manager() {
    assert_eq!(manager_name("mine", "curl/8"), "mine");
    assert_eq!(manager_name("", "kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_name("", "a\u{1}b\tc d"), "abc d");
    assert_eq!(manager_name("", &"é".repeat(100)).len(), 128);
    assert_eq!(ManagerId::new("", Operation::Apply, "v1", "").manager, "unknown");
}

const MAPPINGS: &[ReplicasPath] =
    &[ReplicasPath { api_version: "v1", path: &["spec", "replicas"] }];

#[test]
fn scale_shows_who_owns_the_count() {
    let list = json!([
        entry(
            "both",
            "Apply",
            "2020-01-01T00:00:00Z",
            json!({"f:spec": {"f:a": {}, "f:replicas": {}}})
        ),
        entry("other", "Apply", "2020-01-01T00:00:00Z", json!({"f:spec": {"f:a": {}}})),
    ]);
    let scale = to_scale(Some(&list), MAPPINGS).unwrap().unwrap();
    assert_eq!(managers(&scale), ["both"]);
    assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
    assert_eq!(scale[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    // Nothing changed: the parent's managers are what they were.
    assert_eq!(from_scale(Some(&list), Some(&scale), "v1", MAPPINGS).unwrap().unwrap(), list);
}

#[test]
fn a_write_to_scale_takes_the_count() {
    let list = json!([entry(
        "m",
        "Apply",
        "2020-01-01T00:00:00Z",
        json!({"f:spec": {"f:a": {}, "f:replicas": {}}}),
    )]);
    let mut scale = json!([entry(
        "hpa",
        "Update",
        "2021-01-01T00:00:00Z",
        json!({"f:spec": {"f:replicas": {}}}),
    )]);
    scale[0]["apiVersion"] = json!("autoscaling/v1");
    scale[0]["subresource"] = json!("scale");
    let parent = from_scale(Some(&list), Some(&scale), "v1", MAPPINGS).unwrap().unwrap();
    assert_eq!(parent[0]["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
    assert_eq!(parent[1]["manager"], "hpa");
    assert_eq!(parent[1]["apiVersion"], "v1");
    assert_eq!(parent[1]["subresource"], "scale");
    // The real server loses the time here.
    assert_eq!(parent[1].get("time"), None);
}
