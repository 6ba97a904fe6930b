//! The stock cluster-autoscaler's protocol, through the door that `serve --externalgrpc` opens.

use std::{path::Path, sync::Arc};

use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::{Value, json};
use sutler_externalgrpc::pb::{self, cloud_provider_client::CloudProviderClient};
use sutler_rpc::Pem;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::{
    lab::{self, Lab},
    scaling::{group, has, set},
    wire::{Authority, NAME},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_stock_autoscaler_drives_a_group_through_the_door() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    write(&authority.issue(NAME, 30), folder.path());
    lab::run_driven(folder.path(), |lab| drive(lab, authority)).await;
}

async fn drive(lab: Lab, authority: Authority) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("web", 1, json!({}))).await;
    lab.grown("web", "there", has(1)).await;
    // Pods that do not fit are the other one's business now.
    lab.create(set("busy", 3, "800m")).await;

    let address = lab.door();
    let stranger = Authority::new();
    let trusting = |pem: Pem| Pem { ca: authority.pem.clone().into_bytes(), ..pem };
    assert!(knock(&address, &trusting(stranger.issue("autoscaler", 30))).await.is_err());
    let mut door = knock(&address, &authority.issue("autoscaler", 30)).await.unwrap();

    let groups = door.node_groups(pb::NodeGroupsRequest {}).await.unwrap().into_inner();
    let web = format!("{}/web", lab.namespace);
    let found = groups.node_groups.iter().find(|group| group.id == web).unwrap();
    assert_eq!((found.min_size, found.max_size), (1, 5));
    let size = pb::NodeGroupTargetSizeRequest { id: web.clone() };
    let target =
        |answer: tonic::Response<pb::NodeGroupTargetSizeResponse>| answer.into_inner().target_size;
    assert_eq!(target(door.node_group_target_size(size.clone()).await.unwrap()), 1);

    let more = pb::NodeGroupIncreaseSizeRequest { delta: 2, id: web.clone() };
    door.node_group_increase_size(more).await.unwrap();
    assert_eq!(target(door.node_group_target_size(size.clone()).await.unwrap()), 3);
    lab.grown("web", "grown", has(3)).await;
    lab.serving("busy", 3).await;
    let nodes = pb::NodeGroupNodesRequest { id: web.clone() };
    let nodes = door.node_group_nodes(nodes).await.unwrap().into_inner().instances;
    assert_eq!(nodes.len(), 3, "{nodes:?}");

    // One of its choice goes, and no other comes for it.
    let (id, name) = (nodes[0].id.clone(), nodes[0].id.rsplit('/').next().unwrap().to_owned());
    let gone = pb::ExternalGrpcNode { provider_id: id, name, ..Default::default() };
    let less = pb::NodeGroupDeleteNodesRequest { nodes: vec![gone], id: web.clone() };
    door.node_group_delete_nodes(less).await.unwrap();
    assert_eq!(target(door.node_group_target_size(size).await.unwrap()), 2);
    // One that goes is still told of: a group moves for as long as there is one.
    let rests = |group: &Value| {
        let conditions = group["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["type"] == "Scaling" && one["status"] == "False")
    };
    lab.grown("web", "shrunk", |group| has(2)(group) && rests(group)).await;
    let left = door.node_group_nodes(pb::NodeGroupNodesRequest { id: web }).await.unwrap();
    let left: Vec<String> = left.into_inner().instances.into_iter().map(|node| node.id).collect();
    assert!(left.len() == 2 && !left.contains(&nodes[0].id), "{left:?}");
    let waiting = |set: &Value| set["status"]["readyReplicas"] == 2;
    lab.until_of("apps/v1", "ReplicaSet", "busy", "waiting for a node", waiting).await;
}

fn write(pem: &Pem, folder: &Path) {
    for (name, bytes) in [("tls.crt", &pem.cert), ("tls.key", &pem.key), ("ca.crt", &pem.ca)] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A client with these certificates, that was let in.
async fn knock(address: &str, pem: &Pem) -> Result<CloudProviderClient<Channel>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem.ca).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(&pem.cert).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&pem.key).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (config, address) = (Arc::new(config), address.to_owned());
    let connector = tower::service_fn(move |_: Uri| {
        let (connector, address) = (TlsConnector::from(config.clone()), address.clone());
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from(NAME).unwrap();
            let stream = connector.connect(name, stream).await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://door");
    let channel = endpoint.connect_with_connector(connector).await.map_err(|e| e.to_string())?;
    let mut client = CloudProviderClient::new(channel);
    client.refresh(pb::RefreshRequest {}).await.map_err(|e| e.to_string())?;
    Ok(client)
}
