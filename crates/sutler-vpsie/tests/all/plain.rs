//! Plain machines.

use serde_json::json;
use sutler_provider::{
    Accepted, CreateRequest, DeleteRequest, ErrorKind, Placement, Power, PowerOp, PowerRequest,
    Provider as _, SnapshotRequest, TaskState,
};
use sutler_vpsie::{
    Dialect,
    fake::{Fault, Planned, Shape, When},
    raw,
};

use crate::lab::{BOTH, CLUSTER, Lab, plain, proof};

#[tokio::test]
async fn a_machine_is_accepted_without_an_id_and_shows_under_its_name() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let mut request = plain("web-abcde");
        request.tags = vec!["blue".to_owned()];
        request.user_data = Some(b"#cloud-config".to_vec());
        assert_eq!(lab.vpsie.create(request).await.unwrap(), Accepted::default());
        assert!(lab.machines().await.is_empty());
        lab.fake.tick(2);
        let machines = lab.machines().await;
        let [machine] = machines.as_slice() else { panic!("{machines:?}") };
        let [made] = lab.fake.vms().try_into().unwrap();
        assert_eq!((machine.name.as_str(), machine.power), ("web-abcde", Power::On));
        assert_eq!(machine.raw[raw::ID], made.id.to_string());
        assert_eq!(machine.raw[raw::IDENTIFIER], made.identifier);
        assert!(machine.raw[raw::NOTES].contains("uid-web-abcde-1"));
        assert_eq!((machine.token.as_ref(), machine.group.as_ref()), (None, None));
        assert_eq!(machine.created_at.map(|at| at.as_second()), Some(made.created.as_second()));
        assert_eq!(made.tags, ["blue"]);
        let (data, status) = match dialect {
            Dialect::Govpsie => ("#cloud-config", None),
            Dialect::V2 => ("I2Nsb3VkLWNvbmZpZw==", Some("running")),
        };
        assert_eq!(made.user_data.as_deref(), Some(data));
        assert_eq!(machine.raw.get(raw::STATUS).map(String::as_str), status);
    }
}

#[tokio::test]
async fn a_machine_that_is_being_made_is_not_asked_for_again() {
    // The other dialect does not tell what is being made.
    let lab = Lab::new(Dialect::Govpsie).await;
    lab.fake.plan(Planned::once("POST", "/api/v2/vm", Fault::Cut(When::After)));
    let error = lab.vpsie.create(plain("web")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(lab.vpsie.create(plain("web")).await.unwrap(), Accepted::default());
    assert_eq!(lab.fake.count("POST", "/api/v2/vm"), 1);
    lab.fake.tick(5);
    assert_eq!(lab.machines().await.len(), 1);
}

#[tokio::test]
async fn what_a_machine_cannot_have_is_refused_by_name_and_nothing_is_sent() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let region =
            |region: &str| Placement { region: Some(region.to_owned()), ..Placement::default() };
        let host = Placement { host: Some("h".to_owned()), ..Placement::default() };
        for (request, field) in [
            (CreateRequest { class: None, ..plain("a") }, "spec.classRef"),
            (CreateRequest { image: None, ..plain("a") }, "spec.imageRef"),
            (CreateRequest { ignition: true, ..plain("a") }, "spec.userData.ignition"),
            (CreateRequest { meta_data: Some(vec![1]), ..plain("a") }, "spec.metaData"),
            (CreateRequest { user_data: Some(vec![255]), ..plain("a") }, "spec.userData"),
            (CreateRequest { placement: host, ..plain("a") }, "spec.placement.host"),
        ] {
            let error = lab.vpsie.create(request).await.unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some(field)));
        }
        assert_eq!(lab.fake.count("POST", ""), 0);
        // What only VPSie knows to be wrong, it refuses itself.
        let request = CreateRequest { placement: region("mars"), ..plain("a") };
        assert_eq!(lab.vpsie.create(request).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn what_is_to_be_off_is_switched_off_when_it_shows() {
    for dialect in BOTH {
        let lab = Lab::with(Shape { auto: true, ..Shape::new(dialect) }, json!({})).await;
        lab.fake.add_vm("neighbour");
        let request = CreateRequest { power_on: false, ..plain("web") };
        lab.vpsie.create(request).await.unwrap();
        loop {
            let machines = lab.machines().await;
            if let Some(web) = machines.iter().find(|one| one.name == "web" && !one.busy) {
                assert_eq!(web.power, Power::Off);
                break;
            }
            tokio::task::yield_now().await;
        }
        let neighbour = lab.fake.vms().into_iter().find(|one| one.hostname == "neighbour");
        assert!(neighbour.unwrap().on);
    }
}

#[tokio::test]
async fn power_changes_end_when_they_can_be_seen() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_vm("web");
        let id = lab.machines().await.remove(0).id;
        let power = |op| PowerRequest { id: id.clone(), proof: proof("web", "web"), op };
        let task = lab.vpsie.power(power(PowerOp::Off)).await.unwrap().task.unwrap();
        assert!(matches!(lab.vpsie.task(&task).await.unwrap(), TaskState::Running { .. }));
        lab.fake.tick(1);
        assert_eq!(lab.vpsie.task(&task).await.unwrap(), TaskState::Done { id: None });
        // Its end stays what it was.
        lab.vpsie.power(power(PowerOp::On)).await.unwrap();
        lab.fake.tick(1);
        assert_eq!(lab.vpsie.task(&task).await.unwrap(), TaskState::Done { id: None });
        assert_eq!(lab.vpsie.power(power(PowerOp::On)).await.unwrap().task, None);
        let strange = PowerRequest { proof: proof("web", "other"), ..power(PowerOp::Off) };
        assert_eq!(lab.vpsie.power(strange).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[tokio::test]
async fn a_machine_that_has_to_be_off_first_is_switched_off_and_deleted() {
    for dialect in BOTH {
        let shape = Shape { delete_only_off: true, changed_after: 0, ..Shape::new(dialect) };
        let lab = Lab::with(shape, json!({})).await;
        lab.fake.add_vm("web");
        let id = lab.machines().await.remove(0).id;
        let request = DeleteRequest { id, proof: proof("web", "web") };
        let task = lab.vpsie.delete(request).await.unwrap().task.unwrap();
        lab.fake.tick(1);
        assert_eq!(lab.vpsie.task(&task).await.unwrap(), TaskState::Done { id: None });
    }
}

#[tokio::test]
async fn notes_tell_whose_a_machine_is_as_long_as_they_are_there() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.vpsie.create(plain("web")).await.unwrap();
        lab.fake.tick(2);
        let id = lab.machines().await.remove(0).id;
        let thief = DeleteRequest { id: id.clone(), proof: proof("thief", "web") };
        assert_eq!(lab.vpsie.delete(thief).await.unwrap_err().kind(), ErrorKind::Conflict);
        let owner = DeleteRequest { id, proof: proof("web", "web") };
        assert!(lab.vpsie.delete(owner).await.unwrap().task.is_some());
    }
}

#[tokio::test]
async fn a_machine_that_is_a_node_is_listed_once() {
    let lab = Lab::new(Dialect::Govpsie).await;
    lab.fake.add_cluster(CLUSTER, "prod", 1);
    lab.fake.add_node(CLUSTER, None, "a-k8s-worker");
    lab.fake.add_vm("web");
    // Here the list of machines has nodes too, masters among them.
    lab.fake.list_nodes_as_vms();
    let mut names: Vec<String> = lab.machines().await.into_iter().map(|one| one.name).collect();
    names.sort();
    assert_eq!(names, ["a-k8s-worker", "web"]);
}

#[tokio::test]
async fn a_snapshot_that_is_under_way_is_not_taken_twice() {
    let lab = Lab::new(Dialect::Govpsie).await;
    lab.fake.add_vm("web");
    let id = lab.machines().await.remove(0).id;
    let request = SnapshotRequest {
        id: id.clone(),
        proof: proof("web", "web"),
        name: "before".to_owned(),
        description: None,
        memory: false,
        quiesce: false,
    };
    let first = lab.vpsie.snapshot_create(request.clone()).await.unwrap();
    let second = lab.vpsie.snapshot_create(request.clone()).await.unwrap();
    assert!(first.task.is_some() && second.task.is_some());
    assert_eq!(lab.fake.count("POST", "/snapshot/add"), 1);
    lab.fake.tick(1);
    let TaskState::Done { id: Some(made) } = lab.vpsie.task(&second.task.unwrap()).await.unwrap()
    else {
        panic!("it has not ended")
    };
    let again = lab.vpsie.snapshot_create(request.clone()).await.unwrap();
    assert_eq!(again.id.unwrap().0, made);
    let quiesced = SnapshotRequest { quiesce: true, ..request };
    let error = lab.vpsie.snapshot_create(quiesced).await.unwrap_err();
    assert_eq!(error.field(), Some("spec.snapshotConfig.quiesce"));
}
