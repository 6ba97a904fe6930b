//! Get, and paths that lead nowhere.

use serde_json::json;

use super::{cm, toy};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("read":
    missing, object, missing_in_missing_namespace, cluster_scoped, namespaced_kind_without_namespace,
    cluster_kind_in_namespace, unknown_resource, unknown_group, unknown_version, unknown_subresource,
    name_that_cannot_be, version_zero, version_exact, version_future, version_bad, unknown_parameters, pretty,
    methods_not_allowed, method_unknown, root_paths, trailing_slash, head_request, encoded_slash,
    watch_parameter_on_get, export_like_parameters,
);

fn missing(c: &Case) {
    c.get("cm/none").refused(404, "NotFound").has("/details/kind", "configmaps");
    c.get("toy/none").refused(404, "NotFound").has("/details/group", "parity.sutler.dev");
    c.get("deploy/none").refused(404, "NotFound").has("/details/group", "apps");
    c.get("toy/none/status").refused(404, "NotFound");
    c.get("toy/none/scale").refused(404, "NotFound");
    c.get("node/{ns}-none").refused(404, "NotFound").has("/details/kind", "nodes");
}

fn object(c: &Case) {
    c.post("cm", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).is(201);
    c.get("cm/a").is(200).has("/data/k", "v").has("/kind", "ConfigMap");
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.get("toy/a").is(200).has("/spec/mode", "Fast").has("/kind", "Toy");
    c.get("toy/a/status").is(200).has("/kind", "Toy");
}

fn missing_in_missing_namespace(c: &Case) {
    c.get("/api/v1/namespaces/{ns}-none/configmaps/a").refused(404, "NotFound");
    c.get("/api/v1/namespaces/{ns}-none/configmaps").is(200).items(&[]);
    c.get("/api/v1/namespaces/{ns}-none").refused(404, "NotFound");
}

fn cluster_scoped(c: &Case) {
    let world = json!({
        "apiVersion": "parity.sutler.dev/v1", "kind": "World",
        "metadata": {"name": "{ns}-w"}, "spec": {"moons": 2},
    });
    c.post("world", &world).is(201).lacks("/metadata/namespace");
    c.get("world/{ns}-w").is(200).has("/spec/moons", 2);
    c.delete("world/{ns}-w").is(200);
    c.get("ns/{ns}").is(200).has("/status/phase", "Active");
}

fn namespaced_kind_without_namespace(c: &Case) {
    c.get("/api/v1/configmaps/a").is(404);
    c.post("/api/v1/configmaps", &cm("a")).is(405);
    c.post("/apis/parity.sutler.dev/v1/toys", &toy("a", json!({"size": 1}))).is(404);
    c.get("/apis/parity.sutler.dev/v1/toys/a").is(404);
    c.delete("/api/v1/configmaps").is(405);
}

fn cluster_kind_in_namespace(c: &Case) {
    c.get("/api/v1/namespaces/{ns}/nodes").is(404);
    c.get("/apis/parity.sutler.dev/v1/namespaces/{ns}/worlds").is(404);
    c.get("/apis/parity.sutler.dev/v1/namespaces/{ns}/worlds/a").is(404);
}

fn unknown_resource(c: &Case) {
    c.get("/api/v1/namespaces/{ns}/gadgets").refused(404, "NotFound");
    c.get("/api/v1/gadgets").refused(404, "NotFound");
    c.get("/apis/apps/v1/gadgets").refused(404, "NotFound");
    c.get("/apis/parity.sutler.dev/v1/gadgets").is(404);
    c.get("/apis/parity.sutler.dev/v1/namespaces/{ns}/gadgets/a").is(404);
    c.post("/apis/parity.sutler.dev/v1/namespaces/{ns}/gadgets", &cm("a")).is(404);
    c.delete("/apis/apps/v1/namespaces/{ns}/gadgets/a").is(404);
}

fn unknown_group(c: &Case) {
    c.get("/apis/nowhere.example/v1/things").is(404);
    c.get("/apis/nowhere.example/v1").is(404);
    c.get("/apis/nowhere.example").is(404);
    c.post("/apis/nowhere.example/v1/namespaces/{ns}/things", &cm("a")).is(404);
}

fn unknown_version(c: &Case) {
    c.get("/api/v2/namespaces/{ns}/configmaps").is(404);
    c.get("/apis/apps/v9/namespaces/{ns}/deployments").is(404);
    c.get("/apis/parity.sutler.dev/v9/namespaces/{ns}/toys").is(404);
    c.get("/apis/parity.sutler.dev/v9").is(404);
}

fn unknown_subresource(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.get("cm/a/status").is(404);
    c.get("cm/a/scale").is(404);
    c.get("toy/a/gadget").is(404);
    c.get("plain/a/status").is(404);
    c.get("plain/a/scale").is(404);
    c.get("deploy/a/gadget").is(404);
}

fn name_that_cannot_be(c: &Case) {
    c.get("cm/UPPER").refused(404, "NotFound");
    c.get("cm/a..b").refused(404, "NotFound");
    c.get("cm/%20").refused(404, "NotFound");
    c.get("toy/UPPER").refused(404, "NotFound");
}

fn version_zero(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    // Served from a cache there: first ask for this version at least.
    c.get(&format!("cm?resourceVersion={}&resourceVersionMatch=NotOlderThan", made.rv())).is(200);
    c.get("cm/a?resourceVersion=0").is(200).has("/metadata/name", "a");
    c.get("cm/none?resourceVersion=0").refused(404, "NotFound");
}

fn version_exact(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.get(&format!("cm/a?resourceVersion={}", made.rv())).is(200);
}

fn version_future(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm/a?resourceVersion=999999999")
        .refused(504, "Timeout")
        .says("Too large resource version");
    // Each takes three seconds there: this is one more, for custom kinds.
    c.get("toy?resourceVersion=999999999").refused(504, "Timeout");
}

fn version_bad(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    for version in ["abc", "-1", "1.5", "0x10", "%20"] {
        c.get(&format!("cm/a?resourceVersion={version}"));
        c.get(&format!("toy/a?resourceVersion={version}"));
    }
}

fn unknown_parameters(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm/a?colour=red").is(200);
    c.get("cm?colour=red&limit=").refused(400, "BadRequest");
    c.get("cm?colour=red&colour=blue").is(200).items(&["a"]);
    c.get("cm?colour=%zz").is(200);
}

fn pretty(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let pretty = c.call(&Call::new("GET", "cm/a?pretty=true")).is(200);
    let plain = c.call(&Call::new("GET", "cm/a?pretty=false")).is(200);
    c.check(pretty.bytes.windows(2).any(|w| w == b"\n "), "pretty is indented");
    c.check(!plain.bytes.windows(2).any(|w| w == b"\n "), "plain is not indented");
    c.equal(made.rv(), plain.rv());
    let person = c.call(&Call::new("GET", "cm/a").header("user-agent", "curl/8.0")).is(200);
    c.equal(person.bytes.len(), pretty.bytes.len());
    c.equal(plain.bytes.last(), Some(&b'\n'));
}

fn methods_not_allowed(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("cm/a", &cm("a")).refused(405, "MethodNotAllowed");
    c.put("cm", &cm("a")).refused(405, "MethodNotAllowed");
    c.merge("cm", &json!({})).refused(405, "MethodNotAllowed");
    // Custom kinds are looser.
    c.post("toy/a", &toy("a", json!({"size": 1}))).is(201);
    c.put("toy", &toy("a", json!({"size": 1})))
        .refused(400, "BadRequest")
        .says("name must be provided");
    c.merge("toy", &json!({})).refused(400, "BadRequest");
    c.post("toy/a/status", &toy("a", json!({"size": 1}))).is(405);
    c.delete("toy/a/status").is(405);
    c.delete("deploy/a/status").is(405);
    c.delete("deploy/a/scale").is(405);
    c.get("ssar").is(405);
    c.get("ssr").is(405);
    c.delete("ns").is(405);
    c.get("pod/a/binding").is(405);
    c.get("pod/a/eviction").is(405);
}

fn method_unknown(c: &Case) {
    c.call(&Call::new("TRACE", "cm/a"));
    c.call(&Call::new("OPTIONS", "cm"));
    c.call(&Call::new("BREW", "cm/a"));
}

fn root_paths(c: &Case) {
    for path in ["/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/ping"] {
        c.get(path).is(200).has("", "ok");
    }
    c.get("/nowhere").is(404);
    // Which kinds there are is compared where discovery is.
    c.call(&Call::new("GET", "/api/v1/").quiet()).is(200).has("/kind", "APIResourceList");
    c.get("/healthz/nothing").is(404);
    for path in ["/healthz", "/livez", "/readyz"] {
        c.call(&Call::new("GET", path).anonymous()).is(200).has("", "ok");
    }
    let version = c.call(&Call::new("GET", "/version").quiet()).is(200);
    for key in ["/major", "/minor", "/gitVersion", "/platform", "/gitTreeState", "/buildDate"] {
        c.check(version.at(key).is_string(), key);
    }
    for key in ["/emulationMajor", "/emulationMinor"] {
        c.note(key, version.at(key).clone());
    }
    for key in ["/minCompatibilityMajor", "/minCompatibilityMinor"] {
        c.note(key, version.at(key).clone());
    }
}

fn trailing_slash(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm/").is(200);
    c.get("cm/a/").is(200);
    c.get("toy/").is(200);
    c.get("toy/a/").is(404);
    c.call(&Call::new("GET", "/apis/apps/v1/").quiet()).is(200).has("/kind", "APIResourceList");
}

fn head_request(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("HEAD", "cm/a"));
    c.call(&Call::new("HEAD", "/version"));
    c.call(&Call::new("HEAD", "toy"));
}

fn encoded_slash(c: &Case) {
    c.get("cm/a%2Fb");
    c.get("toy/a%2Fb");
    c.get("cm/a%00b");
    c.get("/api/v1/namespaces/%zz/pods");
    c.get("/api/v1/namespaces/%2E%2E/configmaps");
}

fn watch_parameter_on_get(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm/a?watch=false").is(200);
    c.get("cm?watch=0").is(200);
    c.get("cm?watch=false").is(200).items(&["a"]);
}

fn export_like_parameters(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.get("cm/a?export=true").refused(400, "BadRequest").says("no longer supported");
    c.get("toy/a?export=true");
    c.get("cm/a?exact=true&includeUninitialized=true").is(200);
}
