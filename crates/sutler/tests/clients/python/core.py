"""Typed clients of built-in kinds: create, read, list, patch, replace, delete, and their errors."""

import base64

from common import NAMESPACE, refused
from kubernetes import client

core = client.CoreV1Api()
apps = client.AppsV1Api()
meta = client.V1ObjectMeta

made = core.create_namespaced_config_map(
    NAMESPACE, client.V1ConfigMap(metadata=meta(name="one", labels={"set": "x"}), data={"a": "1"})
)
assert made.metadata.uid and made.metadata.resource_version, made
assert made.metadata.creation_timestamp.tzinfo is not None
with refused(409, "AlreadyExists", 'configmaps "one" already exists'):
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta(name="one")))
with refused(404, "NotFound", 'configmaps "two" not found'):
    core.read_namespaced_config_map("two", NAMESPACE)
with refused(422, "Invalid", "metadata.name"):
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta(name="No_")))
with refused(422, "Invalid", "spec.replicas"):
    apps.create_namespaced_deployment(
        NAMESPACE,
        client.V1Deployment(
            metadata=meta(name="bad"),
            spec=client.V1DeploymentSpec(
                replicas=-1,
                selector=client.V1LabelSelector(match_labels={"app": "x"}),
                template=client.V1PodTemplateSpec(
                    metadata=meta(labels={"app": "x"}),
                    spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="x")]),
                ),
            ),
        ),
    )

patched = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"a": None, "b": "2"}})
assert patched.data == {"b": "2"}, patched.data
patched = core.patch_namespaced_config_map(
    "one", NAMESPACE, [{"op": "add", "path": "/data/c", "value": "3"}]
)
assert patched.data == {"b": "2", "c": "3"}, patched.data
stale = core.read_namespaced_config_map("one", NAMESPACE)
fresh = core.read_namespaced_config_map("one", NAMESPACE)
fresh.data["d"] = "4"
fresh = core.replace_namespaced_config_map("one", NAMESPACE, fresh)
assert int(fresh.metadata.resource_version) > int(stale.metadata.resource_version)
stale.data["d"] = "5"
with refused(409, "Conflict", "the object has been modified"):
    core.replace_namespaced_config_map("one", NAMESPACE, stale)

listed = core.list_namespaced_config_map(NAMESPACE, label_selector="set=x")
assert [item.metadata.name for item in listed.items] == ["one"]
dry = core.create_namespaced_config_map(
    NAMESPACE, client.V1ConfigMap(metadata=meta(generate_name="dry-")), dry_run="All"
)
assert dry.metadata.name.startswith("dry-") and dry.metadata.name != "dry-", dry.metadata
with refused(404, "NotFound"):
    core.read_namespaced_config_map(dry.metadata.name, NAMESPACE)

secret = core.create_namespaced_secret(
    NAMESPACE, client.V1Secret(metadata=meta(name="s"), string_data={"user": "me"})
)
assert base64.b64decode(secret.data["user"]) == b"me" and secret.string_data is None

pod = core.create_namespaced_pod(
    NAMESPACE,
    client.V1Pod(
        metadata=meta(name="p", labels={"app": "p"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="x")]),
    ),
)
assert pod.status.phase == "Pending" and pod.spec.restart_policy == "Always"
core.create_namespaced_pod_binding(
    "p",
    NAMESPACE,
    client.V1Binding(metadata=meta(name="p"), target=client.V1ObjectReference(kind="Node", name="n")),
    _preload_content=False,
)
assert core.read_namespaced_pod("p", NAMESPACE).spec.node_name == "n"
core.patch_namespaced_pod_status("p", NAMESPACE, {"status": {"phase": "Running"}})
core.create_namespaced_pod_eviction(
    "p",
    NAMESPACE,
    client.V1Eviction(
        metadata=meta(name="p"), delete_options=client.V1DeleteOptions(grace_period_seconds=0)
    ),
)
with refused(404, "NotFound"):
    core.read_namespaced_pod("p", NAMESPACE)

with refused(409, "Conflict", "the UID in the precondition (x) does not match"):
    core.delete_namespaced_config_map(
        "one", NAMESPACE, body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="x"))
    )
status = core.delete_namespaced_config_map("one", NAMESPACE)
assert status["status"] == "Success" and status["details"]["uid"] == made.metadata.uid, status
for name in ("x1", "x2", "y1"):
    core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=meta(name=name, labels={"of": name[0]}))
    )
core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="of=x")
left = core.list_namespaced_config_map(NAMESPACE, label_selector="of")
assert [item.metadata.name for item in left.items] == ["y1"], left

lease_api = client.CoordinationV1Api()
lease = lease_api.create_namespaced_lease(
    NAMESPACE,
    client.V1Lease(metadata=meta(name="l"), spec=client.V1LeaseSpec(holder_identity="me")),
)
assert lease.spec.holder_identity == "me"
assert client.VersionApi().get_code().minor == "36"
assert "infra.virtrigaud.io" in [group.name for group in client.ApisApi().get_api_versions().groups]
review = client.AuthorizationV1Api().create_self_subject_access_review(
    client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods")
        )
    )
)
assert review.status.allowed
print("done")
