//! The payloads of `provider.v1` exactly as they are documented, in both directions.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use sutler_provider::*;
use sutler_rpc::{
    ClientSecurity, Remote,
    pb::base::{
        self as pb,
        provider_server::{Provider as Wire, ProviderServer},
    },
};
use tonic::{Request, Response, Status};

use crate::support::{client, options, plain, proof, request};

/// Remembers the last requests of each kind.
#[derive(Default, Clone)]
struct Recorder(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    create: Option<pb::CreateRequest>,
    reconfigure: Option<pb::ReconfigureRequest>,
    power: Option<pb::PowerRequest>,
    delete: Option<pb::DeleteRequest>,
    clone: Option<pb::CloneRequest>,
    prepare: Option<pb::ImagePrepareRequest>,
}

/// Calls that nobody makes here, in the form that the attribute gives to the others.
macro_rules! unserved {
    ($($name:ident($request:ident) -> $response:ident,)*) => {$(
        fn $name<'a, 'b>(
            &'a self,
            _: Request<pb::$request>,
        ) -> futures::future::BoxFuture<'b, Result<Response<pb::$response>, Status>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async { Err(Status::unimplemented("not here")) })
        }
    )*};
}

#[tonic::async_trait]
impl Wire for Recorder {
    async fn create(
        &self,
        request: Request<pb::CreateRequest>,
    ) -> Result<Response<pb::CreateResponse>, Status> {
        self.0.lock().unwrap().create = Some(request.into_inner());
        let task = Some(pb::TaskRef { id: "t-1".to_owned() });
        Ok(Response::new(pb::CreateResponse { id: "vm-1".to_owned(), task }))
    }

    async fn reconfigure(
        &self,
        request: Request<pb::ReconfigureRequest>,
    ) -> Result<Response<pb::TaskResponse>, Status> {
        self.0.lock().unwrap().reconfigure = Some(request.into_inner());
        Ok(Response::new(pb::TaskResponse { task: None }))
    }

    async fn power(
        &self,
        request: Request<pb::PowerRequest>,
    ) -> Result<Response<pb::TaskResponse>, Status> {
        self.0.lock().unwrap().power = Some(request.into_inner());
        Ok(Response::new(pb::TaskResponse { task: None }))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::TaskResponse>, Status> {
        self.0.lock().unwrap().delete = Some(request.into_inner());
        Err(Status::not_found("no such machine"))
    }

    async fn clone(
        &self,
        request: Request<pb::CloneRequest>,
    ) -> Result<Response<pb::CloneResponse>, Status> {
        self.0.lock().unwrap().clone = Some(request.into_inner());
        Ok(Response::new(pb::CloneResponse::default()))
    }

    async fn image_prepare(
        &self,
        request: Request<pb::ImagePrepareRequest>,
    ) -> Result<Response<pb::ImagePrepareResponse>, Status> {
        self.0.lock().unwrap().prepare = Some(request.into_inner());
        Ok(Response::new(pb::ImagePrepareResponse::default()))
    }

    unserved! {
        validate(ValidateRequest) -> ValidateResponse,
        hardware_upgrade(HardwareUpgradeRequest) -> TaskResponse,
        describe(DescribeRequest) -> DescribeResponse,
        task_status(TaskStatusRequest) -> TaskStatusResponse,
        snapshot_create(SnapshotCreateRequest) -> SnapshotCreateResponse,
        snapshot_delete(SnapshotDeleteRequest) -> TaskResponse,
        snapshot_revert(SnapshotRevertRequest) -> TaskResponse,
        get_capabilities(GetCapabilitiesRequest) -> GetCapabilitiesResponse,
        export_disk(ExportDiskRequest) -> ExportDiskResponse,
        import_disk(ImportDiskRequest) -> ImportDiskResponse,
        get_disk_info(GetDiskInfoRequest) -> GetDiskInfoResponse,
        list_v_ms(ListVMsRequest) -> ListVMsResponse,
    }
}

async fn recorder() -> (Recorder, Remote) {
    let recorder = Recorder::default();
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string().parse().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(socket);
    let service = ProviderServer::new(Clone::clone(&recorder));
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming),
    );
    (recorder, Remote::new(address, options(ClientSecurity::Plaintext)).unwrap())
}

const CLASS: &str = r#"{"CPU":2,"MemoryMiB":2048,"Firmware":"UEFI","DiskDefaults":{"Type":"thin","SizeGiB":20},"GuestToolsPolicy":"install","ExtraConfig":{"a.b":"c"},"PerformanceProfile":{"CpuHotAddEnabled":true},"SecurityProfile":null,"ResourceLimits":null}"#;
const IMAGE: &str = r#"{"TemplateName":"debian-13","Path":"","URL":"","Format":"template","Checksum":"","ChecksumType":""}"#;
const NETWORKS: &str = r#"[{"Name":"eth0","Portgroup":"lan","NetworkName":"lan","Bridge":"","VLAN":12,"Model":"","MacAddress":"","IPPolicy":"static","StaticIP":"10.1.2.3","Prefix":24,"Gateway":"","DNS":["10.0.0.1"],"PCISlotNumber":null}]"#;
const DISKS: &str = r#"[{"SizeGiB":5,"Type":"thin","Name":"data"}]"#;
const PLACEMENT: &str =
    r#"{"Datastore":"","StoragePod":"","Cluster":"","Folder":"","Host":"sim-1"}"#;

#[tokio::test]
async fn what_we_send_is_what_is_documented() {
    let (recorder, remote) = recorder().await;
    let accepted = remote.create(request("web")).await.unwrap();
    assert_eq!(accepted, Accepted { id: Some("vm-1".into()), task: Some("t-1".into()) });
    let sent = recorder.0.lock().unwrap().create.take().unwrap();
    let identity =
        pb::ObjectIdentity { uid: "web".into(), namespace: "default".into(), name: "web".into() };
    assert_eq!(
        sent,
        pb::CreateRequest {
            name: "web".to_owned(),
            user_data: b"#cloud-config\n".to_vec(),
            class_json: CLASS.to_owned(),
            image_json: IMAGE.to_owned(),
            networks_json: NETWORKS.to_owned(),
            disks_json: DISKS.to_owned(),
            placement_json: PLACEMENT.to_owned(),
            tags: vec!["blue".to_owned()],
            meta_data: Vec::new(),
            owner: Some(identity.clone()),
        }
    );
    let bare = CreateRequest {
        nics: Vec::new(),
        disks: Vec::new(),
        placement: Placement::default(),
        ..request("web")
    };
    remote.create(bare.clone()).await.unwrap();
    let sent = recorder.0.lock().unwrap().create.take().unwrap();
    let payloads = [sent.networks_json, sent.disks_json, sent.placement_json];
    assert_eq!(payloads, ["null", "null", ""]);
    let change = ReconfigureRequest {
        id: "vm-1".into(),
        proof: proof("web"),
        desired: CreateRequest { tags: Vec::new(), ..bare },
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    remote.reconfigure(change).await.unwrap();
    let sent = recorder.0.lock().unwrap().reconfigure.take().unwrap();
    assert_eq!(
        sent.desired_json,
        format!(
            r#"{{"Name":"web","Class":{CLASS},"Image":{IMAGE},"Networks":null,"Disks":null,"UserData":null,"MetaData":null,"Placement":null,"Tags":null}}"#
        )
    );
    assert_eq!(sent.owner, Some(identity.clone()));
    let op = PowerOp::Shutdown { timeout: std::time::Duration::from_secs(90) };
    remote.power(PowerRequest { id: "vm-1".into(), proof: proof("web"), op }).await.unwrap();
    let sent = recorder.0.lock().unwrap().power.take().unwrap();
    assert_eq!((sent.op, sent.graceful_timeout_seconds), (4, 90));
    assert_eq!(sent.owner, Some(identity.clone()));
    // A machine that is gone is what was asked for.
    let delete = DeleteRequest { id: "vm-1".into(), proof: proof("web") };
    assert_eq!(remote.delete(delete).await.unwrap(), Started::default());
    assert_eq!(recorder.0.lock().unwrap().delete.take().unwrap().owner, Some(identity));
}

#[tokio::test]
async fn copies_and_images_have_the_form_of_their_kinds() {
    let (recorder, remote) = recorder().await;
    let copy = CloneRequest {
        source: "vm-1".into(),
        snapshot: None,
        target: request("copy"),
        linked: true,
        customize: json!({"hostname": "c"}).as_object().unwrap().clone(),
    };
    remote.clone_machine(copy.clone()).await.unwrap();
    let sent = recorder.0.lock().unwrap().clone.take().unwrap();
    let class: Value = serde_json::from_str(&sent.class_json).unwrap();
    assert_eq!((&class["cpu"], &class["memory"]), (&json!(2), &json!("2048Mi")));
    assert_eq!(sent.customize_json, r#"{"hostname":"c"}"#);
    let from_snapshot = CloneRequest { snapshot: Some("s".into()), ..copy };
    let error = remote.clone_machine(from_snapshot).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let source = json!({"libvirt": {"url": "https://x/y", "format": "qcow2"}});
    let prepare = PrepareRequest {
        image: Image { source: source.as_object().unwrap().clone(), ..Image::default() },
        target: "debian".to_owned(),
        ..PrepareRequest::default()
    };
    remote.image_prepare(prepare).await.unwrap();
    let sent = recorder.0.lock().unwrap().prepare.take().unwrap();
    let spec: Value = serde_json::from_str(&sent.image_json).unwrap();
    assert_eq!(spec, json!({"source": source}));
}

#[tokio::test]
async fn what_the_wire_has_no_place_for_is_refused_and_named() {
    let (recorder, remote) = recorder().await;
    let mut wanted = request("web");
    wanted.class.as_mut().unwrap().gpu = Some((1, None, None));
    let error = remote.create(wanted).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Unsupported, Some("spec.resources.gpu")));
    assert!(recorder.0.lock().unwrap().create.is_none());
    let mut wanted = request("web");
    wanted.disks[0].kept = Some("disk-1".into());
    let error = remote.create(wanted).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Unsupported, Some("disks[0].kept")));
    assert!(recorder.0.lock().unwrap().create.is_none());
    let pause = PowerRequest { id: "vm-1".into(), proof: proof("web"), op: PowerOp::Pause };
    assert_eq!(remote.power(pause).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(!remote.has_extensions() || remote.hosts().await.is_err());
}

/// Remembers what reaches the contract.
#[derive(Default)]
struct Contract(Mutex<Vec<CreateRequest>>, Mutex<Option<PrepareRequest>>);

#[async_trait]
impl Provider for Contract {
    async fn validate(&self) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Denied, "a wrong password"))
    }

    async fn capabilities(&self) -> Result<Capabilities, Error> {
        Ok(Capabilities::default())
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted, Error> {
        self.0.lock().unwrap().push(request);
        Ok(Accepted { id: Some("vm-7".into()), task: None })
    }

    async fn delete(&self, _: DeleteRequest) -> Result<Started, Error> {
        Ok(Started::default())
    }

    async fn power(&self, _: PowerRequest) -> Result<Started, Error> {
        Ok(Started::default())
    }

    async fn reconfigure(&self, _: ReconfigureRequest) -> Result<Started, Error> {
        Ok(Started::default())
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>, Error> {
        let power = match id.0.as_str() {
            "on" => Power::On,
            "off" => Power::Off,
            "paused" => Power::Paused,
            "odd" => Power::Unknown,
            _ => return Ok(None),
        };
        Ok(Some(Machine::new(id.clone(), "web", power)))
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState, Error> {
        Ok(match id.0.as_str() {
            "running" => TaskState::Running { percent: Some(5), message: None },
            "done" => TaskState::Done { id: Some("vm-1".to_owned()) },
            "failed" => TaskState::Failed(Error::new(ErrorKind::Exhausted, "full")),
            _ => TaskState::Unknown,
        })
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared, Error> {
        *self.1.lock().unwrap() = Some(request);
        Ok(Prepared::default())
    }
}

#[tokio::test]
async fn what_managers_send_is_read_whatever_its_case() {
    let contract = Arc::new(Contract::default());
    let (server, _) = plain(contract.clone(), false).await;
    let mut client = client(&server).await;
    let upper = pb::CreateRequest {
        name: "web".to_owned(),
        user_data: b"#cloud-config\n".to_vec(),
        class_json: CLASS.to_owned(),
        image_json: IMAGE.to_owned(),
        networks_json: NETWORKS.to_owned(),
        disks_json: DISKS.to_owned(),
        placement_json: PLACEMENT.to_owned(),
        tags: vec!["blue".to_owned()],
        meta_data: Vec::new(),
        owner: Some(pb::ObjectIdentity {
            uid: "web".into(),
            namespace: "default".into(),
            name: "web".into(),
        }),
    };
    let lower = pb::CreateRequest {
        class_json: recased(CLASS),
        image_json: recased(IMAGE),
        networks_json: recased(NETWORKS),
        disks_json: recased(DISKS),
        placement_json: recased(PLACEMENT),
        ..upper.clone()
    };
    for message in [upper.clone(), lower] {
        let answer = client.create(message).await.unwrap().into_inner();
        assert_eq!((answer.id.as_str(), answer.task), ("vm-7", None));
    }
    let seen = std::mem::take(&mut *contract.0.lock().unwrap());
    assert_eq!(seen[0], seen[1]);
    let mut want = request("web");
    want.owner.installation = "provider.v1".to_owned();
    assert_eq!(seen[0], want);
    let empty = pb::CreateRequest {
        name: "x".to_owned(),
        networks_json: "null".into(),
        ..Default::default()
    };
    client.create(empty.clone()).await.unwrap();
    client.create(pb::CreateRequest { owner: None, ..empty }).await.unwrap();
    let seen = std::mem::take(&mut *contract.0.lock().unwrap());
    assert_eq!((&seen[0].class, seen[0].nics.len()), (&None, 0));
    assert_eq!(seen[0].owner, seen[1].owner, "without a name, machines of one name are one");
    let wrong = pb::CreateRequest { disks_json: "[{\"SizeGiB\":\"x\"}]".into(), ..upper };
    let status = client.create(wrong).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("disks_json[0].SizeGiB"), "{}", status.message());
    let image = r#"{"Source":{"proxmox":{"templateID":9000,"storage":"ssd"}}}"#;
    let prepare = pb::ImagePrepareRequest {
        image_json: image.into(),
        target_name: "t".into(),
        storage_hint: String::new(),
    };
    client.image_prepare(prepare).await.unwrap();
    let seen = contract.1.lock().unwrap().take().unwrap();
    assert_eq!(seen.image.template.as_deref(), Some("9000"));
}

#[tokio::test]
async fn what_managers_read_is_what_they_take() {
    let (server, _) = plain(Arc::new(Contract::default()), false).await;
    let mut client = client(&server).await;
    let valid = client.validate(pb::ValidateRequest {}).await.unwrap().into_inner();
    assert_eq!((valid.ok, valid.message.as_str()), (false, "a wrong password"));
    for (id, want) in [("on", "On"), ("off", "Off"), ("paused", "On"), ("odd", "")] {
        let request = pb::DescribeRequest { id: id.to_owned(), owner: None };
        let answer = client.describe(request).await.unwrap().into_inner();
        assert_eq!((answer.exists, answer.power_state.as_str()), (true, want));
        let raw: Value = serde_json::from_str(&answer.provider_raw_json).unwrap();
        assert_eq!(raw["name"], "web");
    }
    let request = pb::DescribeRequest { id: "none".to_owned(), owner: None };
    assert_eq!(client.describe(request).await.unwrap().into_inner(), Default::default());
    let mut task = async |id: &str| {
        let task = Some(pb::TaskRef { id: id.to_owned() });
        client.task_status(pb::TaskStatusRequest { task }).await.map(Response::into_inner)
    };
    let status = |done, error: &str| pb::TaskStatusResponse { done, error: error.to_owned() };
    assert_eq!(task("running").await.unwrap(), status(false, ""));
    assert_eq!(task("done").await.unwrap(), status(true, ""));
    assert_eq!(task("failed").await.unwrap(), status(true, "full"));
    assert_eq!(task("lost").await.unwrap_err().code(), tonic::Code::NotFound);
}

/// The same JSON with keys in lower case.
fn recased(text: &str) -> String {
    fn walk(value: Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| match key.as_str() {
                        "ExtraConfig" => (key.to_lowercase(), value),
                        "CpuHotAddEnabled" => ("cpuHotAddEnabled".to_owned(), walk(value)),
                        _ => (key.to_lowercase(), walk(value)),
                    })
                    .collect(),
            ),
            Value::Array(list) => Value::Array(list.into_iter().map(walk).collect()),
            other => other,
        }
    }
    walk(serde_json::from_str(text).unwrap()).to_string()
}
