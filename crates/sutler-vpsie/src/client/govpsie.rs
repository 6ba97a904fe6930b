//! The dialect of the vendor's Go library: machines by UUID, `/api/v2` and `/apps/v2`, yes and no as 1 and
//! 0, and no word for what a machine does.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sutler_provider::{Error, Result, Secret};

use super::{
    api::VpsieApi,
    http::{Call, Http},
    pages::{self, Page},
    types::{Action, Cluster, NewVm, Node, NodeGroup, Offering, OsImage, Pending, Snapshot, Vm},
    wire,
};
use crate::settings::Dialect;

const VM: &str = "/api/v2/vm";
const K8S: &str = "/apps/v2/k8s";
const SNAPSHOT: &str = "/apps/v2/snapshot";

pub(super) struct Govpsie(pub(super) Http);

/// Rows, and how many there are in all.
#[derive(Deserialize)]
struct Rows<T: serde::de::DeserializeOwned> {
    // Without it the answer is no list at all, which must not look like an empty one.
    #[serde(deserialize_with = "wire::list")]
    data: Vec<T>,
    #[serde(default, deserialize_with = "wire::number")]
    total: Option<i64>,
}

impl<T: serde::de::DeserializeOwned> Rows<T> {
    fn page(self) -> Page<T> {
        let total = self.total.and_then(|total| u64::try_from(total).ok());
        // A total that is less than what came is no total.
        let total = total.filter(|total| *total >= self.data.len() as u64);
        Page { rows: self.data, total }
    }
}

#[derive(Deserialize)]
struct One<T> {
    data: T,
}

#[derive(Deserialize)]
struct VmOne {
    #[serde(rename = "vmData")]
    vm: Option<Vm>,
}

#[derive(Deserialize)]
struct PendingRow {
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Nodes {
    #[serde(default, deserialize_with = "wire::text")]
    identifier: Option<String>,
    #[serde(deserialize_with = "wire::list")]
    nodes: Vec<Node>,
}

impl Govpsie {
    /// All rows of a list that comes in pages by offset.
    async fn rows<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: Option<(&str, &str)>,
        key: impl Fn(&T) -> Option<String>,
    ) -> Result<Vec<T>> {
        pages::all(
            path,
            |row| key(row),
            |page, offset| {
                let mut parts: Vec<String> =
                    query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
                // The first page is asked for as the vendor's own library does.
                if page > 1 {
                    parts.push(format!("offset={offset}"));
                }
                let full = match parts.is_empty() {
                    true => path.to_owned(),
                    false => format!("{path}?{}", parts.join("&")),
                };
                async move { self.0.read::<Rows<T>>(Call::get(full)).await.map(Rows::page) }
            },
        )
        .await
    }

    fn statistic() -> Value {
        json!({"reason": "other", "note": "deleted by Sutler"})
    }
}

/// What is escaped in a path.
const ESCAPED: percent_encoding::AsciiSet =
    percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A text as part of a path.
pub(super) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, &ESCAPED).to_string()
}

fn lacks(what: &str) -> Error {
    Error::unsupported(format!("the dialect govpsie has no documented way to {what}"))
}

#[async_trait]
impl VpsieApi for Govpsie {
    fn dialect(&self) -> Dialect {
        Dialect::Govpsie
    }

    async fn list_vms(&self) -> Result<Vec<Vm>> {
        let project = self.0.project.as_deref().map(|project| ("projectId", project));
        self.rows(VM, project, |vm: &Vm| vm.identifier.clone()).await
    }

    async fn get_vm(&self, id: &str) -> Result<Option<Vm>> {
        let call = Call::get(format!("{VM}/{}", encode(id)));
        let Some(found) = self.0.look::<One<VmOne>>(call).await? else { return Ok(None) };
        match found.data.vm {
            Some(vm) if vm.identifier.as_deref() == Some(id) => Ok(Some(vm)),
            // Nothing at all is no proof that it is gone.
            _ => Err(Error::internal(format!("GET {VM}: the answer is not about machine {id}"))),
        }
    }

    async fn list_pending(&self) -> Result<Vec<Pending>> {
        let rows: Rows<PendingRow> = self.0.read(Call::get("/apps/v2/vm/pending")).await?;
        let one = |row: PendingRow| Pending {
            hostname: row.data.get("hostname").and_then(Value::as_str).map(str::to_owned),
        };
        Ok(rows.data.into_iter().map(one).collect())
    }

    async fn list_all_nodes(&self) -> Result<Vec<Vm>> {
        self.rows("/apps/v2/vms/all/user", None, |vm: &Vm| vm.identifier.clone()).await
    }

    async fn create_vm(&self, vm: &NewVm) -> Result<()> {
        let mut body = json!({
            "resourceIdentifier": vm.plan,
            "osIdentifier": vm.image,
            "dcIdentifier": vm.datacenter,
            "hostname": vm.hostname,
            "projectId": vm.project.clone().unwrap_or_default(),
            "notes": vm.notes,
        });
        let optional = [
            ("sshKeyIdentifier", vm.ssh_keys.first().map(|key| json!(key))),
            ("scriptIdentifier", vm.script.as_ref().map(|script| json!(script))),
            ("userData", vm.user_data.as_ref().map(|data| json!(data))),
            ("tags", (!vm.tags.is_empty()).then(|| json!(vm.tags))),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        self.0.run(Call::post(VM, Some(body))).await
    }

    async fn delete_vm(&self, id: &str) -> Result<bool> {
        let password = self.0.password.as_ref().and_then(Secret::expose_str).unwrap_or_default();
        let body = json!({
            "vmIdentifier": id,
            "password": password,
            "deleteStatistic": Self::statistic(),
        });
        self.0.found(Call::delete(VM, Some(body))).await
    }

    async fn act(&self, id: &str, action: Action) -> Result<()> {
        let path = format!("{VM}/{}", action.as_str());
        self.0.run(Call::post(path, Some(json!({"vmIdentifier": id})))).await
    }

    async fn resize_vm(&self, id: &str, cpu: u32, memory_mib: u64) -> Result<()> {
        // The vendor's library writes `cup`; whether that is its slip or the API's is not known.
        let (cpu, ram) = (cpu.to_string(), memory_mib.to_string());
        let body = json!({"vmIdentifier": id, "cpu": cpu, "cup": cpu, "ram": ram});
        self.0.run(Call::post(format!("{VM}/resize"), Some(body))).await
    }

    async fn list_k8s_clusters(&self) -> Result<Vec<Cluster>> {
        let path = format!("{K8S}/cluster/all");
        self.rows(&path, None, |cluster: &Cluster| cluster.identifier.clone()).await
    }

    async fn list_k8s_nodes(&self, cluster: &str) -> Result<Option<Vec<Node>>> {
        let call = Call::get(format!("{K8S}/cluster/byId/{}", encode(cluster)));
        let Some(found) = self.0.look::<One<Nodes>>(call).await? else { return Ok(None) };
        let Nodes { identifier, nodes } = found.data;
        match identifier {
            Some(other) if other != cluster => {
                let why = format!("the answer is about cluster {other}, and not {cluster}");
                Err(Error::internal(format!("GET {K8S}/cluster/byId: {why}")))
            }
            _ => Ok(Some(nodes)),
        }
    }

    async fn list_k8s_node_groups(&self, cluster: &str) -> Result<Vec<NodeGroup>> {
        let path = format!("{K8S}/node/groups/byClusterId/{}", encode(cluster));
        self.rows(&path, None, |group: &NodeGroup| group.id.map(|id| id.to_string())).await
    }

    async fn create_k8s_node_group(&self, cluster: &str, name: &str, size: i64) -> Result<()> {
        let body = json!({"clusterIdentifier": cluster, "groupName": name, "KubeSizeID": size});
        self.0.run(Call::post(format!("{K8S}/cluster/add/group"), Some(body))).await
    }

    async fn add_k8s_node(&self, cluster: &str, group: i64) -> Result<()> {
        let path = format!("{K8S}/cluster/byId/{}/add/slave/group/{group}", encode(cluster));
        self.0.run(Call::post(path, None)).await
    }

    async fn delete_k8s_node(&self, cluster: &str, identifier: &str) -> Result<bool> {
        let path = format!("{K8S}/cluster/byId/{}/delete/slave", encode(cluster));
        self.0.found(Call::delete(path, Some(json!({"identifier": identifier})))).await
    }

    async fn reduce_k8s_node_group(&self, cluster: &str, group: i64) -> Result<()> {
        let path = format!("{K8S}/cluster/byId/{}/reduce/slave", encode(cluster));
        self.0.run(Call::delete(path, Some(json!({"groupId": group})))).await
    }

    async fn list_offerings(&self) -> Result<Vec<Offering>> {
        Err(lacks("list sizes: name them in spec.options.plans"))
    }

    async fn list_images(&self) -> Result<Vec<OsImage>> {
        Err(lacks("list operating systems"))
    }

    async fn list_snapshots(&self, vm: &str) -> Result<Vec<Snapshot>> {
        let path = format!("/apps/v2/vm/snapshot/{}", encode(vm));
        self.rows(&path, None, |snapshot: &Snapshot| snapshot.identifier.clone()).await
    }

    async fn create_snapshot(&self, vm: &str, name: &str, note: &str) -> Result<()> {
        let body = json!({"name": name, "vmIdentifier": vm, "note": note});
        self.0.run(Call::post(format!("{SNAPSHOT}/add"), Some(body))).await
    }

    async fn rollback_snapshot(&self, snapshot: &str) -> Result<()> {
        let body = json!({"snapshotIdentifier": snapshot});
        self.0.run(Call::post(format!("{SNAPSHOT}/rollback"), Some(body))).await
    }

    async fn delete_snapshot(&self, snapshot: &str) -> Result<bool> {
        let body = json!({"snapshotIdentifier": snapshot, "deleteStatistic": Self::statistic()});
        self.0.found(Call::delete(SNAPSHOT, Some(body))).await
    }
}
