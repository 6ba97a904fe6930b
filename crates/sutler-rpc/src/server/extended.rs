//! `sutler.provider.v1.Extensions`: the whole contract.

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use sutler_provider::{Listing, SnapshotId};
use tonic::{Request, Response, Status, Streaming};

use super::{Service, refused};
use crate::{
    Malformed,
    extended::{identity::proof, required},
    pb::extended::{self as pb, console_input, event, extensions_server::Extensions},
};

/// Machines in one page of a list.
const PAGE: usize = 500;

type Answer<T> = Result<Response<T>, Status>;

/// A change: its request is read, carried out in a task of its own, and its answer written.
macro_rules! change {
    ($self:ident, $name:literal, $request:ident, $call:ident) => {{
        let request = $request.into_inner().try_into().map_err(refused)?;
        let provider = $self.provider.clone();
        let done = $self.change($name, async move { provider.$call(request).await }).await?;
        Ok(Response::new(done.into()))
    }};
}

#[tonic::async_trait]
impl Extensions for Service {
    type ListStream = BoxStream<'static, Result<pb::ListPage, Status>>;
    type EventsStream = BoxStream<'static, Result<pb::Event, Status>>;
    type ConsoleStream = BoxStream<'static, Result<pb::ConsoleOutput, Status>>;

    async fn validate(&self, _: Request<pb::ValidateRequest>) -> Answer<pb::ValidateResponse> {
        self.look("Validate", self.provider.validate()).await?;
        Ok(Response::new(pb::ValidateResponse {}))
    }

    async fn get_capabilities(
        &self,
        _: Request<pb::GetCapabilitiesRequest>,
    ) -> Answer<pb::Capabilities> {
        let capabilities = self.look("GetCapabilities", self.provider.capabilities()).await?;
        Ok(Response::new(capabilities.into()))
    }

    async fn create(&self, request: Request<pb::CreateRequest>) -> Answer<pb::CreateResponse> {
        change!(self, "Create", request, create)
    }

    async fn clone(&self, request: Request<pb::CloneRequest>) -> Answer<pb::CreateResponse> {
        change!(self, "Clone", request, clone_machine)
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Answer<pb::Started> {
        change!(self, "Delete", request, delete)
    }

    async fn power(&self, request: Request<pb::PowerRequest>) -> Answer<pb::Started> {
        change!(self, "Power", request, power)
    }

    async fn reconfigure(&self, request: Request<pb::ReconfigureRequest>) -> Answer<pb::Started> {
        change!(self, "Reconfigure", request, reconfigure)
    }

    async fn hardware_upgrade(
        &self,
        request: Request<pb::HardwareUpgradeRequest>,
    ) -> Answer<pb::Started> {
        change!(self, "HardwareUpgrade", request, hardware_upgrade)
    }

    async fn migrate(&self, request: Request<pb::MigrateRequest>) -> Answer<pb::Started> {
        change!(self, "Migrate", request, migrate)
    }

    async fn adopt(&self, request: Request<pb::AdoptRequest>) -> Answer<pb::AdoptResponse> {
        let pb::AdoptRequest { id, owner } = request.into_inner();
        let owner = required("owner", owner).and_then(TryInto::try_into).map_err(refused)?;
        let provider = self.provider.clone();
        self.change("Adopt", async move { provider.adopt(&id.into(), &owner).await }).await?;
        Ok(Response::new(pb::AdoptResponse {}))
    }

    async fn disown(&self, request: Request<pb::DisownRequest>) -> Answer<pb::DisownResponse> {
        let pb::DisownRequest { id, proof: given } = request.into_inner();
        let proof = proof(given).map_err(refused)?;
        let provider = self.provider.clone();
        self.change("Disown", async move { provider.disown(&id.into(), &proof).await }).await?;
        Ok(Response::new(pb::DisownResponse {}))
    }

    async fn describe(
        &self,
        request: Request<pb::DescribeRequest>,
    ) -> Answer<pb::DescribeResponse> {
        let id = request.into_inner().id.into();
        let machine = self.look("Describe", self.provider.describe(&id)).await?;
        Ok(Response::new(pb::DescribeResponse { machine: machine.map(Into::into) }))
    }

    async fn list(&self, _: Request<pb::ListRequest>) -> Answer<Self::ListStream> {
        let listing = self.look("List", self.provider.list()).await?;
        Ok(Response::new(pages(listing).map(Ok).boxed()))
    }

    async fn events(&self, _: Request<pb::EventsRequest>) -> Answer<Self::EventsStream> {
        let events = self.look("Events", self.provider.events()).await?;
        let started = pb::Event { event: Some(event::Event::Started(true)) };
        let all = stream::once(async { started }).chain(events.map(Into::into));
        let all = all.take_until(self.ending.clone().cancelled_owned());
        Ok(Response::new(all.map(Ok).boxed()))
    }

    async fn task_status(
        &self,
        request: Request<pb::TaskStatusRequest>,
    ) -> Answer<pb::TaskStatusResponse> {
        let id = request.into_inner().id.into();
        let state = self.look("TaskStatus", self.provider.task(&id)).await?;
        Ok(Response::new(state.into()))
    }

    async fn snapshot_create(
        &self,
        request: Request<pb::SnapshotCreateRequest>,
    ) -> Answer<pb::SnapshotCreateResponse> {
        change!(self, "SnapshotCreate", request, snapshot_create)
    }

    async fn snapshot_delete(&self, request: Request<pb::SnapshotRequest>) -> Answer<pb::Started> {
        let pb::SnapshotRequest { id, proof: given, snapshot } = request.into_inner();
        let (proof, snapshot) = (proof(given).map_err(refused)?, SnapshotId(snapshot));
        let provider = self.provider.clone();
        let deleting = async move { provider.snapshot_delete(&id.into(), &proof, &snapshot).await };
        Ok(Response::new(self.change("SnapshotDelete", deleting).await?.into()))
    }

    async fn snapshot_revert(&self, request: Request<pb::SnapshotRequest>) -> Answer<pb::Started> {
        let pb::SnapshotRequest { id, proof: given, snapshot } = request.into_inner();
        let (proof, snapshot) = (proof(given).map_err(refused)?, SnapshotId(snapshot));
        let provider = self.provider.clone();
        let reverting =
            async move { provider.snapshot_revert(&id.into(), &proof, &snapshot).await };
        Ok(Response::new(self.change("SnapshotRevert", reverting).await?.into()))
    }

    async fn image_prepare(
        &self,
        request: Request<pb::ImagePrepareRequest>,
    ) -> Answer<pb::ImagePrepareResponse> {
        change!(self, "ImagePrepare", request, image_prepare)
    }

    async fn image_remove(&self, request: Request<pb::ImageRemoveRequest>) -> Answer<pb::Started> {
        let target = request.into_inner().target;
        let provider = self.provider.clone();
        let removing = async move { provider.image_remove(&target).await };
        Ok(Response::new(self.change("ImageRemove", removing).await?.into()))
    }

    async fn get_disk_info(
        &self,
        request: Request<pb::DiskRef>,
    ) -> Answer<pb::GetDiskInfoResponse> {
        let disk = request.into_inner().into();
        let info = self.look("GetDiskInfo", self.provider.disk_info(&disk)).await?;
        Ok(Response::new(pb::GetDiskInfoResponse { disk: info.map(Into::into) }))
    }

    async fn export_disk(
        &self,
        request: Request<pb::ExportDiskRequest>,
    ) -> Answer<pb::ExportDiskResponse> {
        change!(self, "ExportDisk", request, disk_export)
    }

    async fn import_disk(
        &self,
        request: Request<pb::ImportDiskRequest>,
    ) -> Answer<pb::ImportDiskResponse> {
        change!(self, "ImportDisk", request, disk_import)
    }

    async fn list_kept_disks(
        &self,
        _: Request<pb::ListKeptDisksRequest>,
    ) -> Answer<pb::ListKeptDisksResponse> {
        let disks = self.look("ListKeptDisks", self.provider.kept_disks()).await?;
        let disks = disks.into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListKeptDisksResponse { disks }))
    }

    async fn kept_disk_remove(
        &self,
        request: Request<pb::KeptDiskRemoveRequest>,
    ) -> Answer<pb::Started> {
        let key = request.into_inner().key.into();
        let provider = self.provider.clone();
        let removing = async move { provider.kept_disk_remove(&key).await };
        Ok(Response::new(self.change("KeptDiskRemove", removing).await?.into()))
    }

    async fn guest_exec(
        &self,
        request: Request<pb::GuestExecRequest>,
    ) -> Answer<pb::GuestExecResponse> {
        change!(self, "GuestExec", request, guest_exec)
    }

    async fn console(
        &self,
        request: Request<Streaming<pb::ConsoleInput>>,
    ) -> Answer<Self::ConsoleStream> {
        let mut typed = request.into_inner();
        let Some(console_input::Input::Open(open)) =
            typed.message().await?.and_then(|first| first.input)
        else {
            return Err(refused(Malformed::missing("open")));
        };
        let (id, proof) = (open.id.into(), proof(open.proof).map_err(refused)?);
        let console = self.look("Console", self.provider.console(&id, &proof)).await?;
        let input = console.input;
        // Ends with either side: an input that nobody takes, or one that ends.
        tokio::spawn(async move {
            while let Ok(Some(message)) = typed.message().await {
                if let Some(console_input::Input::Data(data)) = message.input
                    && input.send(data).await.is_err()
                {
                    return;
                }
            }
        });
        let open = stream::once(async { pb::ConsoleOutput::default() });
        let output = console.output.map(|data| pb::ConsoleOutput { data });
        let all = open.chain(output).take_until(self.ending.clone().cancelled_owned());
        Ok(Response::new(all.map(Ok).boxed()))
    }

    async fn list_templates(
        &self,
        _: Request<pb::ListTemplatesRequest>,
    ) -> Answer<pb::ListTemplatesResponse> {
        let templates = self.look("ListTemplates", self.provider.templates()).await?;
        let templates = templates.into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListTemplatesResponse { templates }))
    }

    async fn list_hosts(&self, _: Request<pb::ListHostsRequest>) -> Answer<pb::ListHostsResponse> {
        let hosts = self.look("ListHosts", self.provider.hosts()).await?;
        let hosts = hosts.into_iter().map(Into::into).collect();
        Ok(Response::new(pb::ListHostsResponse { hosts }))
    }
}

/// A list in pages, of which the last says so.
fn pages(listing: Listing) -> impl Stream<Item = pb::ListPage> {
    let Listing { machines, complete } = listing;
    let mut rest = machines.into_iter().peekable();
    let mut ended = false;
    stream::iter(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let machines = rest.by_ref().take(PAGE).map(Into::into).collect();
        ended = rest.peek().is_none();
        Some(pb::ListPage { machines, last: ended, complete: ended && complete })
    }))
}
