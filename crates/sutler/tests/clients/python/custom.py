"""CustomObjectsApi on kinds of ours: the whole life of an object, with status and scale."""

from common import GROUP, NAMESPACE, MACHINES, VERSION, machine, refused
from kubernetes import client

api = client.CustomObjectsApi()

made = api.create_namespaced_custom_object(
    body=machine("web", disks=[{"name": "d", "sizeGiB": 10}]), **MACHINES
)
assert made["metadata"]["generation"] == 1
assert made["spec"]["disks"][0]["type"] == "thin", "a default is missing"
with refused(409, "AlreadyExists", 'virtualmachines.infra.virtrigaud.io "web" already exists'):
    api.create_namespaced_custom_object(body=machine("web"), **MACHINES)
with refused(422, "Invalid", "spec.powerState", '"Sideways"'):
    api.create_namespaced_custom_object(body=machine("x", powerState="Sideways"), **MACHINES)
with refused(422, "Invalid", "spec.providerRef: Required value"):
    body = machine("x")
    del body["spec"]["providerRef"]
    api.create_namespaced_custom_object(body=body, **MACHINES)
with refused(400, "BadRequest", 'unknown field "spec.nope"'):
    api.create_namespaced_custom_object(
        body=machine("x", nope=1), field_validation="Strict", **MACHINES
    )

got = api.get_namespaced_custom_object(name="web", **MACHINES)
assert got == made
got["spec"]["powerState"] = "Off"
got["status"] = {"phase": "Running"}
replaced = api.replace_namespaced_custom_object(name="web", body=got, **MACHINES)
assert replaced["metadata"]["generation"] == 2 and "status" not in replaced
with refused(409, "Conflict", "the object has been modified"):
    api.replace_namespaced_custom_object(name="web", body=got, **MACHINES)

status = api.patch_namespaced_custom_object_status(
    name="web", body={"status": {"phase": "Running"}}, **MACHINES
)
assert status["status"]["phase"] == "Running" and status["metadata"]["generation"] == 2
status["status"]["ips"] = ["10.0.0.1"]
status = api.replace_namespaced_custom_object_status(name="web", body=status, **MACHINES)
assert api.get_namespaced_custom_object_status(name="web", **MACHINES) == status

patched = api.patch_namespaced_custom_object(
    name="web", body={"spec": {"powerState": None, "tags": ["a"]}}, **MACHINES
)
assert "powerState" not in patched["spec"] and patched["spec"]["tags"] == ["a"]
patched = api.patch_namespaced_custom_object(
    name="web",
    body=[{"op": "add", "path": "/spec/tags/-", "value": "b"}],
    _content_type="application/json-patch+json",
    **MACHINES,
)
assert patched["spec"]["tags"] == ["a", "b"]

sets = {"group": GROUP, "version": VERSION, "namespace": NAMESPACE, "plural": "vmsets"}
api.create_namespaced_custom_object(
    body={
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "VMSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": machine("x")["spec"]},
        },
    },
    **sets,
)
scale = api.get_namespaced_custom_object_scale(name="set", **sets)
assert scale["spec"]["replicas"] == 1
scale["spec"]["replicas"] = 4
api.replace_namespaced_custom_object_scale(name="set", body=scale, **sets)
api.patch_namespaced_custom_object_scale(name="set", body={"spec": {"replicas": 5}}, **sets)
assert api.get_namespaced_custom_object(name="set", **sets)["spec"]["replicas"] == 5

for name in ("db", "mail"):
    api.create_namespaced_custom_object(body=machine(name), **MACHINES)
listed = api.list_namespaced_custom_object(label_selector="app in (db,mail)", **MACHINES)
assert [item["metadata"]["name"] for item in listed["items"]] == ["db", "mail"]
everywhere = api.list_cluster_custom_object(GROUP, VERSION, "virtualmachines")
assert (NAMESPACE, "web") in [
    (item["metadata"]["namespace"], item["metadata"]["name"]) for item in everywhere["items"]
]
gone = api.delete_namespaced_custom_object(name="web", **MACHINES)
assert gone["status"] == "Success" and gone["details"]["kind"] == "virtualmachines", gone
api.delete_collection_namespaced_custom_object(**MACHINES)
assert api.list_namespaced_custom_object(**MACHINES)["items"] == []
with refused(404, "NotFound"):
    api.delete_namespaced_custom_object(name="web", **MACHINES)
print("done")
