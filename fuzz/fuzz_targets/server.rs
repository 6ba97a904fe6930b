//! The whole server, in process: whatever is asked, it answers, never with a fault of its own, and
//! what it refuses changes nothing.
#![no_main]

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sutler_kv::memory::Memory;
use sutler_store::{ApiServer, Clock, Config, Ids, Trusted, auth::User};
use tower::ServiceExt as _;

struct Still;

impl Clock for Still {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }
}

struct Counted(std::sync::atomic::AtomicU64);

impl Ids for Counted {
    fn uid(&self) -> String {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("00000000-0000-4000-8000-{n:012x}")
    }

    fn suffix(&self) -> String {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{:05x}", n & 0xfffff)
    }
}

struct World {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
    admin: Trusted,
    asked: u32,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime starts");
        let config = Config {
            engine: Arc::new(Memory::new()),
            crds: sutler_fuzz::CUSTOM.iter().map(|custom| custom.definition.clone()).collect(),
            clock: Arc::new(Still),
            ids: Arc::new(Counted(Default::default())),
            version: "0".into(),
        };
        let server = runtime.block_on(ApiServer::start(config)).expect("it starts");
        let admin = User {
            name: "admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            extra: Default::default(),
        };
        let admin = server.as_user(admin);
        Self { runtime, server, admin, asked: 0 }
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    WORLD.with_borrow_mut(|world| {
        // A fresh one now and then, so that what is found can be found again.
        if world.as_ref().is_none_or(|world| world.asked > 2000) {
            *world = Some(World::new());
        }
        let world = world.as_mut().expect("it was just made");
        world.asked += 1;
        let _ = run(world, &mut Unstructured::new(data));
    });
});

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const PLACES: [&str; 24] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/infra.virtrigaud.io/v1beta1/namespaces/default/virtualmachines",
    "/apis/infra.virtrigaud.io/v1beta1/namespaces/default/vmsets",
    "/apis/infra.virtrigaud.io/v1beta1/namespaces/default/providers",
    "/apis/sutler.dev/v1alpha1/namespaces/default/applications",
    "/apis",
    "/openapi/v3",
    "/",
];
const TAILS: [&str; 12] = [
    "",
    "",
    "/x",
    "/x",
    "/x/status",
    "/x/scale",
    "/x/binding",
    "/x/eviction",
    "/x/finalize",
    "/..",
    "/x%2Fy",
    "/x/a/b",
];
const KEYS: [&str; 16] = [
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeoutSeconds",
    "sendInitialEvents",
    "dryRun",
    "fieldValidation",
    "fieldManager",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "allowWatchBookmarks",
];
const VALUES: [&str; 20] = [
    "true",
    "false",
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "All",
    "Strict",
    "Warn",
    "Ignore",
    "Exact",
    "NotOlderThan",
    "Orphan",
    "Foreground",
    "Background",
    "m",
    "a=b",
    "metadata.name=x",
    "a in (b,c)",
    "!!",
];
const TYPES: [&str; 9] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
    "",
];
const FORMS: [&str; 5] = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "text/html",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
];

fn run(world: &mut World, u: &mut Unstructured) -> Result<()> {
    let method = *u.choose(&METHODS)?;
    let mut target = format!("{}{}", u.choose(&PLACES)?, u.choose(&TAILS)?);
    for n in 0..u.int_in_range(0..=3)? {
        target.push(if n == 0 { '?' } else { '&' });
        target.push_str(u.choose(&KEYS)?);
        target.push('=');
        let free: String;
        let value = match u.ratio(3, 4)? {
            true => *u.choose(&VALUES)?,
            false => {
                free = u.arbitrary()?;
                &free
            }
        };
        for byte in value.bytes() {
            target.push_str(&format!("%{byte:02X}"));
        }
    }
    let content = *u.choose(&TYPES)?;
    let form = *u.choose(&FORMS)?;
    let body = match u.int_in_range(0..=7)? {
        0 => Vec::new(),
        1 => u.arbitrary()?,
        2 => sutler_fuzz::value(u, 5)?.to_string().into_bytes(),
        n => object(u, &target, n)?.to_string().into_bytes(),
    };
    let ask = |method: &str| {
        let request = Request::builder()
            .method(method)
            .uri(&target)
            .header("content-type", content)
            .header("accept", form)
            .body(Full::new(Bytes::from(body.clone())))
            .ok()?;
        let admin = world.admin.clone();
        Some(world.runtime.block_on(async {
            let response = admin.oneshot(request).await.expect("it always answers");
            let code = response.status();
            let bytes = tokio::time::timeout(Duration::from_millis(20), response.collect()).await;
            (code, bytes.ok().map(|whole| whole.expect("the body is whole").to_bytes()))
        }))
    };
    let before = world.server.version();
    let Some(answer) = ask(method) else { return Ok(()) };
    let told = || {
        let body = String::from_utf8_lossy(&body);
        format!("{method} {target} {content:?} {body}\n{answer:?}")
    };
    let code = answer.0.as_u16();
    // A version that is not there yet is waited for in vain: 504 is the API's word for that. And
    // it has always answered 500 to an applied field that the schema does not have, to a version to
    // watch from that is no number, to a binding without a target, and to a strategic patch whose
    // directives are of the wrong type.
    // HEAD has the code alone; GET says why.
    let whole = if code >= 500 && method == "HEAD" { ask("GET") } else { None };
    let text = whole.as_ref().unwrap_or(&answer).1.as_ref();
    let text = text.map(|body| String::from_utf8_lossy(body));
    let known = [
        "failed to create typed patch object",
        "\"resourceVersion: Invalid value",
        "\"target.name: Required value",
        "\"target.kind: Unsupported value",
        ", but received a ",
    ];
    let known = text.is_some_and(|text| known.iter().any(|known| text.contains(known)));
    assert!(code < 500 || code == 504 || known, "{}", told());
    if code >= 400 {
        assert_eq!(world.server.version(), before, "{}", told());
        let status = answer.1.as_ref().filter(|body| body.starts_with(b"{"));
        if let Some(status) = status {
            let status: Value = serde_json::from_slice(status).expect("it is JSON");
            assert_eq!(status["code"], code, "{}", told());
            assert!(!status["message"].as_str().unwrap_or_default().is_empty(), "{}", told());
        }
    }
    Ok(())
}

/// An object that fits the place, more or less.
fn object(u: &mut Unstructured, target: &str, n: u8) -> Result<Value> {
    let ours = sutler_fuzz::CUSTOM.iter().find(|custom| {
        let names = &custom.definition["spec"];
        let group = names["group"].as_str().unwrap_or_default();
        let plural = names["names"]["plural"].as_str().unwrap_or_default();
        target.contains(group) && target.contains(plural)
    });
    if let Some(custom) = ours {
        let object = sutler_fuzz::fitting(u, &custom.schema, 8)?;
        let spec = &custom.definition["spec"];
        let version = format!(
            "{}/{}",
            spec["group"].as_str().unwrap_or_default(),
            spec["versions"][0]["name"].as_str().unwrap_or_default()
        );
        let kind = spec["names"]["kind"].as_str().unwrap_or_default();
        return Ok(sutler_fuzz::dress(object, &version, kind));
    }
    let kind = sutler_builtin::kinds().iter().find(|kind| {
        let group = if kind.group.is_empty() { "/api/" } else { kind.group };
        target.contains(group) && target.contains(&format!("/{}", kind.plural))
    });
    let object = sutler_fuzz::value(u, usize::from(n))?;
    Ok(match kind {
        Some(kind) => sutler_fuzz::dress(object, &kind.api_version(), kind.kind),
        None => object,
    })
}
