use std::sync::Mutex;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use sutler_kv::{
    engine::{Action, Error, Expect, Page, Range, Record, Version, Write},
    memory::Memory,
};
use tower::Service as _;

use super::*;
use crate::{ApiServer, Config, RandomIds, SystemClock, auth::User};

/// A store that writes down which lists are read.
struct Watched {
    memory: Memory,
    lists: Mutex<Vec<String>>,
}

impl Engine for Watched {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        self.memory.get(key)
    }

    fn list(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        self.lists.lock().unwrap().push(range.prefix.clone());
        self.memory.list(range)
    }

    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, Error>> {
        self.memory.count(prefix)
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Version, Error>> {
        self.memory.write(write)
    }

    fn changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Version,
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Change>, Version), Error>> {
        self.memory.changes(prefix, after, limit)
    }

    fn subscribe(&self, topic: &str) -> Receiver<Arc<Change>> {
        self.memory.subscribe(topic)
    }

    fn version(&self) -> Version {
        self.memory.version()
    }

    fn oldest(&self) -> Version {
        self.memory.oldest()
    }

    fn compact(&self, before: Version) -> BoxFuture<'_, Result<(), Error>> {
        self.memory.compact(before)
    }
}

async fn start(memory: Memory) -> (Arc<Watched>, ApiServer) {
    let engine = Arc::new(Watched { memory, lists: Mutex::default() });
    let server = ApiServer::start(Config {
        engine: engine.clone(),
        crds: Vec::new(),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        version: "test".into(),
    })
    .await
    .unwrap();
    (engine, server)
}

/// The lists that `work` reads, sorted.
async fn read_by(engine: &Watched, work: impl Future<Output = ()>) -> Vec<String> {
    engine.lists.lock().unwrap().clear();
    work.await;
    let mut lists = std::mem::take(&mut *engine.lists.lock().unwrap());
    lists.sort();
    lists
}

fn jane() -> User {
    User { name: "jane".into(), ..User::default() }
}

/// How a list of config maps is answered to jane.
async fn asks(server: &ApiServer, namespace: &str) -> StatusCode {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    server.as_user(jane()).call(request).await.unwrap().status()
}

async fn post(server: &ApiServer, path: &str, body: Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let status = server.as_user(User::privileged("test")).call(request).await.unwrap().status();
    assert_eq!(status, StatusCode::CREATED, "{path}");
}

fn binding(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "jane", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    })
}

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

#[tokio::test]
async fn a_change_is_seen_at_once_and_costs_its_scope() {
    let (engine, server) = start(Memory::new()).await;
    assert_eq!(asks(&server, "default").await, StatusCode::FORBIDDEN);
    post(&server, BINDINGS, binding("default")).await;
    let lists = read_by(&engine, async {
        assert_eq!(asks(&server, "default").await, StatusCode::OK);
        assert_eq!(asks(&server, "kube-system").await, StatusCode::FORBIDDEN);
    });
    assert_eq!(
        lists.await,
        [
            "core/configmaps/default/",
            "rbac.authorization.k8s.io/rolebindings/default/",
            "rbac.authorization.k8s.io/roles/default/"
        ]
    );
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "nothing"}, "rules": []
    });
    post(&server, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let lists = read_by(&engine, async {
        assert_eq!(asks(&server, "kube-system").await, StatusCode::FORBIDDEN);
    });
    assert_eq!(
        lists.await,
        [
            "rbac.authorization.k8s.io/clusterrolebindings/",
            "rbac.authorization.k8s.io/clusterroles/"
        ]
    );
}

/// A request can end before its write does; the write counts all the same.
#[tokio::test]
async fn a_change_counts_without_the_request_that_made_it() {
    let (engine, server) = start(Memory::new()).await;
    assert_eq!(asks(&server, "default").await, StatusCode::FORBIDDEN);
    let key: Arc<str> = "rbac.authorization.k8s.io/rolebindings/default/jane".into();
    let put = |value| Write {
        key: key.clone(),
        expect: Expect::Absent,
        action: Action::Put(value),
        also: Vec::new(),
    };
    let stored = crate::codec::encode(&binding("default")).unwrap();
    engine.write(put(stored)).await.unwrap();
    assert_eq!(asks(&server, "default").await, StatusCode::OK);
    let gone = Write {
        expect: Expect::Present,
        action: Action::Delete(Bytes::new()),
        ..put(Bytes::new())
    };
    engine.write(gone).await.unwrap();
    assert_eq!(asks(&server, "default").await, StatusCode::FORBIDDEN);
}

/// More changes than the store keeps for a follower are no reason to miss one.
#[tokio::test]
async fn missed_changes_are_read() {
    let (_, server) = start(Memory::with_channel(1)).await;
    assert_eq!(asks(&server, "default").await, StatusCode::FORBIDDEN);
    let inner = &server.0;
    for (name, namespace) in [("a", "default"), ("b", "kube-system"), ("c", "kube-public")] {
        let mut binding = binding(namespace);
        binding["metadata"]["name"] = name.into();
        let write = Write {
            key: format!("rbac.authorization.k8s.io/rolebindings/{namespace}/{name}").into(),
            expect: Expect::Absent,
            action: Action::Put(crate::codec::encode(&binding).unwrap()),
            also: Vec::new(),
        };
        inner.engine.write(write).await.unwrap();
    }
    for namespace in ["default", "kube-system", "kube-public"] {
        assert_eq!(asks(&server, namespace).await, StatusCode::OK, "{namespace}");
    }
}

#[tokio::test]
async fn users_are_read_again_only_after_a_change_where_they_are() {
    let (engine, server) = start(Memory::new()).await;
    let inner = server.0.clone();
    let refresh = || async { inner.policy.refresh_users(&inner).await.unwrap() };
    let users = "core/secrets/sutler-system/";
    assert_eq!(read_by(&engine, refresh()).await, [users]);
    let secret = |namespace: &str| json!({"metadata": {"name": "x", "namespace": namespace}});
    post(&server, "/api/v1/namespaces/default/secrets", secret("default")).await;
    assert!(read_by(&engine, refresh()).await.is_empty());
    post(&server, "/api/v1/namespaces/sutler-system/secrets", secret("sutler-system")).await;
    assert_eq!(read_by(&engine, refresh()).await, [users]);
}

#[test]
fn the_scope_of_a_key_is_its_namespace() {
    assert_eq!(scope("g/roles/ns/name"), "ns");
    assert_eq!(scope("g/clusterroles/system:x"), "");
}
