"""The dynamic client, which learns the kinds from discovery, and server-side apply."""

import json

from common import NAMESPACE, machine, refused
from kubernetes import client, dynamic
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

api = dynamic.DynamicClient(client.ApiClient())
machines = api.resources.get(api_version="infra.virtrigaud.io/v1beta1", kind="VirtualMachine")
assert machines.namespaced and "vm" in machines.short_names and "status" in machines.subresources
try:
    api.resources.get(api_version="infra.virtrigaud.io/v1beta1", kind="Nothing")
    raise AssertionError("a kind that is not there was found")
except ResourceNotFoundError:
    pass

first = machine("web", tags=["a"], powerState="On")
first["metadata"]["namespace"] = NAMESPACE
applied = machines.server_side_apply(body=first, namespace=NAMESPACE, field_manager="one")
entries = applied.metadata.managedFields
assert [(e.manager, e.operation) for e in entries] == [("one", "Apply")], entries
second = machine("web", powerState="Off")
try:
    machines.server_side_apply(body=second, namespace=NAMESPACE, field_manager="two")
    raise AssertionError("no conflict")
except ConflictError as error:
    status = json.loads(error.body)
    assert status["message"].endswith('conflict with "one": .spec.powerState'), status
    assert status["details"]["causes"][0]["reason"] == "FieldManagerConflict", status
machines.server_side_apply(
    body=second, namespace=NAMESPACE, field_manager="two", force_conflicts=True
)
del first["spec"]["tags"]
first["spec"]["powerState"] = "Off"
machines.server_side_apply(body=first, namespace=NAMESPACE, field_manager="one")
web = machines.get(name="web", namespace=NAMESPACE)
assert web.spec.powerState == "Off" and web.spec.tags is None, web

machines.patch(
    name="web",
    namespace=NAMESPACE,
    body={"metadata": {"annotations": {"a": "b"}}},
    content_type="application/merge-patch+json",
)
machines.status.patch(
    name="web",
    namespace=NAMESPACE,
    body={"status": {"phase": "Running"}},
    content_type="application/merge-patch+json",
)
assert machines.get(name="web", namespace=NAMESPACE).status.phase == "Running"

for event in machines.watch(namespace=NAMESPACE, timeout=30, name="web"):
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "web"), event
    break

maps = api.resources.get(api_version="v1", kind="ConfigMap")
body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
maps.create(body=body, namespace=NAMESPACE)
body["data"] = {"b": "2"}
maps.replace(body=body, namespace=NAMESPACE)
assert maps.get(name="m", namespace=NAMESPACE).data.to_dict() == {"b": "2"}
maps.delete(name="m", namespace=NAMESPACE)
try:
    maps.get(name="m", namespace=NAMESPACE)
    raise AssertionError("deleted and there")
except NotFoundError as error:
    assert error.status == 404 and error.summary() == 'configmaps "m" not found', error
with refused(415, "UnsupportedMediaType"):
    machines.patch(
        name="web",
        namespace=NAMESPACE,
        body={"spec": {}},
        content_type="application/strategic-merge-patch+json",
    )
print("done")
