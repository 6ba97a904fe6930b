//! What the vendor's autoscaler does wrong at this end, by the number of each defect where it has one, and
//! that it is not so here.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use serde_json::json;
use sutler_provider::{Credentials, DeleteRequest, ErrorKind, Provider as _, SystemClock};
use sutler_vpsie::{
    Dialect, Settings, Vpsie,
    client::NewVm,
    fake::{Fault, Planned, Shape, When},
};

use crate::lab::{BOTH, CLUSTER, Lab, plain, proof, worker};

const LOGIN: &str = "/auth/from/api";

fn vm_list(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Govpsie => "/api/v2/vm",
        Dialect::V2 => "/v2/vm",
    }
}

/// Managed nodes are in no list of machines.
#[tokio::test]
async fn defect_05_workers_are_listed_though_no_list_of_machines_has_them() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        lab.fake.add_node(CLUSTER, None, "a-k8s-worker");
        assert_eq!(lab.machines().await.len(), 1);
        assert!(lab.fake.vms().is_empty());
    }
}

/// A request whose answer is lost is sent a second time.
#[tokio::test]
async fn defect_06_a_lost_answer_is_not_sent_again() {
    for dialect in BOTH {
        for when in [When::Before, When::After] {
            for fault in [Fault::Cut(when), Fault::Status(when, 502, "bad gateway".to_owned())] {
                let lab = Lab::new(dialect).await;
                lab.fake.add_cluster(CLUSTER, "prod", 1);
                lab.fake.add_group(CLUSTER, "pool", 1);
                lab.fake.plan(Planned::once("POST", "/add/slave/group/", fault.clone()));
                let error = lab.vpsie.create(worker("a", "pool", None)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Indeterminate, "{fault:?}: {error}");
                assert_eq!(lab.fake.count("POST", "/add/slave/group/"), 1);
                lab.fake.tick(2);
                let made = usize::from(when == When::After);
                assert_eq!(lab.machines().await.len(), made, "{fault:?}");
            }
        }
    }
}

/// Nothing found, a cluster that is not found and a match without an ID all count as deleted.
#[tokio::test]
async fn defect_08_what_cannot_be_looked_up_is_not_deleted() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        lab.fake.add_node(CLUSTER, None, "a-k8s-worker");
        let id = lab.machines().await.remove(0).id;
        let request = DeleteRequest { id: id.clone(), proof: proof("a", "a") };
        // A cluster that is there, and is not found for a moment.
        let not_found = Fault::Status(When::Before, 404, "Cluster not found".to_owned());
        lab.fake.plan(Planned::once("GET", "/cluster/byId/", not_found).always());
        assert!(lab.vpsie.describe(&id).await.is_err());
        assert!(lab.vpsie.delete(request.clone()).await.is_err());
        assert!(lab.vpsie.list().await.is_err());
        lab.fake.calm();
        // Another server, or a wrong path.
        lab.fake.plan(Planned::once("GET", "/cluster/byId/", Fault::Elsewhere).always());
        assert!(lab.vpsie.describe(&id).await.is_err());
        lab.fake.calm();
        // A worker that has no ID for a moment.
        let nameless = match dialect {
            Dialect::Govpsie => json!({"data": {"nodes": [{"hostname": "a-k8s-worker"}]}}),
            Dialect::V2 => json!({"data": {"slaves": [{"hostname": "a-k8s-worker"}]}}),
        };
        lab.fake.plan(Planned::once("GET", "/cluster/byId/", Fault::Body(nameless)).always());
        assert!(lab.vpsie.describe(&id).await.is_err());
        assert!(!lab.vpsie.list().await.unwrap().complete);
        lab.fake.calm();
        // An answer about nothing.
        for empty in [json!({}), json!({"data": null}), json!({"data": {}})] {
            lab.fake.plan(Planned::once("GET", "/cluster/byId/", Fault::Body(empty.clone())));
            assert!(lab.vpsie.describe(&id).await.is_err(), "{dialect:?}: {empty}");
        }
        assert_eq!(lab.fake.count("DELETE", ""), 0);
        assert!(lab.vpsie.describe(&id).await.unwrap().is_some());
        // Gone with its cluster it is when the list of clusters says so.
        lab.fake.remove_cluster(CLUSTER);
        assert!(lab.vpsie.describe(&id).await.unwrap().is_none());
    }
}

/// Masters are searched too, and what is found is deleted.
#[tokio::test]
async fn defect_08_masters_are_never_shown_and_never_deleted() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_cluster(CLUSTER, "a", 2);
        assert!(lab.machines().await.is_empty());
        for master in lab.fake.nodes(CLUSTER) {
            let key = match dialect {
                Dialect::Govpsie => master.machine.id.to_string(),
                Dialect::V2 => master.machine.identifier,
            };
            let id = format!("node.{CLUSTER}.{key}").as_str().into();
            let request = DeleteRequest { id, proof: proof("a", "a") };
            let error = lab.vpsie.delete(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        assert_eq!(lab.fake.count("DELETE", ""), 0);
    }
}

/// What is found without an ID counts as deleted.
#[tokio::test]
async fn defect_08_an_answer_about_nothing_is_no_absence_of_a_machine() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_vm("web");
        let id = lab.machines().await.remove(0).id;
        let path = format!("{}/{id}", vm_list(dialect));
        for empty in [json!({}), json!({"data": null}), json!({"data": {"vmData": {}}})] {
            lab.fake.plan(Planned::once("GET", &path, Fault::Body(empty.clone())));
            assert!(lab.vpsie.describe(&id).await.is_err(), "{dialect:?}: {empty}");
        }
        lab.fake.plan(Planned::once("GET", &path, Fault::Elsewhere));
        assert!(lab.vpsie.describe(&id).await.is_err());
        assert!(lab.vpsie.describe(&id).await.unwrap().is_some());
    }
}

/// `n-1` takes `n-10`.
#[tokio::test]
async fn defect_09_a_name_that_only_begins_alike_proves_nothing() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        lab.fake.add_node(CLUSTER, None, "n-10-k8s-worker");
        let id = lab.machines().await.remove(0).id;
        let request = DeleteRequest { id, proof: proof("n-1", "n-1") };
        let error = lab.vpsie.delete(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
}

/// A limit of the account is tried again and again.
#[tokio::test]
async fn defect_12_a_limit_of_the_account_is_told_as_such() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let message = "Request exceeds the allowed limit of your plan".to_owned();
        for fault in [
            Fault::Envelope { code: None, message: message.clone() },
            Fault::Status(When::Before, 400, message.clone()),
        ] {
            lab.fake.plan(Planned::once("POST", vm_list(dialect), fault));
            let error = lab.vpsie.create(plain("web")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        }
        assert_eq!(lab.fake.count("POST", vm_list(dialect)), 2, "it was sent again");
    }
}

/// Groups are made until sizes run out.
#[tokio::test]
async fn defect_19_a_size_that_is_taken_names_the_group_that_has_it() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        lab.fake.add_group(CLUSTER, "first", 1);
        let error = lab.vpsie.create(worker("a", "second", Some("1"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("first"), "{error}");
        assert_eq!(lab.fake.groups(CLUSTER).len(), 1);
    }
}

/// Starting takes an answer from VPSie.
#[tokio::test]
async fn defect_22_nothing_is_sent_until_something_is_asked() {
    for dialect in BOTH {
        let credentials: Credentials = [("token", b"t".to_vec())].into_iter().collect();
        let settings = Settings { dialect, ..Settings::default() };
        // Nobody listens at this port.
        let endpoint = "http://127.0.0.1:1";
        let clock = Arc::new(SystemClock);
        let vpsie = Vpsie::new(endpoint, &credentials, false, settings, clock).unwrap();
        vpsie.capabilities().await.unwrap();
        let error = vpsie.validate().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(vpsie.list().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}

/// A token that is refused is answered by logging in with nothing.
#[tokio::test]
async fn defect_24_a_static_token_that_is_refused_is_denied_and_nobody_logs_in() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let wrong: Credentials = [("token", b"wrong".to_vec())].into_iter().collect();
        let error = lab.api(wrong).list_vms().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(lab.fake.count("POST", LOGIN), 0);
        assert_eq!(lab.fake.requests().len(), 1, "it was sent again");
    }
}

/// Everybody logs in for themselves.
#[tokio::test]
async fn defect_24_all_who_need_a_token_share_one() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.login());
        for logins in 1..=3 {
            for answer in join_all((0..20).map(|_| api.list_vms())).await {
                answer.unwrap();
            }
            assert_eq!(lab.fake.count("POST", LOGIN), logins);
            match logins {
                // It is turned away, and then it is old.
                1 => lab.fake.revoke(),
                _ => lab.clock.advance(Duration::from_secs(3600 - 299)),
            }
        }
    }
}

/// Only the first page of a list is read.
#[tokio::test]
async fn defect_first_page_only_is_not_the_list() {
    for dialect in BOTH {
        let lab = Lab::with(Shape { page_size: 2, ..Shape::new(dialect) }, json!({})).await;
        for number in 0..7 {
            lab.fake.add_vm(&format!("vm-{number}"));
        }
        assert_eq!(lab.machines().await.len(), 7);
        // A page that fails fails the list, whatever has come before.
        let down = Fault::Status(When::Before, 500, "down".to_owned());
        lab.fake.plan(Planned::once("GET", vm_list(dialect), down).after(2));
        assert_eq!(lab.vpsie.list().await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(lab.machines().await.len(), 7);
    }
}

/// A machine is deleted by a number that the API does not take.
#[tokio::test]
async fn defect_int_id_delete_is_by_what_the_dialect_takes() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.add_vm("web");
        let [vm] = lab.fake.vms().try_into().unwrap();
        let id = lab.machines().await.remove(0).id;
        let request = DeleteRequest { id, proof: proof("web", "web") };
        lab.vpsie.delete(request).await.unwrap();
        let sent = lab.fake.requests().into_iter().find(|one| one.method == "DELETE").unwrap();
        match dialect {
            Dialect::Govpsie => {
                assert_eq!(sent.path, "/api/v2/vm");
                assert_eq!(sent.body["vmIdentifier"], vm.identifier);
            }
            Dialect::V2 => assert_eq!(sent.path, format!("/v2/vm/{}", vm.id)),
        }
        lab.fake.tick(1);
        assert!(lab.fake.vms().is_empty());
    }
}

/// An error that comes with 200 is none, for machines.
#[tokio::test]
async fn defect_an_error_in_a_good_answer_is_an_error_on_every_call() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.credentials());
        let fault = || Fault::Envelope { code: None, message: "no".to_owned() };
        lab.fake.plan(Planned { method: None, ..Planned::once("GET", "", fault()).always() });
        let vm = NewVm { hostname: "web".to_owned(), ..NewVm::default() };
        let mut failed = vec![
            api.list_vms().await.map(drop),
            api.get_vm("7").await.map(drop),
            api.create_vm(&vm).await,
            api.delete_vm("7").await.map(drop),
            api.act("7", sutler_vpsie::client::Action::Start).await,
            api.list_k8s_clusters().await.map(drop),
            api.list_k8s_nodes("c").await.map(drop),
            api.list_k8s_node_groups("c").await.map(drop),
            api.create_k8s_node_group("c", "g", 1).await,
            api.add_k8s_node("c", 1).await,
            api.delete_k8s_node("c", "n").await.map(drop),
        ];
        failed.extend(match dialect {
            Dialect::Govpsie => vec![
                api.list_pending().await.map(drop),
                api.list_all_nodes().await.map(drop),
                api.resize_vm("7", 1, 512).await,
                api.reduce_k8s_node_group("c", 1).await,
                api.list_snapshots("7").await.map(drop),
                api.create_snapshot("7", "s", "").await,
                api.rollback_snapshot("s").await,
                api.delete_snapshot("s").await.map(drop),
            ],
            Dialect::V2 => {
                vec![api.list_offerings().await.map(drop), api.list_images().await.map(drop)]
            }
        });
        let count = failed.len();
        for answer in failed {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Failed, "{dialect:?}");
        }
        assert_eq!(lab.fake.requests().len(), count, "each was one call");
    }
}

/// How long to wait is said, and not heard.
#[tokio::test]
async fn defect_retry_after_is_obeyed() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        for (retry_after, seconds) in [("17", 17), ("Mon, 21 Sep 2026 14:13:50 GMT", 30)] {
            let fault = Fault::TooMany { retry_after: retry_after.to_owned() };
            lab.fake.plan(Planned::once("POST", vm_list(dialect), fault));
            let error = lab.vpsie.create(plain("web")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(error.pause(), Some(Duration::from_secs(seconds)), "{retry_after}");
        }
        assert_eq!(lab.fake.count("POST", vm_list(dialect)), 2, "it was sent again at once");
    }
}
