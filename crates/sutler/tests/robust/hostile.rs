//! Clients that send what they should not: each is refused with a clear answer, nothing is
//! written, and the server goes on as before.

#[path = "hostile/access.rs"]
mod access;
#[path = "hostile/addresses.rs"]
mod addresses;
#[path = "hostile/bodies.rs"]
mod bodies;
#[path = "hostile/raw.rs"]
mod raw;
#[path = "hostile/slow.rs"]
mod slow;
#[path = "hostile/wire.rs"]
mod wire;

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    client::{Answer, Client},
    server::{Address, Server, Who},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const VM_CLASSES: &str = "/apis/infra.virtrigaud.io/v1beta1/namespaces/default/vmclasses";

/// What a bad request could have changed.
const COLLECTIONS: [&str; 6] = [
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/apis/infra.virtrigaud.io/v1beta1/vmclasses",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
];

/// A server, and how it was before the bad requests.
struct Hosted {
    server: Server,
    address: Address,
    admin: Client,
    before: Vec<Bytes>,
    rss: u64,
    folder: TempDir,
}

impl Hosted {
    /// Starts one with a few objects in it, and what `prepare` adds.
    async fn start(prepare: &[(&str, Value)]) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for files that pass");
        let server = Server::start(&folder.path().join("data"), "memory").expect("it starts");
        let address = server.address();
        let mut admin = Client::new(&address, Who::Admin);
        let one = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"},
            "data": {"a": "1"},
        });
        for (path, object) in [(CONFIG_MAPS, one)].iter().chain(prepare) {
            let answer = admin.json("POST", path, object).await.expect("it answers");
            assert_eq!(answer.code, 201, "{answer:?}");
        }
        aggregated(&mut admin).await;
        let mut hosted =
            Self { rss: server.rss(), server, address, admin, before: Vec::new(), folder };
        hosted.before = hosted.collections().await;
        hosted
    }

    /// Lists with their versions, which every write would raise.
    async fn collections(&mut self) -> Vec<Bytes> {
        let mut all = Vec::new();
        for path in COLLECTIONS {
            let answer = self.admin.get(path).await.expect("it answers");
            assert_eq!(answer.code, 200, "{answer:?}");
            all.push(answer.body);
        }
        all
    }

    /// Nothing was written.
    async fn is_unchanged(&mut self) {
        let after = self.collections().await;
        assert_eq!(after, self.before, "something was written");
    }

    /// It serves, did not panic, and did not grow beyond bounds.
    async fn is_sound(&mut self) {
        let ready = Client::new(&self.address, Who::Nobody).get("/readyz").await;
        assert_eq!(ready.expect("it answers").code, 200);
        let log = std::fs::read_to_string(self.log()).expect("there is a log");
        assert!(!log.contains("panicked"), "{log}");
        let rss = self.server.rss();
        assert!(rss < self.rss * 3 + 150 * 1024, "from {} KiB to {rss} KiB", self.rss);
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("data").join(crate::server::LOG)
    }
}

/// Waits until the server has made up the roles that consist of others, its last own writes.
async fn aggregated(admin: &mut Client) {
    for role in ["admin", "edit", "view"] {
        let target = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
        while admin.get(&target).await.expect("it answers").value()["rules"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            tokio::task::yield_now().await;
        }
    }
}

/// One bad request and what is said to it.
struct Bad<'a> {
    method: &'a str,
    target: String,
    content: &'a str,
    body: Vec<u8>,
    code: u16,
    says: &'a str,
}

impl Bad<'_> {
    async fn check(&self, client: &mut Client) -> Answer {
        let headers: &[(&str, &str)] =
            if self.content.is_empty() { &[] } else { &[("content-type", self.content)] };
        let sent = client.send(self.method, &self.target, headers, self.body.clone()).await;
        let answer = sent.unwrap_or_else(|gone| panic!("{}: {gone:?}", self.shown()));
        refused(&answer, self.code, self.says, &self.shown());
        answer
    }

    fn shown(&self) -> String {
        let body = &self.body[..self.body.len().min(200)];
        format!("{} {:.200} {}", self.method, self.target, String::from_utf8_lossy(body))
    }
}

/// A `Status` with this code, whose message holds a text.
fn refused(answer: &Answer, code: u16, says: &str, shown: &str) {
    assert_eq!(answer.code, code, "{shown}\n{}", answer.text());
    let status = answer.value();
    assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &code.into()), "{shown}");
    assert_eq!(status["status"], "Failure", "{shown}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains(says), "{shown}\n{message:?}\nshould say {says:?}");
}
