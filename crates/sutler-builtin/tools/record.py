#!/usr/bin/env python3
"""Records what a kube-apiserver makes of the manifests and of the bad requests of our tests.

See README.md for how to run it. Nothing but the standard library is needed.
"""

import argparse
import json
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

TESTS = pathlib.Path(__file__).parent.parent / "tests"
PLURALS = {"StorageClass": "storageclasses"}
CLUSTER = {"Namespace", "Node", "PersistentVolume", "StorageClass", "ClusterRole", "ClusterRoleBinding"}
GENERATED = ["uid", "resourceVersion", "creationTimestamp", "managedFields"]


class Server:
    def __init__(self, url, token):
        self.url, self.token = url, token
        self.tls = ssl._create_unverified_context()

    def call(self, method, path, body=None, kind="application/json", accept="application/json"):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Content-Type", kind)
        request.add_header("Accept", accept)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def collection(self, obj):
        version, kind = obj["apiVersion"], obj["kind"]
        root = "/apis/" if "/" in version else "/api/"
        scope = "" if kind in CLUSTER else "/namespaces/default"
        return root + version + scope + "/" + PLURALS.get(kind, kind.lower() + "s")

    def remove(self, obj):
        path = self.collection(obj) + "/" + urllib.parse.quote(obj["metadata"]["name"])
        self.call("DELETE", path + "?gracePeriodSeconds=0")
        status, left = self.call("GET", path)
        if status != 200:
            return
        if obj["kind"] == "Namespace":
            left["spec"]["finalizers"] = []
            self.call("PUT", path + "/finalize", left)
        else:
            self.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def merge(base, patch):
    if not isinstance(patch, dict):
        return patch
    out = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def generalize(obj):
    for key in GENERATED:
        obj["metadata"].pop(key, None)
    obj.get("status", {}).pop("lastPhaseTransitionTime", None)
    for condition in obj.get("status", {}).get("conditions", []) if obj["kind"] == "Pod" else []:
        condition.pop("lastTransitionTime", None)
    if obj["kind"] == "Service":
        if obj["spec"].get("clusterIP") != "None":
            obj["spec"].pop("clusterIP", None)
            obj["spec"].pop("clusterIPs", None)
        for port in obj["spec"].get("ports", []):
            port.pop("nodePort", None)
    return obj


def manifests(folder="manifests"):
    return {path.stem: json.loads(path.read_text()) for path in sorted((TESTS / folder).glob("*.json"))}


def table(server, obj):
    path = server.collection(obj) + "/" + urllib.parse.quote(obj["metadata"]["name"])
    _, answer = server.call("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    columns, cells = answer["columnDefinitions"], answer["rows"][0]["cells"]
    # Times and what the server gives out differ from run to run.
    varying = {"Age", "Created At", "Last Seen", "First Seen", "Cluster-IP", "Port(s)"}
    for i, column in enumerate(columns):
        if column["name"] in varying:
            cells[i] = None
    heads = [[c["name"], c["type"], c["format"], c["priority"]] for c in columns]
    return {"columns": heads, "cells": cells}


def stored(server):
    tables = {}
    for name, obj in manifests().items():
        server.remove(obj)
        status, answer = server.call("POST", server.collection(obj), obj)
        if status != 201:
            print(name, status, answer.get("message"))
            continue
        tables[name] = table(server, obj)
        server.remove(obj)
        text = json.dumps(generalize(answer), indent=1, sort_keys=True)
        (TESTS / "fixtures" / "stored" / (name + ".json")).write_text(text + "\n")
    lines = ",\n".join(json.dumps(name) + ":" + json.dumps(row) for name, row in tables.items())
    (TESTS / "fixtures" / "tables.json").write_text("{\n" + lines + "\n}\n")


def refused(server):
    path = TESTS / "fixtures" / "refused.json"
    cases = json.loads(path.read_text())
    bases = manifests()
    for case in cases:
        obj = merge(bases[case["base"]], case.get("create", {}))
        server.remove(obj)
        status, answer = server.call("POST", server.collection(obj), obj)
        if "update" in case:
            if status != 201:
                print("not created:", json.dumps(case), answer.get("message"))
                continue
            target = server.collection(obj) + "/" + urllib.parse.quote(obj["metadata"]["name"])
            if "before" in case:
                status, answer = server.call(
                    "PATCH", target + "/status", {"status": case["before"]}, "application/merge-patch+json")
            target += "/" + case["subresource"] if "subresource" in case else ""
            status, answer = server.call("PATCH", target, case["update"], "application/merge-patch+json")
        server.remove(obj)
        if status < 300:
            print("accepted:", json.dumps(case))
        case["code"] = status
        case["message"] = answer.get("message", "") if status == 400 else ""
        causes = answer.get("details", {}).get("causes", [])
        # Differences of old and new follow the first line; their form is the server's own affair.
        case["causes"] = [
            {"reason": c["reason"], "field": c["field"], "message": c["message"].split("\n")[0]} for c in causes]
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text("[\n" + lines + "\n]\n")


def updated(server):
    path = TESTS / "fixtures" / "updated.json"
    cases = json.loads(path.read_text())
    bases = manifests()
    for case in cases:
        obj = bases[case["base"]]
        server.remove(obj)
        server.call("POST", server.collection(obj), obj)
        target = server.collection(obj) + "/" + urllib.parse.quote(obj["metadata"]["name"])
        target += "/" + case["subresource"] if "subresource" in case else ""
        status, answer = server.call("PATCH", target, case["update"], "application/merge-patch+json")
        server.remove(obj)
        if status != 200:
            print("not updated:", json.dumps(case), answer.get("message"))
            continue
        case["result"] = generalize(answer)
    lines = ",\n".join(json.dumps(case, sort_keys=True) for case in cases)
    path.write_text("[\n" + lines + "\n]\n")


def protobuf(generator):
    for name, obj in {**manifests(), **manifests("bodies")}.items():
        encoded = subprocess.run([generator, "-protobuf"], input=json.dumps(obj).encode(), capture_output=True)
        if encoded.returncode:
            print(name, encoded.stderr.decode())
            continue
        (TESTS / "fixtures" / "protobuf" / (name + ".pb")).write_bytes(encoded.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="https://127.0.0.1:6443")
    parser.add_argument("--token", default="")
    parser.add_argument("--generator", help="the built tools/generate, for the protobuf bodies")
    arguments = parser.parse_args()
    for folder in ["stored", "protobuf"]:
        (TESTS / "fixtures" / folder).mkdir(parents=True, exist_ok=True)
    server = Server(arguments.server, arguments.token)
    stored(server)
    refused(server)
    updated(server)
    if arguments.generator:
        protobuf(arguments.generator)


main()
