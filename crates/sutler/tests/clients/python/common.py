"""What the scripts share."""

import contextlib
import json
import sys

from kubernetes import client, config

NAMESPACE = sys.argv[1]
GROUP, VERSION, PLURAL = "infra.virtrigaud.io", "v1beta1", "virtualmachines"
MACHINES = {"group": GROUP, "version": VERSION, "namespace": NAMESPACE, "plural": PLURAL}

config.load_kube_config()


def machine(name, **spec):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "providerRef": {"name": "sim"},
            "classRef": {"name": "small"},
            "imageRef": {"name": "debian"},
            **spec,
        },
    }


@contextlib.contextmanager
def refused(code, reason, *parts):
    """The block must fail with this status, whose message has these parts."""
    try:
        yield
    except client.exceptions.ApiException as error:
        status = json.loads(error.body)
        assert error.status == code, error
        assert status["kind"] == "Status" and status["status"] == "Failure", status
        assert status["code"] == code and status["reason"] == reason, status
        for part in parts:
            assert part in status["message"], status
    else:
        raise AssertionError(f"not refused with {code} {reason}")
