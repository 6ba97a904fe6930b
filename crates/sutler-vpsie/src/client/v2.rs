//! The dialect of the vendor's autoscaler: machines by number, everything under one base, a word for what a
//! machine does.

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sutler_provider::{Error, Result};

use super::{
    api::VpsieApi,
    govpsie::encode,
    http::{Call, Http},
    pages::{self, Page},
    types::{
        Action, Cluster, ListedAs, NewVm, Node, NodeGroup, Offering, OsImage, Pending, Snapshot, Vm,
    },
    wire,
};
use crate::settings::Dialect;

/// Rows that are asked for at once.
const PER_PAGE: usize = 100;

pub(super) struct V2(pub(super) Http);

#[derive(Deserialize)]
struct Rows<T: DeserializeOwned> {
    // Without it the answer is no list at all, which must not look like an empty one.
    #[serde(deserialize_with = "wire::list")]
    data: Vec<T>,
    #[serde(default)]
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
struct Pagination {
    #[serde(default, deserialize_with = "wire::number")]
    total: Option<i64>,
}

#[derive(Deserialize)]
struct Nodes {
    #[serde(default, deserialize_with = "wire::list")]
    nodes: Vec<Node>,
    #[serde(default, deserialize_with = "wire::list")]
    masters: Vec<Node>,
    #[serde(default, deserialize_with = "wire::list")]
    slaves: Vec<Node>,
}

impl V2 {
    async fn rows<T: DeserializeOwned>(
        &self,
        path: &str,
        key: impl Fn(&T) -> Option<String>,
    ) -> Result<Vec<T>> {
        pages::all(
            path,
            |row| key(row),
            |page, _| {
                let full = format!("{path}?page={page}&per_page={PER_PAGE}");
                async move {
                    let Rows { data, pagination } = self.0.read::<Rows<T>>(Call::get(full)).await?;
                    let total = pagination.and_then(|told| told.total);
                    Ok(Page {
                        rows: data,
                        total: total.and_then(|total| u64::try_from(total).ok()),
                    })
                }
            },
        )
        .await
    }
}

/// The number in a machine's ID.
fn number(id: &str) -> Option<i64> {
    id.parse().ok().filter(|number: &i64| *number > 0 && number.to_string() == id)
}

fn lacks(what: &str) -> Error {
    Error::unsupported(format!("the dialect v2 has no way to {what}"))
}

/// A machine, which comes bare, or in one of two wrappings.
fn unwrap(value: Value) -> Value {
    let data = value.get("data").cloned().filter(Value::is_object);
    let inner = data.unwrap_or(value);
    inner.get("vmData").cloned().filter(Value::is_object).unwrap_or(inner)
}

#[async_trait]
impl VpsieApi for V2 {
    fn dialect(&self) -> Dialect {
        Dialect::V2
    }

    async fn list_vms(&self) -> Result<Vec<Vm>> {
        self.rows("/vm", |vm: &Vm| vm.id.map(|id| id.to_string())).await
    }

    async fn get_vm(&self, id: &str) -> Result<Option<Vm>> {
        let Some(number) = number(id) else { return Ok(None) };
        let call = Call::get(format!("/vm/{number}"));
        let Some(found) = self.0.look::<Value>(call).await? else { return Ok(None) };
        let vm = Vm::deserialize(unwrap(found)).ok().filter(|vm| vm.id == Some(number));
        // Nothing at all is no proof that it is gone.
        let why = || Error::internal(format!("GET /vm: the answer is not about machine {id}"));
        vm.map(Some).ok_or_else(why)
    }

    async fn list_pending(&self) -> Result<Vec<Pending>> {
        Ok(Vec::new())
    }

    async fn list_all_nodes(&self) -> Result<Vec<Vm>> {
        Ok(Vec::new())
    }

    async fn create_vm(&self, vm: &NewVm) -> Result<()> {
        let mut body = json!({
            "name": vm.hostname,
            "hostname": vm.hostname,
            "offering_id": vm.plan,
            "datacenter_id": vm.datacenter,
            "os_image_id": vm.image,
            "notes": vm.notes,
        });
        let optional = [
            ("projectId", vm.project.as_ref().map(|project| json!(project))),
            ("ssh_key_ids", (!vm.ssh_keys.is_empty()).then(|| json!(vm.ssh_keys))),
            ("user_data", vm.user_data.as_ref().map(|data| json!(STANDARD.encode(data)))),
            ("tags", (!vm.tags.is_empty()).then(|| json!(vm.tags))),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        self.0.run(Call::post("/vm", Some(body))).await
    }

    async fn delete_vm(&self, id: &str) -> Result<bool> {
        let Some(number) = number(id) else { return Ok(false) };
        self.0.found(Call::delete(format!("/vm/{number}"), None)).await
    }

    async fn act(&self, id: &str, action: Action) -> Result<()> {
        let Some(number) = number(id) else {
            return Err(Error::not_found(format!("there is no machine {id}")));
        };
        let body = json!({"action": action.as_str()});
        self.0.run(Call::post(format!("/vm/{number}/action"), Some(body))).await
    }

    async fn resize_vm(&self, _id: &str, _cpu: u32, _memory_mib: u64) -> Result<()> {
        Err(lacks("change a machine's size"))
    }

    async fn list_k8s_clusters(&self) -> Result<Vec<Cluster>> {
        self.rows("/k8s/cluster/all", |cluster: &Cluster| cluster.identifier.clone()).await
    }

    async fn list_k8s_nodes(&self, cluster: &str) -> Result<Option<Vec<Node>>> {
        let call = Call::get(format!("/k8s/cluster/byId/{}", encode(cluster)));
        let Some(found) = self.0.look::<Value>(call).await? else { return Ok(None) };
        let data = found.get("data").filter(|data| data.is_object());
        let lists = ["nodes", "masters", "slaves"];
        let told = data.filter(|data| lists.iter().any(|list| data.get(list).is_some()));
        let wrong = || Error::internal("GET /k8s/cluster/byId: the answer holds no list of nodes");
        let nodes = told.and_then(|data| Nodes::deserialize(data).ok()).ok_or_else(wrong)?;
        Ok(Some(merge(nodes)))
    }

    async fn list_k8s_node_groups(&self, cluster: &str) -> Result<Vec<NodeGroup>> {
        let path = format!("/k8s/node/groups/byClusterId/{}", encode(cluster));
        self.rows(&path, |group: &NodeGroup| group.id.map(|id| id.to_string())).await
    }

    async fn create_k8s_node_group(&self, cluster: &str, name: &str, size: i64) -> Result<()> {
        let body = json!({"clusterIdentifier": cluster, "groupName": name, "KubeSizeID": size});
        self.0.run(Call::post("/k8s/cluster/add/group", Some(body))).await
    }

    async fn add_k8s_node(&self, cluster: &str, group: i64) -> Result<()> {
        let path = format!("/k8s/cluster/byId/{}/add/slave/group/{group}", encode(cluster));
        self.0.run(Call::post(path, None)).await
    }

    async fn delete_k8s_node(&self, cluster: &str, identifier: &str) -> Result<bool> {
        let path = format!("/k8s/cluster/byId/{}/delete/slave", encode(cluster));
        self.0.found(Call::delete(path, Some(json!({"identifier": identifier})))).await
    }

    async fn reduce_k8s_node_group(&self, _cluster: &str, _group: i64) -> Result<()> {
        Err(lacks("make a group smaller without naming a node"))
    }

    async fn list_offerings(&self) -> Result<Vec<Offering>> {
        self.rows("/offerings", |offering: &Offering| offering.id.clone()).await
    }

    async fn list_images(&self) -> Result<Vec<OsImage>> {
        self.rows("/images", |image: &OsImage| image.id.clone()).await
    }

    async fn list_snapshots(&self, _vm: &str) -> Result<Vec<Snapshot>> {
        Err(lacks("list snapshots"))
    }

    async fn create_snapshot(&self, _vm: &str, _name: &str, _note: &str) -> Result<()> {
        Err(lacks("take snapshots"))
    }

    async fn rollback_snapshot(&self, _snapshot: &str) -> Result<()> {
        Err(lacks("go back to snapshots"))
    }

    async fn delete_snapshot(&self, _snapshot: &str) -> Result<bool> {
        Err(lacks("delete snapshots"))
    }
}

/// One list of the three, in which a node may be twice. Whoever is among the masters is one.
fn merge(lists: Nodes) -> Vec<Node> {
    let Nodes { nodes, masters, slaves } = lists;
    let tagged = masters
        .into_iter()
        .map(|node| (Some(ListedAs::Master), node))
        .chain(slaves.into_iter().map(|node| (Some(ListedAs::Worker), node)))
        .chain(nodes.into_iter().map(|node| (None, node)));
    let mut all: Vec<Node> = Vec::new();
    for (listed_as, mut node) in tagged {
        let known =
            |other: &Node| other.identifier.is_some() && other.identifier == node.identifier;
        if node.identifier.is_none() || !all.iter().any(known) {
            node.listed_as = listed_as;
            all.push(node);
        }
    }
    all
}
