//! What nodes use, as the cluster's metrics server measures it: one list for all of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use sutler_control::kit::lock;
use sutler_scale::world::{Load, Resources, World};

use super::Scaler;
use crate::{cluster::Cluster, context::Context};

/// A reading that is older says nothing of now.
const STALE: SignedDuration = SignedDuration::from_mins(5);

/// How long the list may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What counts as load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// What nodes use.
    Measured,
    /// What pods ask for.
    Requested {
        /// Why it is not what nodes use.
        why: String,
    },
}

/// What was measured of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    at: Timestamp,
    used: Resources,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trouble {
    /// The cluster measures nothing.
    NotServed,
    /// It does, and does not tell now.
    Silent(String),
}

/// What is known of what nodes use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    readings: BTreeMap<String, Reading>,
    /// When they were listed.
    listed: Option<Timestamp>,
    trouble: Option<Trouble>,
}

impl Usage {
    /// What counts as load; not known before the cluster was asked. A metrics server that is away for a
    /// moment changes nothing: readings of two kinds do not belong into one window.
    pub(super) fn source(&self, now: Timestamp) -> Option<Source> {
        if self.listed.is_some_and(|at| is_fresh(at, now)) {
            return Some(Source::Measured);
        }
        let why = match self.trouble.as_ref()? {
            Trouble::NotServed => "the cluster does not serve metrics.k8s.io".to_owned(),
            Trouble::Silent(why) => format!("metrics.k8s.io cannot be read: {why}"),
        };
        Some(Source::Requested { why })
    }

    /// How busy nodes are, and since when that is known. Nodes without a reading that is of use are left
    /// out: they are neither busy nor idle.
    pub(super) fn loads(
        &self,
        world: &World,
        now: Timestamp,
    ) -> BTreeMap<String, (Timestamp, Load)> {
        let fresh = self.readings.iter().filter(|(_, reading)| is_fresh(reading.at, now));
        fresh
            .filter_map(|(name, reading)| {
                let node = world.nodes().get(name)?;
                // What is measured is the whole machine.
                let load = Load::of(&reading.used, &node.capacity);
                // Another clock may be ahead.
                Some((name.clone(), (reading.at.min(now), load)))
            })
            .collect()
    }

    /// As it is where nothing is measured.
    #[cfg(test)]
    pub(super) fn not_served() -> Self {
        Self { trouble: Some(Trouble::NotServed), ..Self::default() }
    }

    /// As it is after this list: nodes, when they were measured, and thousandths of a CPU that they use.
    #[cfg(test)]
    pub(super) fn listed(readings: &[(&str, Timestamp, i64)], now: Timestamp) -> Self {
        let reading = |at, cpu| Reading { at, used: Resources::new(cpu, 0) };
        let readings =
            readings.iter().map(|(name, at, cpu)| ((*name).to_owned(), reading(*at, *cpu)));
        Self { readings: readings.collect(), listed: Some(now), trouble: None }
    }

    fn take(&mut self, answer: Result<Vec<DynamicObject>, Trouble>, now: Timestamp) {
        match answer {
            Ok(list) => {
                self.readings =
                    list.iter().filter_map(|item| Some((item.name_any(), read(item)?))).collect();
                self.listed = Some(now);
                self.trouble = None;
            }
            Err(trouble) => {
                if trouble == Trouble::NotServed {
                    self.readings.clear();
                    self.listed = None;
                }
                self.trouble = Some(trouble);
            }
        }
    }
}

fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= STALE
}

/// A reading; none where it cannot be read.
fn read(item: &DynamicObject) -> Option<Reading> {
    let at = item.data["timestamp"].as_str()?.parse().ok()?;
    let used: BTreeMap<String, Quantity> =
        serde_json::from_value(item.data["usage"].clone()).ok()?;
    Some(Reading { at, used: Resources::read("usage", &used).ok()? })
}

/// Reads what nodes use, once in an interval, until the future is dropped.
pub(super) async fn follow(context: &Context, cluster: &Cluster, scaler: &Arc<Scaler>) {
    loop {
        let answer = list(&cluster.client).await;
        let now = context.clock.now();
        let changed = {
            let mut usage = lock(&scaler.usage);
            let before = usage.source(now);
            usage.take(answer, now);
            usage.source(now) != before
        };
        if changed {
            scaler.changed.notify_one();
        }
        // A group may come meanwhile whose window is shorter.
        let mut waited = Duration::ZERO;
        while waited < super::reading(scaler) {
            tokio::time::sleep(super::PAUSE).await;
            waited += super::PAUSE;
        }
    }
}

async fn list(client: &Client) -> Result<Vec<DynamicObject>, Trouble> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "NodeMetrics");
    let kind = ApiResource::from_gvk_with_plural(&kind, "nodes");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    match tokio::time::timeout(PATIENCE, api.list(&ListParams::default())).await {
        Ok(Ok(list)) => Ok(list.items),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Trouble::NotServed),
        Ok(Err(kube::Error::Api(status))) => {
            Err(Trouble::Silent(format!("{} {}", status.code, status.reason)))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "what nodes use cannot be read");
            Err(Trouble::Silent("the cluster does not answer".to_owned()))
        }
        Err(_) => Err(Trouble::Silent(format!("no answer in {} s", PATIENCE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn metrics(name: &str, second: i64, cpu: &str) -> Value {
        json!({"metadata": {"name": name}, "timestamp": at(second).to_string(), "window": "20s",
            "usage": {"cpu": cpu, "memory": "1Gi"}})
    }

    fn items(list: &[Value]) -> Vec<DynamicObject> {
        list.iter().map(|item| serde_json::from_value(item.clone()).unwrap()).collect()
    }

    fn world(names: &[&str]) -> World {
        let mut world = World::default();
        for name in names {
            let node = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                    "allocatable": {"cpu": "1", "memory": "3Gi", "pods": "110"}}});
            let node = sutler_scale::world::Node::read(&serde_json::from_value(node).unwrap());
            world.set_node(node.unwrap());
        }
        world
    }

    fn requested(why: &str) -> Option<Source> {
        Some(Source::Requested { why: why.to_owned() })
    }

    #[test]
    fn what_a_node_uses_is_a_share_of_all_that_it_has() {
        let mut usage = Usage::default();
        assert_eq!(usage.source(at(0)), None);
        let list = [
            metrics("a", 90, "500000000n"),
            metrics("gone", 90, "1"),
            json!({"metadata":
            {"name": "b"}, "timestamp": "yesterday", "usage": {}}),
        ];
        usage.take(Ok(items(&list)), at(100));
        assert_eq!(usage.source(at(100)), Some(Source::Measured));
        let load = Load { cpu: 250, memory: 250 };
        let loads = usage.loads(&world(&["a", "b"]), at(100));
        assert_eq!(loads, BTreeMap::from([("a".to_owned(), (at(90), load))]));
        // Its clock may be ahead of ours.
        assert_eq!(usage.loads(&world(&["a"]), at(80))["a"].0, at(80));
    }

    #[test]
    fn readings_of_more_than_five_minutes_ago_are_not_used() {
        let mut usage = Usage::default();
        usage.take(Ok(items(&[metrics("old", 0, "1"), metrics("new", 1, "1")])), at(301));
        let loads = usage.loads(&world(&["old", "new"]), at(301));
        assert_eq!(loads.keys().collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn what_pods_ask_for_counts_where_nothing_is_measured() {
        let mut usage = Usage::default();
        usage.take(Err(Trouble::Silent("503 ServiceUnavailable".to_owned())), at(0));
        let why = "metrics.k8s.io cannot be read: 503 ServiceUnavailable";
        assert_eq!(usage.source(at(0)), requested(why));
        usage.take(Ok(items(&[metrics("a", 10, "1")])), at(10));
        // It is away for a moment, and then for good.
        usage.take(Err(Trouble::Silent("503 ServiceUnavailable".to_owned())), at(20));
        assert_eq!(usage.source(at(310)), Some(Source::Measured));
        assert_eq!(usage.source(at(311)), requested(why));
        usage.take(Ok(items(&[metrics("a", 320, "1")])), at(320));
        usage.take(Err(Trouble::NotServed), at(330));
        assert_eq!(usage.source(at(330)), requested("the cluster does not serve metrics.k8s.io"));
        assert!(usage.loads(&world(&["a"]), at(330)).is_empty());
    }

    #[tokio::test]
    async fn one_list_tells_of_all_nodes() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(AtomicUsize::new(0));
        let (paths, count) = (asked.clone(), answers.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            lock(&paths).push(request.uri().path().to_owned());
            let (status, body) = match count.fetch_add(1, Ordering::Relaxed) {
                0 => (
                    200,
                    json!({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
                    "metadata": {}, "items": [metrics("a", 1, "1"), metrics("b", 1, "1")]}),
                ),
                1 => (404, json!({"message": "404 page not found", "code": 404})),
                _ => (
                    503,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "service unavailable", "reason": "ServiceUnavailable", "code": 503}),
                ),
            };
            let body = Body::from(body.to_string().into_bytes());
            let answer = http::Response::builder().status(status).body(body);
            std::future::ready(answer)
        });
        let client = Client::new(service, "default");
        assert_eq!(list(&client).await.unwrap().len(), 2);
        assert_eq!(list(&client).await.unwrap_err(), Trouble::NotServed);
        let silent = Trouble::Silent("503 ServiceUnavailable".to_owned());
        assert_eq!(list(&client).await.unwrap_err(), silent);
        let asked = lock(&asked);
        assert!(asked.iter().all(|path| path == "/apis/metrics.k8s.io/v1beta1/nodes"), "{asked:?}");
    }
}
