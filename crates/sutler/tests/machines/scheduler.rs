//! The filters that decisions on scaling use, beside the real kube-scheduler: random pods come one after
//! the other to random nodes. Where the scheduler puts one, ours must agree; where it finds no node, ours
//! must find none.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use sutler_parity::peer::KWOK_NODE;
use sutler_scale::{
    filters::{self, Guest, Site},
    world::{self, Claims, Labels},
};

use crate::lab::Lab;

/// Clusters that are tried, each with nodes and pods of its own.
const ROUNDS: u64 = 4;
const NODES: usize = 8;
const PODS: usize = 40;

/// The longest that anything may take here.
const LONG: Duration = Duration::from_secs(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn our_filters_say_what_the_scheduler_does() {
    crate::lab::run(crate::server::Form::Scheduled, async |lab| {
        let rounds = (0..ROUNDS).map(|seed| Round::new(&lab, seed).run());
        let seen = futures::future::join_all(rounds).await;
        let (placed, refused) = seen.iter().fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
        println!("the scheduler placed {placed} pods and refused {refused}");
        // A comparison of one kind of answer alone would say little.
        assert!(placed > 40 && refused > 40, "{placed} placed, {refused} refused");
    })
    .await;
}

struct Round {
    lab: Lab,
    /// What its nodes are labelled with, which all its pods select, and what its labels begin with.
    name: String,
    rng: StdRng,
}

impl Round {
    fn new(lab: &Lab, seed: u64) -> Self {
        let name = format!("{}-r{seed}", lab.namespace);
        Self { lab: lab.clone(), name, rng: StdRng::seed_from_u64(seed) }
    }

    /// How many pods were placed, and how many were refused.
    async fn run(mut self) -> (usize, usize) {
        let nodes = self.join().await;
        let pods: Api<Pod> = Api::namespaced(self.lab.client.clone(), &self.lab.namespace);
        let mut bound = vec![self.first(&pods, &nodes).await];
        let namespaces: BTreeMap<String, Labels> = BTreeMap::new();
        let mut refused = 0;
        for number in 0..PODS {
            let object = self.pod(number);
            let made = pods.create(&PostParams::default(), &read(&object)).await;
            let made = made.unwrap_or_else(|error| panic!("{object}: {error}"));
            let shape = world::Pod::read(&made, &Claims::new()).unwrap().unwrap();
            let seen = decided(&pods, &made.name_any()).await;
            let sites = sites(&nodes, &bound);
            let verdicts: Vec<_> = (0..nodes.len())
                .map(|at| filters::check(&shape.shape, at, &sites, &namespaces))
                .collect();
            let explain = || {
                let on: Vec<_> =
                    bound.iter().map(|(at, pod)| (*at, pod.key.name.clone())).collect();
                format!("{object:#}\nours: {verdicts:#?}\nbound: {on:?}\nnodes: {nodes:#?}")
            };
            match seen {
                Ok(name) => {
                    let at = nodes.iter().position(|node| node.name == name);
                    let at = at.unwrap_or_else(|| panic!("{name} is not of the round"));
                    assert!(verdicts[at].is_ok(), "it is on {name}: {}", explain());
                    bound.push((at, shape));
                }
                Err(why) => {
                    let fits = verdicts.iter().any(Result::is_ok);
                    assert!(!fits, "the scheduler says {why}: {}", explain());
                    refused += 1;
                    // What comes later must not make it fit after all.
                    let at_once = DeleteParams::default().grace_period(0);
                    pods.delete(&made.name_any(), &at_once).await.unwrap();
                }
            }
        }
        (bound.len(), refused)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.choose(&mut self.rng).unwrap()
    }

    /// Something that happens this often in a hundred times.
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Random nodes, once they are ready.
    async fn join(&mut self) -> Vec<world::Node> {
        let api: Api<Node> = Api::all(self.lab.client.clone());
        for number in 0..NODES {
            let node = self.node(number);
            api.create(&PostParams::default(), &read(&node)).await.unwrap();
        }
        for number in 0..NODES {
            let settled = |node: Option<&Node>| node.is_some_and(settled);
            until(&api, &format!("{}-{number}", self.name), settled).await;
        }
        // Whoever has seen this has seen all that was written before.
        let last = json!({"metadata": {"labels": {self.key("last"): "yes"}}});
        let name = format!("{}-0", self.name);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(last)).await.unwrap();
        let all = ListParams::default().labels(&format!("round={}", self.name));
        let nodes = api.list(&all).await.unwrap();
        nodes.iter().map(|node| world::Node::read(node).unwrap()).collect()
    }

    fn node(&mut self, number: usize) -> Value {
        let name = format!("{}-{number}", self.name);
        let mut labels = json!({"round": self.name, self.key("host"): name,
            self.key("gen"): self.rng.random_range(1..=5).to_string()});
        if self.chance(85) {
            labels[self.key("zone")] = json!(self.one(&["a", "b", "c"]));
        }
        if self.chance(80) {
            labels[self.key("disk")] = json!(self.one(&["ssd", "hdd"]));
        }
        let mut taints = Vec::new();
        if self.chance(25) {
            let value = self.one(&["web", "db"]);
            taints.push(json!({"key": "dedicated", "value": value, "effect": "NoSchedule"}));
        }
        if self.chance(20) {
            taints.push(
                json!({"key": "old", "effect": self.one(&["NoExecute", "PreferNoSchedule"])}),
            );
        }
        let cpu = format!("{}m", self.rng.random_range(4..=30) * 100);
        let memory = format!("{}Mi", self.rng.random_range(4..=32) * 128);
        let pods = self.rng.random_range(2..=9).to_string();
        let has = json!({"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "10Gi",
            "example.com/gpu": self.one(&["0", "1", "2"])});
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {KWOK_NODE.0: KWOK_NODE.1}},
            "spec": {"taints": taints, "unschedulable": self.chance(10)},
            "status": {"capacity": has, "allocatable": has}})
    }

    fn pod(&mut self, number: usize) -> Value {
        let mut requests = json!({});
        if self.chance(85) {
            requests["cpu"] = json!(format!("{}m", self.rng.random_range(1..=12) * 50));
        }
        if self.chance(75) {
            requests["memory"] = json!(format!("{}Mi", self.rng.random_range(1..=12) * 64));
        }
        if self.chance(8) {
            requests["ephemeral-storage"] = json!("6Gi");
        }
        let mut limits = json!({});
        if self.chance(10) {
            limits["example.com/gpu"] = json!("1");
        }
        let mut container = json!({"name": "c", "image": "i",
            "resources": {"requests": requests, "limits": limits}});
        if self.chance(12) {
            let port = self.rng.random_range(80..=81);
            container["ports"] = json!([{"containerPort": port, "hostPort": port,
                "protocol": self.one(&["TCP", "UDP"])}]);
        }
        let mut spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container],
            "nodeSelector": {"round": self.name}});
        if self.chance(15) {
            spec["initContainers"] = json!([{"name": "first", "image": "i",
                "resources": {"requests": {"cpu": "700m"}}}]);
        }
        if self.chance(15) {
            spec["nodeSelector"][self.key("disk")] = json!(self.one(&["ssd", "hdd"]));
        }
        if self.chance(45) {
            spec["tolerations"] = self.tolerations();
        }
        if self.chance(30) {
            let terms: Vec<Value> =
                (0..self.rng.random_range(1..=2)).map(|_| self.node_term()).collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        for (kind, percent) in [("podAffinity", 18), ("podAntiAffinity", 18)] {
            if self.chance(percent) {
                spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([{"topologyKey": self.place(), "labelSelector": self.selector()}]);
            }
        }
        if self.chance(35) {
            let rules: Vec<Value> =
                (0..self.rng.random_range(1..=2)).map(|_| self.spread()).collect();
            // Two rules for one key are refused.
            let one = rules.len() == 1 || rules[0]["topologyKey"] != rules[1]["topologyKey"];
            spec["topologySpreadConstraints"] = json!(&rules[..if one { rules.len() } else { 1 }]);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": format!("{}-{number}", self.name),
                "labels": {"app": self.one(&["a", "b", "c"])}}})
    }

    fn place(&mut self) -> String {
        let name = self.one(&["zone", "host"]);
        self.key(name)
    }

    fn selector(&mut self) -> Value {
        match self.chance(70) {
            true => json!({"matchLabels": {"app": self.one(&["a", "b", "c"])}}),
            false => json!({"matchExpressions": [{"key": "app",
                "operator": self.one(&["In", "NotIn"]), "values": ["a", "b"]}]}),
        }
    }

    fn tolerations(&mut self) -> Value {
        let mut all = Vec::new();
        if self.chance(60) {
            all.push(
                json!({"key": "dedicated", "operator": "Equal", "value": self.one(&["web", "db"]),
                "effect": "NoSchedule"}),
            );
        }
        if self.chance(50) {
            all.push(json!({"key": "old", "operator": "Exists"}));
        }
        if self.chance(10) {
            all.push(json!({"operator": "Exists"}));
        }
        json!(all)
    }

    fn node_term(&mut self) -> Value {
        if self.chance(15) {
            let name = format!("{}-{}", self.name, self.rng.random_range(0..NODES));
            return json!({"matchFields": [{"key": "metadata.name",
                "operator": self.one(&["In", "NotIn"]), "values": [name]}]});
        }
        let operator = self.one(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
        let wish = match operator {
            "In" | "NotIn" => {
                json!({"key": self.key("disk"), "operator": operator, "values": ["ssd"]})
            }
            "Gt" | "Lt" => json!({"key": self.key("gen"), "operator": operator,
                "values": [self.rng.random_range(1..=5).to_string()]}),
            _ => json!({"key": self.key("zone"), "operator": operator}),
        };
        json!({"matchExpressions": [wish]})
    }

    fn spread(&mut self) -> Value {
        let mut rule = json!({"maxSkew": self.rng.random_range(1..=2), "topologyKey": self.place(),
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": self.selector()});
        if self.chance(25) {
            rule["minDomains"] = json!(self.rng.random_range(2..=4));
        }
        if self.chance(25) {
            rule["nodeAffinityPolicy"] = json!(self.one(&["Honor", "Ignore"]));
        }
        if self.chance(25) {
            rule["nodeTaintsPolicy"] = json!(self.one(&["Honor", "Ignore"]));
        }
        rule
    }

    /// Waits until the scheduler puts a pod onto the node that was written last, as that is now. The pod
    /// stays there: when the scheduler would know that it is gone, nobody can tell.
    async fn first(&self, pods: &Api<Pod>, nodes: &[world::Node]) -> (usize, world::Pod) {
        let name = format!("{}-first", self.name);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "nodeSelector": {self.key("last"): "yes"}, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i"}]}});
        let made = pods.create(&PostParams::default(), &read(&pod)).await.unwrap();
        let placed = |pod: Option<&Pod>| pod.is_some_and(|pod| node_of(pod).is_some());
        until(pods, &name, placed).await;
        let at = nodes.iter().position(|node| node.labels.contains_key(&self.key("last")));
        (at.unwrap(), world::Pod::read(&made, &Claims::new()).unwrap().unwrap())
    }
}

fn read<K: serde::de::DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// An object once it is as wanted.
async fn until<K>(api: &Api<K>, name: &str, done: impl Fn(Option<&K>) -> bool) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let waited = await_condition(api.clone(), name, done);
    match tokio::time::timeout(LONG, waited).await {
        Ok(found) => found.unwrap().unwrap(),
        Err(_) => panic!("{name} is not as wanted: {:#?}", api.get_opt(name).await),
    }
}

/// Whether a node is ready, and whoever taints nodes has seen that.
fn settled(node: &Node) -> bool {
    let status = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = status.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    let spec = node.spec.clone().unwrap_or_default();
    let tainted = |key: &str| spec.taints.iter().flatten().any(|taint| taint.key == key);
    ready
        && !tainted("node.kubernetes.io/not-ready")
        && tainted("node.kubernetes.io/unschedulable") == spec.unschedulable.unwrap_or(false)
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
}

/// The node that the scheduler chose, or what it says.
async fn decided(pods: &Api<Pod>, name: &str) -> Result<String, String> {
    let refusal = |pod: &Pod| {
        let status = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut status = status.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
        status.next().map(|refused| refused.message.clone().unwrap_or_default())
    };
    let done =
        |pod: Option<&Pod>| pod.is_some_and(|pod| node_of(pod).is_some() || refusal(pod).is_some());
    let pod = until(pods, name, done).await;
    node_of(&pod).ok_or_else(|| refusal(&pod).unwrap_or_default())
}

fn sites<'a>(nodes: &'a [world::Node], bound: &'a [(usize, world::Pod)]) -> Vec<Site<'a>> {
    let guests = |at: usize| {
        let on = bound.iter().filter(move |(on, _)| *on == at);
        on.map(|(_, pod)| Guest { shape: &pod.shape, terminating: pod.terminating }).collect()
    };
    let site =
        |(at, node): (usize, &'a world::Node)| Site { guests: guests(at), ..Site::empty(node) };
    nodes.iter().enumerate().map(site).collect()
}
