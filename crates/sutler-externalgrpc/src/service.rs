//! The calls of cluster-autoscaler.

use std::{fmt, sync::Arc};

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use sutler_api::autoscaler::{
    NodeGroup,
    removal::{is_leaving, removing, target_size},
};
use tonic::{Request, Response, Status};

use crate::{
    Cluster, Error, GPU_LABEL,
    cache::{CONFIG, Caches},
    encode_node,
    groups::{is_driven, on_wire},
    instances::instance,
    options::options,
    pb::{self, cloud_provider_server},
    resize::{Change, Resizer},
    template::{self, Size},
};

/// The cloud provider that cluster-autoscaler asks. Cloning is cheap; all clones are one, and its
/// watches end with the last.
#[derive(Clone)]
pub struct CloudProvider(Arc<Inner>);

struct Inner {
    caches: Arc<Caches>,
    cluster: Cluster,
    resizer: Resizer,
}

impl fmt::Debug for CloudProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudProvider").field("cluster", &self.0.cluster).finish_non_exhaustive()
    }
}

impl CloudProvider {
    /// Drives the groups of `api` whose nodes are in `cluster`, and begins to watch them; it must be
    /// called in a runtime of tokio. Calls that come before the watches are up wait for them.
    pub fn new(api: kube::Client, cluster: Cluster) -> Self {
        let caches = Arc::new(Caches::begin(api, &cluster));
        let resizer = Resizer::new(caches.clone(), cluster.clone());
        Self(Arc::new(Inner { caches, cluster, resizer }))
    }

    async fn group(&self, id: &str) -> Result<Arc<NodeGroup>, Error> {
        self.0.caches.ready().await?;
        self.0.caches.driven(id, &self.0.cluster)
    }

    /// A change of a size. It goes on when its caller is gone: the transport drops the handler then,
    /// and a write whose answer is lost is still looked into.
    async fn change(&self, id: String, change: Change) -> Result<(), Error> {
        self.0.caches.ready().await?;
        let (inner, group) = (self.0.clone(), id.clone());
        let work = tokio::spawn(async move { inner.resizer.change(&id, change).await });
        work.await.unwrap_or(Err(Error::Indeterminate { group }))
    }

    fn instances(&self, group: &NodeGroup) -> Result<Vec<pb::Instance>, Error> {
        let caches = &self.0.caches;
        let leaving = removing(group)?;
        let claimed = caches.claimed_nodes();
        let records = caches.records_of(group);
        Ok(records
            .iter()
            .map(|record| {
                let node = caches.node_of(record, &claimed);
                instance(record, node.as_deref(), is_leaving(record, &leaving))
            })
            .collect())
    }

    fn template(&self, group: &NodeGroup) -> Result<Vec<u8>, Error> {
        let caches = &self.0.caches;
        let claimed = caches.claimed_nodes();
        let mut records = caches.records_of(group);
        // The newest is most like the next.
        records.sort_by_cached_key(|record| record.creation_timestamp());
        let node = records.iter().rev().find_map(|record| {
            caches.node_of(record, &claimed).filter(|node| template::is_ready(node))
        });
        if let Some(node) = node {
            return Ok(encode_node(&template::from_node(group, &node)));
        }
        let class = group.spec.class_ref.as_ref().and_then(|class| {
            let own = group.namespace().unwrap_or_default();
            let key = ObjectRef::new(&class.name).within(class.namespace_or(&own));
            caches.classes.get(&key)
        });
        let size = class.and_then(|class| Size::of_class(&class)).or_else(|| {
            let known = |record: &Arc<_>| {
                let record: &sutler_api::autoscaler::VPSieNode = record;
                Size::of_resources(record.status.as_ref()?.resources.as_ref()?)
            };
            records.iter().rev().find_map(known)
        });
        let size = size.ok_or_else(|| {
            Error::Unsupported(
                "how large a new node would be is not known: no node of the group is ready, none has \
                 status.resources, and spec.classRef names no VMClass with cpu and memory"
                    .to_owned(),
            )
        })?;
        Ok(encode_node(&template::from_size(group, &size)))
    }
}

fn no_prices() -> Status {
    Error::Unsupported("prices are not known".to_owned()).into()
}

#[tonic::async_trait]
impl cloud_provider_server::CloudProvider for CloudProvider {
    async fn node_groups(
        &self,
        _: Request<pb::NodeGroupsRequest>,
    ) -> Result<Response<pb::NodeGroupsResponse>, Status> {
        self.0.caches.ready().await?;
        let groups = self.0.caches.all_groups();
        let driven = groups.iter().filter(|group| is_driven(group, &self.0.cluster));
        let node_groups = driven.map(|group| on_wire(group)).collect();
        Ok(Response::new(pb::NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(
        &self,
        request: Request<pb::NodeGroupForNodeRequest>,
    ) -> Result<Response<pb::NodeGroupForNodeResponse>, Status> {
        self.0.caches.ready().await?;
        let node = request.into_inner().node.unwrap_or_default();
        let group = self.0.caches.group_of(&node, &self.0.cluster);
        let node_group = Some(group.map(|group| on_wire(&group)).unwrap_or_default());
        Ok(Response::new(pb::NodeGroupForNodeResponse { node_group }))
    }

    async fn pricing_node_price(
        &self,
        _: Request<pb::PricingNodePriceRequest>,
    ) -> Result<Response<pb::PricingNodePriceResponse>, Status> {
        Err(no_prices())
    }

    async fn pricing_pod_price(
        &self,
        _: Request<pb::PricingPodPriceRequest>,
    ) -> Result<Response<pb::PricingPodPriceResponse>, Status> {
        Err(no_prices())
    }

    async fn gpu_label(
        &self,
        _: Request<pb::GpuLabelRequest>,
    ) -> Result<Response<pb::GpuLabelResponse>, Status> {
        Ok(Response::new(pb::GpuLabelResponse { label: GPU_LABEL.to_owned() }))
    }

    async fn get_available_gpu_types(
        &self,
        _: Request<pb::GetAvailableGpuTypesRequest>,
    ) -> Result<Response<pb::GetAvailableGpuTypesResponse>, Status> {
        Ok(Response::new(pb::GetAvailableGpuTypesResponse::default()))
    }

    async fn cleanup(
        &self,
        _: Request<pb::CleanupRequest>,
    ) -> Result<Response<pb::CleanupResponse>, Status> {
        // Nothing was set up for the caller.
        Ok(Response::new(pb::CleanupResponse {}))
    }

    async fn refresh(
        &self,
        _: Request<pb::RefreshRequest>,
    ) -> Result<Response<pb::RefreshResponse>, Status> {
        self.0.caches.catch_up().await?;
        Ok(Response::new(pb::RefreshResponse {}))
    }

    async fn node_group_target_size(
        &self,
        request: Request<pb::NodeGroupTargetSizeRequest>,
    ) -> Result<Response<pb::NodeGroupTargetSizeResponse>, Status> {
        let group = self.group(&request.get_ref().id).await?;
        let target_size = target_size(&group);
        Ok(Response::new(pb::NodeGroupTargetSizeResponse { target_size }))
    }

    async fn node_group_increase_size(
        &self,
        request: Request<pb::NodeGroupIncreaseSizeRequest>,
    ) -> Result<Response<pb::NodeGroupIncreaseSizeResponse>, Status> {
        let pb::NodeGroupIncreaseSizeRequest { delta, id } = request.into_inner();
        self.change(id, Change::Grow(delta)).await?;
        Ok(Response::new(pb::NodeGroupIncreaseSizeResponse {}))
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<pb::NodeGroupDeleteNodesRequest>,
    ) -> Result<Response<pb::NodeGroupDeleteNodesResponse>, Status> {
        let pb::NodeGroupDeleteNodesRequest { nodes, id } = request.into_inner();
        self.change(id, Change::Remove(nodes)).await?;
        Ok(Response::new(pb::NodeGroupDeleteNodesResponse {}))
    }

    async fn node_group_decrease_target_size(
        &self,
        request: Request<pb::NodeGroupDecreaseTargetSizeRequest>,
    ) -> Result<Response<pb::NodeGroupDecreaseTargetSizeResponse>, Status> {
        let pb::NodeGroupDecreaseTargetSizeRequest { delta, id } = request.into_inner();
        self.change(id, Change::TakeBack(delta)).await?;
        Ok(Response::new(pb::NodeGroupDecreaseTargetSizeResponse {}))
    }

    async fn node_group_nodes(
        &self,
        request: Request<pb::NodeGroupNodesRequest>,
    ) -> Result<Response<pb::NodeGroupNodesResponse>, Status> {
        let group = self.group(&request.get_ref().id).await?;
        let instances = self.instances(&group)?;
        Ok(Response::new(pb::NodeGroupNodesResponse { instances }))
    }

    async fn node_group_template_node_info(
        &self,
        request: Request<pb::NodeGroupTemplateNodeInfoRequest>,
    ) -> Result<Response<pb::NodeGroupTemplateNodeInfoResponse>, Status> {
        let group = self.group(&request.get_ref().id).await?;
        let node_bytes = self.template(&group)?;
        Ok(Response::new(pb::NodeGroupTemplateNodeInfoResponse { node_bytes }))
    }

    async fn node_group_get_options(
        &self,
        request: Request<pb::NodeGroupAutoscalingOptionsRequest>,
    ) -> Result<Response<pb::NodeGroupAutoscalingOptionsResponse>, Status> {
        let pb::NodeGroupAutoscalingOptionsRequest { id, defaults } = request.into_inner();
        let group = self.group(&id).await?;
        let config = self.0.caches.configs.get(&ObjectRef::new(CONFIG));
        let options = options(&group, config.as_deref(), defaults);
        let node_group_autoscaling_options = Some(options);
        Ok(Response::new(pb::NodeGroupAutoscalingOptionsResponse {
            node_group_autoscaling_options,
        }))
    }
}
