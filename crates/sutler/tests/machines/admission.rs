//! Writes that are refused: in process by the embedded API server, and through the webhook by the real
//! one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Error,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, Status},
};
use serde_json::{Value, json};

use crate::lab::Lab;

/// The kinds of groups and nodes.
const AUTOSCALER: &str = "autoscaler.vpsie.com/v1alpha1";

both!(
    a_group_that_cannot_be_is_refused_by_field,
    settings_that_cannot_be_are_refused,
    what_did_not_change_is_not_refused,
    controllers_are_never_held_up,
    a_record_keeps_its_group_and_can_still_go,
    a_node_with_a_record_goes_by_its_record_only,
);

/// A group that nobody serves: it stays as it is written.
fn group(name: &str) -> Value {
    json!({"apiVersion": AUTOSCALER, "kind": "NodeGroup", "metadata": {"name": name},
        "spec": {"minNodes": 0, "maxNodes": 10, "desiredNodes": 2,
            "providerRef": {"name": "sim"}, "classRef": {"name": "small"},
            "imageRef": {"name": "debian"}}})
}

fn status(error: Error) -> Status {
    match error {
        Error::Api(status) => *status,
        other => panic!("{other}"),
    }
}

/// The fields that a refusal names.
fn fields(status: &Status) -> Vec<&str> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    causes.unwrap_or_default().iter().map(|cause| cause.field.as_str()).collect()
}

impl Lab {
    /// Another person, once the API server is known to ask before it writes: it takes note of who is to
    /// be asked a moment after it was told.
    async fn asking(&self) -> Self {
        let jane = self.as_person("jane").await;
        let mut bad = group("asked");
        bad["spec"]["desiredNodes"] = json!(11);
        let bad: DynamicObject = serde_json::from_value(bad).unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let groups = jane.api(AUTOSCALER, "NodeGroup");
        let refused = async { while groups.create(&dry, &bad).await.is_ok() {} };
        let waited = tokio::time::timeout(Duration::from_secs(60), refused).await;
        assert!(waited.is_ok(), "nobody is asked: {}", self.log());
        jane
    }

    fn groups(&self) -> Api<DynamicObject> {
        self.api(AUTOSCALER, "NodeGroup")
    }

    async fn altered(&self, name: &str, patch: Value) -> Result<DynamicObject, Status> {
        let patched =
            self.groups().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(status)
    }
}

async fn a_group_that_cannot_be_is_refused_by_field(lab: Lab) {
    let jane = lab.asking().await;
    let mut bad = group("web");
    bad["spec"]["desiredNodes"] = json!(11);
    bad["spec"]["labels"] = json!({"kubernetes.io/hostname": "x"});
    bad["spec"]["taints"] = json!([{"key": "k", "effect": "Never"}]);
    let refused = status(jane.try_create(bad.clone()).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"), "{refused:?}");
    let named = fields(&refused);
    for field in
        ["spec.desiredNodes", "spec.labels[kubernetes.io/hostname]", "spec.taints[0].effect"]
    {
        assert!(named.contains(&field), "{field}: {named:?}");
    }
    assert!(refused.message.contains("\"web\" is invalid"), "{}", refused.message);
    // In whatever way it is written.
    let applied = PatchParams::apply("test");
    let patch = Patch::Apply(bad.clone());
    let refused = status(jane.groups().patch("web", &applied, &patch).await.unwrap_err());
    assert_eq!(refused.code, 422, "{refused:?}");
    jane.create(group("web")).await;
    let refused = jane.altered("web", json!({"spec": {"desiredNodes": 11}})).await.unwrap_err();
    assert_eq!(fields(&refused), ["spec.desiredNodes"]);
    let refused =
        status(jane.groups().patch("web", &applied.clone().force(), &patch).await.unwrap_err());
    assert_eq!(refused.code, 422, "{refused:?}");
    let mut whole = jane.groups().get("web").await.unwrap();
    whole.data["spec"]["scaleUpPolicy"] = json!({"enabled": true});
    whole.data["spec"]["spotConfig"] = json!({"enabled": true, "interruptionGracePeriod": "soon"});
    let replaced = jane.groups().replace("web", &PostParams::default(), &whole).await;
    assert_eq!(fields(&status(replaced.unwrap_err())), ["spec.spotConfig.interruptionGracePeriod"]);
    let kept = jane.groups().get("web").await.unwrap();
    assert_eq!(kept.data["spec"]["desiredNodes"], 2);
    assert!(kept.data["spec"]["spotConfig"].is_null(), "{kept:?}");
}

async fn settings_that_cannot_be_are_refused(lab: Lab) {
    let jane = lab.asking().await;
    let kind = GroupVersionKind::gvk("autoscaler.vpsie.com", "v1alpha1", "AutoscalerConfig");
    let configs: Api<DynamicObject> =
        Api::all_with(jane.client.clone(), &ApiResource::from_gvk(&kind));
    let name = &lab.namespace;
    let config = |version: &str| -> DynamicObject {
        let object = json!({"apiVersion": AUTOSCALER, "kind": "AutoscalerConfig",
            "metadata": {"name": name},
            "spec": {"nodeGroupDefaults": {"kubernetesVersion": version}}});
        serde_json::from_value(object).unwrap()
    };
    let refused = configs.create(&PostParams::default(), &config("1.34")).await.unwrap_err();
    assert_eq!(fields(&status(refused)), ["spec.nodeGroupDefaults.kubernetesVersion"]);
    configs.create(&PostParams::default(), &config("v1.34.1")).await.unwrap();
    configs.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn what_did_not_change_is_not_refused(lab: Lab) {
    let jane = lab.asking().await;
    let mut object = group("old");
    object["spec"]["desiredNodes"] = json!(8);
    jane.create(object).await;
    // Bounds may move past the size, which nobody moves along here.
    jane.altered("old", json!({"spec": {"maxNodes": 5}})).await.unwrap();
    let labelled = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.org/held"]}});
    jane.altered("old", labelled).await.unwrap();
    jane.altered("old", json!({"spec": {"notes": "mended later"}})).await.unwrap();
    let refused = jane.altered("old", json!({"spec": {"desiredNodes": 9}})).await.unwrap_err();
    assert_eq!(fields(&refused), ["spec.desiredNodes"]);
    // Nothing holds up what is on its way out.
    jane.groups().delete("old", &DeleteParams::default()).await.unwrap();
    jane.altered("old", json!({"metadata": {"finalizers": []}})).await.unwrap();
    assert!(jane.groups().get_opt("old").await.unwrap().is_none());
}

async fn controllers_are_never_held_up(lab: Lab) {
    let jane = lab.asking().await;
    lab.furnish(json!({})).await;
    let mut object = group("web");
    object["metadata"]["labels"] = json!({"autoscaler.vpsie.com/managed": "true"});
    jane.create(object).await;
    let sized = |nodes: i64| move |group: &Value| group["spec"]["desiredNodes"] == nodes;
    jane.altered("web", json!({"spec": {"maxNodes": 1}})).await.unwrap();
    lab.until_of(AUTOSCALER, "NodeGroup", "web", "smaller", sized(1)).await;
    // A size that comes by the scale subresource is kept within its bounds.
    let scale = Patch::Merge(json!({"spec": {"replicas": 9}}));
    jane.groups().patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    lab.until_of(AUTOSCALER, "NodeGroup", "web", "within its bounds", sized(1)).await;
    let known = |node: &Value| !node["status"]["instanceID"].is_null();
    lab.until_of(AUTOSCALER, "VPSieNode", "web-0001", "known", known).await;
    jane.groups().delete("web", &DeleteParams::default()).await.unwrap();
    lab.until_of(AUTOSCALER, "NodeGroup", "web", "gone", Value::is_null).await;
    assert!(lab.platform().is_empty(), "{:#?}", lab.platform());
}

async fn a_record_keeps_its_group_and_can_still_go(lab: Lab) {
    let jane = lab.asking().await;
    lab.furnish(json!({})).await;
    let record = |address: &str| {
        json!({"apiVersion": AUTOSCALER, "kind": "VPSieNode", "metadata": {"name": "n"},
            "spec": {"nodeGroupName": "web", "providerRef": {"name": "sim"},
                "classRef": {"name": "small"}, "imageRef": {"name": "debian"},
                "ipAddress": address}})
    };
    let refused = status(jane.try_create(record("10.0.0")).await.unwrap_err());
    assert_eq!(fields(&refused), ["spec.ipAddress"]);
    jane.create(record("")).await;
    // Sutler writes onto it what it finds out, and people no longer what was decided.
    let known = |node: &Value| !node["status"]["instanceID"].is_null();
    lab.until_of(AUTOSCALER, "VPSieNode", "n", "known", known).await;
    let records = jane.api(AUTOSCALER, "VPSieNode");
    for (field, value) in [("nodeGroupName", json!("db")), ("classRef", json!({"name": "large"}))] {
        let patch = Patch::Merge(json!({"spec": {field: value}}));
        let refused = records.patch("n", &PatchParams::default(), &patch).await.unwrap_err();
        assert_eq!(fields(&status(refused)), [format!("spec.{field}")]);
    }
    records.delete("n", &DeleteParams::default()).await.unwrap();
    lab.until_of(AUTOSCALER, "VPSieNode", "n", "gone", Value::is_null).await;
    assert!(lab.platform().is_empty(), "{:#?}", lab.platform());
}

async fn a_node_with_a_record_goes_by_its_record_only(lab: Lab) {
    let jane = lab.asking().await;
    let case = &lab.namespace;
    let name = |name: &str| format!("{case}-{name}");
    let node = |called: &str, record: &str| -> Node {
        let labels = json!({"autoscaler.vpsie.com/vpsienode": record, "case": case,
            "autoscaler.vpsie.com/nodegroup-namespace": case});
        let labels = if record.is_empty() { json!({"case": case}) } else { labels };
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name(called), "labels": labels}, "spec": {}}))
        .unwrap()
    };
    let nodes: Api<Node> = Api::all(jane.client.clone());
    for (called, record) in [("kept", "web-0001"), ("other", "web-0002"), ("free", "")] {
        nodes.create(&PostParams::default(), &node(called, record)).await.unwrap();
    }
    let refused = status(nodes.delete(&name("kept"), &DeleteParams::default()).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"), "{refused:?}");
    let words = format!("kubectl delete vpsienode web-0001 -n {case}");
    assert!(refused.message.contains(&words), "{}", refused.message);
    let refused = nodes.delete(&name("kept"), &DeleteParams::default().dry_run()).await;
    assert_eq!(status(refused.unwrap_err()).code, 403);
    let ours = ListParams::default().labels(&format!("case={case},autoscaler.vpsie.com/vpsienode"));
    let refused = nodes.delete_collection(&DeleteParams::default(), &ours).await.map(drop);
    assert_eq!(status(refused.unwrap_err()).code, 403);
    assert_eq!(nodes.list(&ours).await.unwrap().items.len(), 2);
    let annotate = async |called: &str, key: &str, value: &str| {
        let key = format!("autoscaler.vpsie.com/{key}");
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        nodes.patch(&name(called), &PatchParams::default(), &patch).await
    };
    // Hours that cannot be read are refused when they are written.
    let refused = status(annotate("kept", "scale-down-allowed-hours", "22-6").await.unwrap_err());
    assert_eq!(refused.code, 422, "{refused:?}");
    annotate("kept", "scale-down-allowed-hours", "22:00-06:00").await.unwrap();
    // One that is nobody's, one that may go, and one that the cluster itself removes.
    nodes.delete(&name("free"), &DeleteParams::default()).await.unwrap();
    annotate("kept", "allow-deletion", "true").await.unwrap();
    nodes.delete(&name("kept"), &DeleteParams::default()).await.unwrap();
    let controller = lab.as_person("system:serviceaccount:kube-system:node-controller").await;
    let nodes: Api<Node> = Api::all(controller.client);
    nodes.delete(&name("other"), &DeleteParams::default()).await.unwrap();
}
