"""Watches that go on from a version, are told 410, and lists by pages."""

import json

from common import NAMESPACE, MACHINES, machine, refused
from kubernetes import client, watch

core = client.CoreV1Api()
custom = client.CustomObjectsApi()


def create(name, **data):
    body = client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"set": "x"}), data=data or None
    )
    return core.create_namespaced_config_map(NAMESPACE, body)


def events(version, count):
    """The next events after a version."""
    seen, watcher = [], watch.Watch()
    stream = watcher.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        label_selector="set=x",
        resource_version=version,
        timeout_seconds=30,
    )
    for event in stream:
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == count:
            watcher.stop()
    return seen, watcher.resource_version


start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
create("a")
create("b")
core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"k": "v"}})
core.delete_namespaced_config_map("b", NAMESPACE)
seen, version = events(start, 2)
assert seen == [("ADDED", "a"), ("ADDED", "b")], seen
seen, version = events(version, 2)
assert seen == [("MODIFIED", "a"), ("DELETED", "b")], seen
create("c")
seen, version = events(version, 1)
assert seen == [("ADDED", "c")], seen

watcher = watch.Watch()
custom.create_namespaced_custom_object(body=machine("web"), **MACHINES)
for event in watcher.stream(
    custom.list_namespaced_custom_object, timeout_seconds=30, **MACHINES
):
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "web")
    custom.delete_namespaced_custom_object(name="web", **MACHINES)
    break
for event in watcher.stream(
    custom.list_namespaced_custom_object,
    timeout_seconds=30,
    resource_version=event["object"]["metadata"]["resourceVersion"],
    **MACHINES,
):
    assert event["type"] == "DELETED", event
    break

# Bookmarks end the state that a watch begins with.
stream = core.list_namespaced_config_map(
    NAMESPACE,
    watch=True,
    send_initial_events=True,
    allow_watch_bookmarks=True,
    resource_version_match="NotOlderThan",
    label_selector="set=x",
    timeout_seconds=30,
    _preload_content=False,
)
kinds = []
for line in watch.watch.iter_resp_lines(stream):
    if not line:
        continue
    event = json.loads(line)
    kinds.append((event["type"], event["object"]["metadata"].get("name")))
    if event["type"] == "BOOKMARK":
        annotations = event["object"]["metadata"]["annotations"]
        assert annotations == {"k8s.io/initial-events-end": "true"}, event
        break
assert kinds == [("ADDED", "a"), ("ADDED", "c"), ("BOOKMARK", None)], kinds

# A version that the log does not reach yet, and one that no server gave.
with refused(504, "Timeout", "Too large resource version"):
    core.list_namespaced_config_map(NAMESPACE, resource_version="999999999999")
with refused(400, "BadRequest", "invalid resource version"):
    core.list_namespaced_config_map(NAMESPACE, resource_version="x")

# Pages are one snapshot: what is made in between is not in it.
for number in range(7):
    create(f"page-{number}")
names, token, pages = [], None, 0
while True:
    page = core.list_namespaced_config_map(
        NAMESPACE, label_selector="set=x", limit=4, _continue=token
    )
    names += [item.metadata.name for item in page.items]
    pages += 1
    if pages == 1:
        first = page.metadata.resource_version
        create("page-9")
    assert page.metadata.resource_version == first
    token = page.metadata._continue
    if not token:
        break
assert names == ["a", "c"] + [f"page-{number}" for number in range(7)], names
assert pages == 3
with refused(400, "BadRequest", "continue key is not valid"):
    core.list_namespaced_config_map(NAMESPACE, limit=2, _continue="!!")
print("done")
