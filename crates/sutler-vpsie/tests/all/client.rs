//! The way to VPSie and back.

use std::time::Duration;

use serde_json::json;
use sutler_provider::{Credentials, ErrorKind, Provider as _};
use sutler_vpsie::{
    client::{Action, NewVm},
    fake::{Fault, Planned, Shape, When},
};

use crate::lab::{BOTH, CLUSTER, Lab};

fn vm() -> NewVm {
    NewVm {
        hostname: "web".to_owned(),
        plan: "plan-1".to_owned(),
        image: "debian-13".to_owned(),
        datacenter: "dc-1".to_owned(),
        ..NewVm::default()
    }
}

#[tokio::test]
async fn a_call_without_an_answer_ends_after_half_a_minute() {
    for dialect in BOTH {
        for (when, made) in [(When::Before, 0), (When::After, 1)] {
            let lab = Lab::new(dialect).await;
            let api = lab.api(lab.fake.credentials());
            lab.fake.plan(Planned::once("POST", "/vm", Fault::Hang(when)));
            let call = tokio::spawn({
                let api = api.clone();
                async move { api.create_vm(&vm()).await }
            });
            lab.fake.settled(1).await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(31)).await;
            let error = call.await.unwrap().unwrap_err();
            tokio::time::resume();
            assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
            lab.fake.tick(2);
            assert_eq!(lab.fake.vms().len(), made);
        }
    }
}

#[tokio::test]
async fn d7_a_list_without_an_answer_ends_after_half_a_minute() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        lab.fake.plan(Planned::once("GET", "", Fault::Hang(When::Before)).always());
        let vpsie = lab.vpsie.clone();
        let list = tokio::spawn(async move { vpsie.list().await });
        lab.fake.settled(1).await;
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let error = list.await.unwrap().unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
        tokio::time::resume();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn a_look_without_an_answer_has_changed_nothing() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.credentials());
        for (fault, kind) in [
            (Fault::Cut(When::Before), ErrorKind::Unavailable),
            (Fault::Status(When::Before, 503, "busy".to_owned()), ErrorKind::Unavailable),
            (Fault::Malformed, ErrorKind::Internal),
            (Fault::Flood((10 << 20) + 1), ErrorKind::Internal),
            (Fault::Body(json!({"data": {"no": "list"}})), ErrorKind::Internal),
            (Fault::Body(json!({})), ErrorKind::Internal),
        ] {
            let what = format!("{dialect:?}: {:.80}", format!("{fault:?}"));
            lab.fake.plan(Planned::once("GET", "/vm", fault));
            assert_eq!(api.list_vms().await.unwrap_err().kind(), kind, "{what}");
        }
        assert!(api.list_vms().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_change_whose_answer_cannot_be_read_may_have_been_made() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.credentials());
        lab.fake.plan(Planned::once("POST", "/vm", Fault::Malformed));
        let error = api.create_vm(&vm()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
        lab.fake.tick(2);
        assert_eq!(lab.fake.vms().len(), 1);
    }
}

#[tokio::test]
async fn errors_name_the_call_and_the_request() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.credentials());
        let fault = Fault::Status(When::Before, 422, "hostname is taken".to_owned());
        lab.fake.plan(Planned::once("POST", "/vm", fault));
        let error = api.create_vm(&vm()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        for part in ["POST /", "422", "hostname is taken", "request ID fake-request"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}

#[tokio::test]
async fn a_token_that_is_turned_away_is_replaced_once_for_a_change_too() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.login());
        api.list_vms().await.unwrap();
        lab.fake.revoke();
        api.create_vm(&vm()).await.unwrap();
        lab.fake.tick(2);
        assert_eq!(lab.fake.vms().len(), 1, "turned away, nothing was made");
        // One that is turned away again is not replaced for ever.
        let denied = Fault::Status(When::Before, 401, "no".to_owned());
        lab.fake.plan(Planned::once("POST", "/vm", denied).always());
        lab.fake.forget_requests();
        let error = api.create_vm(&vm()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(lab.fake.requests().len(), 3, "a call, a login, and a call");
    }
}

#[tokio::test]
async fn a_401_in_the_body_of_a_good_answer_proves_nothing_about_a_change() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.login());
        api.list_vms().await.unwrap();
        let fault = || Fault::Envelope { code: Some(401), message: "jwt expired".to_owned() };
        lab.fake.plan(Planned::once("POST", "/vm", fault()));
        lab.fake.forget_requests();
        assert_eq!(api.create_vm(&vm()).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(lab.fake.count("POST", "/vm"), 1, "it was sent again");
        lab.fake.plan(Planned::once("GET", "/vm", fault()));
        assert!(api.list_vms().await.is_ok(), "a look can be taken again");
    }
}

#[tokio::test]
async fn what_is_forbidden_is_no_matter_of_the_token() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let api = lab.api(lab.fake.login());
        let forbidden = Fault::Status(When::Before, 403, "no".to_owned());
        lab.fake.plan(Planned::once("GET", "/vm", forbidden));
        assert_eq!(api.list_vms().await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(lab.fake.requests().len(), 2, "a login and a call");
    }
}

#[tokio::test]
async fn wrong_logins_are_denied_and_do_not_show() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let pairs = [("clientId", b"me".to_vec()), ("clientSecret", b"hunter2".to_vec())];
        let wrong: Credentials = pairs.into_iter().collect();
        let error = lab.api(wrong).list_vms().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
        assert_eq!(lab.fake.requests().len(), 1);
        // Whether VPSie is well has nothing to do with who we are.
        let down = Fault::Status(When::Before, 503, "down".to_owned());
        lab.fake.plan(Planned::once("POST", "/auth/from/api", down));
        let error = lab.api(lab.fake.login()).create_vm(&vm()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing was sent: {error}");
    }
}

#[tokio::test]
async fn every_call_is_one_that_the_dialect_has() {
    for dialect in BOTH {
        let lab = Lab::with(Shape { auto: true, ..Shape::new(dialect) }, json!({})).await;
        let api = lab.api(lab.fake.credentials());
        lab.fake.add_cluster(CLUSTER, "prod", 1);
        api.create_vm(&vm()).await.unwrap();
        lab.fake.tick(2);
        let [made] = lab.fake.vms().try_into().unwrap();
        let id = match dialect {
            sutler_vpsie::Dialect::Govpsie => made.identifier,
            sutler_vpsie::Dialect::V2 => made.id.to_string(),
        };
        assert_eq!(api.get_vm(&id).await.unwrap().unwrap().hostname.as_deref(), Some("web"));
        api.act(&id, Action::Restart).await.unwrap();
        api.act(&id, Action::Stop).await.unwrap();
        api.create_k8s_node_group(CLUSTER, "pool", 2).await.unwrap();
        let group = api.list_k8s_node_groups(CLUSTER).await.unwrap().remove(0);
        api.add_k8s_node(CLUSTER, group.id.unwrap()).await.unwrap();
        lab.fake.tick(2);
        assert_eq!(api.list_k8s_nodes(CLUSTER).await.unwrap().unwrap().len(), 2);
        let worker = lab.fake.nodes(CLUSTER).pop().unwrap().machine.identifier;
        assert!(api.delete_k8s_node(CLUSTER, &worker).await.unwrap());
        lab.fake.tick(2);
        assert!(!api.delete_k8s_node(CLUSTER, &worker).await.unwrap());
        assert_eq!(api.list_k8s_nodes("nowhere").await.unwrap(), None);
        if dialect == sutler_vpsie::Dialect::Govpsie {
            api.resize_vm(&id, 2, 2048).await.unwrap();
            assert_eq!(lab.fake.vms()[0].ram, 2048);
        } else {
            assert_eq!(api.list_offerings().await.unwrap().len(), 3);
            assert_eq!(api.list_images().await.unwrap().len(), 2);
        }
        assert!(api.delete_vm(&id).await.unwrap());
        lab.fake.tick(2);
        assert!(!api.delete_vm(&id).await.unwrap());
        assert_eq!(api.get_vm(&id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_stand_in_is_strict() {
    for dialect in BOTH {
        let lab = Lab::new(dialect).await;
        let (vm, key, value) = match dialect {
            sutler_vpsie::Dialect::Govpsie => ("/api/v2/vm", "vpsie-auth", "fake-static-token"),
            sutler_vpsie::Dialect::V2 => ("/v2/vm", "authorization", "Bearer fake-static-token"),
        };
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}{vm}", lab.fake.endpoint());
        let status = async |request: reqwest::RequestBuilder| {
            request.send().await.unwrap().status().as_u16()
        };
        assert_eq!(status(http.get(&url).header(key, value)).await, 200);
        assert_eq!(status(http.get(&url)).await, 401);
        assert_eq!(status(http.get(&url).header("x-token", value)).await, 401);
        assert_eq!(status(http.put(&url).header(key, value)).await, 405);
        assert_eq!(status(http.get(format!("{url}s")).header(key, value)).await, 404);
        let post = || http.post(&url).header(key, value);
        assert_eq!(status(post().body("{}")).await, 415);
        let typed = || post().header("content-type", "application/json");
        assert_eq!(status(typed().body("{}")).await, 400);
        assert_eq!(status(typed().body("{")).await, 400);
    }
}
