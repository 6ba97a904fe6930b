//! An API in memory whose answers can go wrong, and a client of the provider over the wire.

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt::Debug,
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll},
};

use futures::{future::BoxFuture, stream};
use http::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sutler_api::autoscaler::{NodeGroup, VPSieNode};
use sutler_externalgrpc::{
    CloudProvider, Cluster,
    pb::{self, cloud_provider_client::CloudProviderClient},
    serve,
};
use sutler_kv::memory::Memory;
use sutler_store::{
    ApiServer, Body, Config, RandomIds, SystemClock, Trusted, auth::User, registry::Registry,
};
use tokio::{io::DuplexStream, sync::mpsc};
use tonic::transport::{Channel, Endpoint, Uri};

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const GROUP: &str = "default/g";

/// How one call of the provider to the API goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not.
    Fine,
    /// It is refused, and nothing is applied.
    Refused,
    /// It is applied, and the answer is an error.
    Lost,
    /// Somebody else writes the group's metadata just before it arrives.
    Overtaken,
}

/// How calls to groups go wrong, one after the other; then they go well.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    writes: Arc<Mutex<VecDeque<Fault>>>,
    reads: Arc<Mutex<VecDeque<Fault>>>,
    lists: Arc<Mutex<VecDeque<Fault>>>,
    blind: bool,
}

impl Faults {
    pub(crate) fn on_writes(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.writes.lock().unwrap() = faults.into_iter().collect();
    }

    /// Of single groups; lists are spared.
    pub(crate) fn on_reads(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.reads.lock().unwrap() = faults.into_iter().collect();
    }

    pub(crate) fn on_lists(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.lists.lock().unwrap() = faults.into_iter().collect();
    }

    pub(crate) fn clear(&self) {
        self.on_writes([]);
        self.on_reads([]);
    }

    fn next(&self, method: &Method, path: &str, watches: bool) -> Fault {
        let queue = match (path.ends_with("/nodegroups"), path.contains("/nodegroups/")) {
            (true, _) if !watches => &self.lists,
            (_, true) if *method == Method::GET => &self.reads,
            (_, true) => &self.writes,
            _ => return Fault::Fine,
        };
        queue.lock().unwrap().pop_front().unwrap_or(Fault::Fine)
    }
}

#[derive(Clone)]
struct FaultyApi {
    inner: Trusted,
    admin: Client,
    faults: Faults,
}

impl tower::Service<Request<kube::client::Body>> for FaultyApi {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut api = self.clone();
        Box::pin(async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
            let path = request.uri().path();
            if watches && api.faults.blind && path.ends_with("/nodegroups") {
                return std::future::pending().await;
            }
            let fault = api.faults.next(request.method(), path, watches);
            match fault {
                Fault::Refused => return Ok(failure()),
                Fault::Overtaken => {
                    let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
                    let version = api.admin_version(&name).await;
                    let note = json!({ "metadata": { "annotations": { "overtaken": version } } });
                    patch::<NodeGroup>(&api.admin, &name, note).await;
                }
                Fault::Fine | Fault::Lost => {}
            }
            let answer = match api.inner.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            Ok(if fault == Fault::Lost { failure() } else { answer })
        })
    }
}

impl FaultyApi {
    async fn admin_version(&self, name: &str) -> String {
        let groups = Api::<NodeGroup>::namespaced(self.admin.clone(), NAMESPACE);
        groups.get(name).await.unwrap().resource_version().unwrap()
    }
}

fn failure() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the connection broke", "reason": "InternalError", "code": 500,
    });
    let mut response = Response::new(Body::whole(status.to_string()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// The API, the provider and its caller.
pub(crate) struct World {
    /// A client that nothing happens to.
    pub(crate) admin: Client,
    pub(crate) faults: Faults,
    pub(crate) wire: CloudProviderClient<Channel>,
}

fn registry() -> (Vec<Value>, Registry) {
    static REGISTRY: OnceLock<(Vec<Value>, Registry)> = OnceLock::new();
    let made = REGISTRY.get_or_init(|| {
        let crds: Vec<Value> = sutler_api::crds().iter().map(sutler_api::crd::to_value).collect();
        let registry = Registry::new(&crds).unwrap();
        (crds, registry)
    });
    made.clone()
}

pub(crate) async fn api() -> ApiServer {
    let (crds, registry) = registry();
    let config = Config {
        engine: Arc::new(Memory::new()),
        crds,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        version: "0.0.0".to_owned(),
    };
    ApiServer::start_with(config, registry).await.unwrap()
}

pub(crate) fn client_of(server: &ApiServer) -> Client {
    Client::new(server.as_user(User::privileged("system:test")), NAMESPACE)
}

impl World {
    pub(crate) async fn begin() -> Self {
        Self::with(Cluster::Own, Faults::default()).await
    }

    pub(crate) async fn for_cluster(cluster: Cluster) -> Self {
        Self::with(cluster, Faults::default()).await
    }

    /// The watch of groups tells of a group `g` of two, and of nothing that comes after.
    pub(crate) async fn begin_blind() -> Self {
        Self::with(Cluster::Own, Faults { blind: true, ..Faults::default() }).await
    }

    async fn with(cluster: Cluster, faults: Faults) -> Self {
        let server = api().await;
        let admin = client_of(&server);
        let faulty = FaultyApi {
            inner: server.as_user(User::privileged("system:test")),
            admin: admin.clone(),
            faults: faults.clone(),
        };
        if faults.blind {
            create_group(&admin, "g", json!({ "desiredNodes": 2 })).await;
        }
        let provider = CloudProvider::new(Client::new(faulty, NAMESPACE), cluster);
        Self { admin, faults, wire: dial(provider).await }
    }

    /// A group that the provider knows.
    pub(crate) async fn group(&self, name: &str, spec: Value) {
        self.create_group(name, spec).await;
        self.refresh().await;
    }

    pub(crate) async fn create_group(&self, name: &str, spec: Value) {
        create_group(&self.admin, name, spec).await;
    }

    /// A record of a group, with a finalizer as the controller would have it.
    pub(crate) async fn record(&self, group: &str, name: &str) {
        create::<VPSieNode>(
            &self.admin,
            json!({
                "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
                "metadata": {
                    "name": name, "namespace": NAMESPACE,
                    "labels": { "autoscaler.vpsie.com/nodegroup": group },
                    "finalizers": ["vpsienode.autoscaler.vpsie.com/finalizer"],
                },
                "spec": { "nodeGroupName": group, "providerRef": { "name": "p" } },
            }),
        )
        .await;
    }

    /// The record's machine joins as node `node-<name>`.
    pub(crate) async fn join(&self, group: &str, name: &str, provider_id: Option<&str>) {
        let mut spec = json!({});
        if let Some(id) = provider_id {
            spec["providerID"] = json!(id);
        }
        let nodes = Api::<Node>::all(self.admin.clone());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("node-{name}"), "labels": {
                "autoscaler.vpsie.com/nodegroup": group,
                "autoscaler.vpsie.com/vpsienode": name,
                "kubernetes.io/hostname": format!("node-{name}"),
            } },
            "spec": spec,
        });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let status = json!({ "status": {
            "capacity": { "cpu": "2", "memory": "4Gi" },
            "allocatable": { "cpu": "1900m", "memory": "3Gi" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let params = PatchParams::default();
        let node = format!("node-{name}");
        nodes.patch_status(&node, &params, &Patch::Merge(status)).await.unwrap();
        self.status(name, json!({ "phase": "Ready", "nodeName": node })).await;
    }

    pub(crate) async fn status(&self, record: &str, status: Value) {
        let records = Api::<VPSieNode>::namespaced(self.admin.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({ "status": status }));
        records.patch_status(record, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The group as the API has it.
    pub(crate) async fn stored(&self, name: &str) -> NodeGroup {
        Api::namespaced(self.admin.clone(), NAMESPACE).get(name).await.unwrap()
    }

    pub(crate) async fn records(&self) -> Vec<VPSieNode> {
        let records = Api::<VPSieNode>::namespaced(self.admin.clone(), NAMESPACE);
        records.list(&Default::default()).await.unwrap().items
    }

    /// Deletes a record to its end, and its Node.
    pub(crate) async fn gone(&self, name: &str) {
        let records = Api::<VPSieNode>::namespaced(self.admin.clone(), NAMESPACE);
        records.delete(name, &DeleteParams::default()).await.unwrap();
        patch::<VPSieNode>(&self.admin, name, json!({ "metadata": { "finalizers": null } })).await;
        let nodes = Api::<Node>::all(self.admin.clone());
        drop(nodes.delete(&format!("node-{name}"), &DeleteParams::default()).await);
    }

    pub(crate) async fn refresh(&self) {
        self.wire.clone().refresh(pb::RefreshRequest {}).await.unwrap();
    }

    pub(crate) async fn target(&self, id: &str) -> i32 {
        let request = pb::NodeGroupTargetSizeRequest { id: id.to_owned() };
        self.wire.clone().node_group_target_size(request).await.unwrap().into_inner().target_size
    }

    pub(crate) async fn increase(&self, id: &str, delta: i32) -> Result<(), tonic::Status> {
        let request = pb::NodeGroupIncreaseSizeRequest { delta, id: id.to_owned() };
        self.wire.clone().node_group_increase_size(request).await.map(drop)
    }

    pub(crate) async fn decrease(&self, id: &str, delta: i32) -> Result<(), tonic::Status> {
        let request = pb::NodeGroupDecreaseTargetSizeRequest { delta, id: id.to_owned() };
        self.wire.clone().node_group_decrease_target_size(request).await.map(drop)
    }

    pub(crate) async fn delete(
        &self,
        id: &str,
        nodes: Vec<pb::ExternalGrpcNode>,
    ) -> Result<(), tonic::Status> {
        let request = pb::NodeGroupDeleteNodesRequest { nodes, id: id.to_owned() };
        self.wire.clone().node_group_delete_nodes(request).await.map(drop)
    }

    pub(crate) async fn instances(&self, id: &str) -> Vec<(String, &'static str)> {
        let request = pb::NodeGroupNodesRequest { id: id.to_owned() };
        let answer = self.wire.clone().node_group_nodes(request).await.unwrap().into_inner();
        let short = |instance: pb::Instance| {
            let state = instance.status.unwrap().instance_state();
            (instance.id, state.as_str_name())
        };
        answer.instances.into_iter().map(short).collect()
    }

    /// Waits until the provider's own views show what `seen` looks for; time is simulated.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, mut seen: impl FnMut() -> F) {
        for _ in 0..10_000 {
            if seen().await {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never showed");
    }
}

/// A Node as cluster-autoscaler hands it over.
pub(crate) fn node(group: &str, record: &str, provider_id: &str) -> pb::ExternalGrpcNode {
    pb::ExternalGrpcNode {
        provider_id: provider_id.to_owned(),
        name: format!("node-{record}"),
        labels: [
            ("autoscaler.vpsie.com/nodegroup".to_owned(), group.to_owned()),
            ("autoscaler.vpsie.com/vpsienode".to_owned(), record.to_owned()),
        ]
        .into(),
        annotations: Default::default(),
    }
}

/// An instance as cluster-autoscaler hands it over while it sees no Node of it.
pub(crate) fn made_up(id: &str) -> pb::ExternalGrpcNode {
    pb::ExternalGrpcNode {
        provider_id: id.to_owned(),
        name: id.to_owned(),
        ..pb::ExternalGrpcNode::default()
    }
}

pub(crate) async fn patch<K>(client: &Client, name: &str, patch: Value)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), NAMESPACE);
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

pub(crate) async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn create_group(client: &Client, name: &str, spec: Value) {
    let mut whole = json!({
        "minNodes": 1, "maxNodes": 5,
        "providerRef": { "name": "p" }, "classRef": { "name": "c" }, "imageRef": { "name": "i" },
    });
    merge(&mut whole, spec);
    let group = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": { "autoscaler.vpsie.com/managed": "true" },
        },
        "spec": whole,
    });
    create::<NodeGroup>(client, group).await;
}

fn merge(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    into.extend(from);
}

/// Serves the provider on connections in memory.
async fn dial(provider: CloudProvider) -> CloudProviderClient<Channel> {
    let (connect, connected) = mpsc::unbounded_channel::<DuplexStream>();
    let incoming = stream::unfold(connected, |mut connected| async move {
        let stream = connected.recv().await?;
        Some((Ok(stream), connected))
    });
    tokio::spawn(serve(provider, incoming, std::future::pending()));
    let connector = tower::service_fn(move |_: Uri| {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let sent = connect.send(theirs);
        async move {
            sent.map_err(|_| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))?;
            Ok::<_, std::io::Error>(TokioIo::new(ours))
        }
    });
    let endpoint = Endpoint::from_static("http://provider");
    CloudProviderClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}
