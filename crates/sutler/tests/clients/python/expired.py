"""Versions that the server has forgotten: 410, and the way on from there.

Asks for a compaction by a line on standard output, and waits for one on standard input.
"""

import json

from common import NAMESPACE, refused
from kubernetes import client, watch

core = client.CoreV1Api()


def create(name):
    core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name))
    )


for number in range(4):
    create(f"map-{number}")
page = core.list_namespaced_config_map(NAMESPACE, limit=2)
old, token = page.metadata.resource_version, page.metadata._continue
create("late")
print("compact", flush=True)
input()

# A watch from there is refused, and the client says so.
try:
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=old, timeout_seconds=20
    ):
        raise AssertionError(event)
    raise AssertionError("the watch ended without a word")
except client.exceptions.ApiException as error:
    assert error.status == 410 and "too old resource version" in error.reason, error

# A watch that began without a version begins anew by itself.
for event in watch.Watch().stream(
    core.list_namespaced_config_map, NAMESPACE, timeout_seconds=20
):
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "late"), event
    break

# So is the next page of a list, with a token that goes on from the present.
try:
    core.list_namespaced_config_map(NAMESPACE, limit=2, _continue=token)
    raise AssertionError("a page of a state that is gone")
except client.exceptions.ApiException as error:
    status = json.loads(error.body)
    assert (status["code"], status["reason"]) == (410, "Expired"), status
    token = status["metadata"]["continue"]
rest = core.list_namespaced_config_map(NAMESPACE, _continue=token)
assert [item.metadata.name for item in rest.items] == ["map-2", "map-3"], rest.items
with refused(410, "Expired"):
    core.list_namespaced_config_map(
        NAMESPACE, resource_version=old, resource_version_match="Exact", limit=1
    )
print("done")
