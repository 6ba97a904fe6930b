//! Errors of every kind, from the platform to the caller.

use std::sync::Arc;

use sutler_provider::{DeleteRequest, ErrorKind, Provider as _};
use sutler_sim::{Call, Fault, Planned, Settings};

use crate::support::{make, plain, proof, request, sim};

#[tokio::test]
async fn every_kind_arrives_as_it_was_sent() {
    for extensions in [true, false] {
        let behind = sim(Settings::default());
        let (_server, there) = plain(Arc::new(behind.clone()), extensions).await;
        for kind in ErrorKind::ALL {
            // Over the base service, describing goes before deleting.
            for call in [Call::Create, Call::Describe, Call::List] {
                if kind == ErrorKind::NotFound && call == Call::Describe && !extensions {
                    continue;
                }
                behind.plan(Planned::on(call, Fault::Refuse(kind)));
                let error = match call {
                    Call::Create => there.create(request("web")).await.unwrap_err(),
                    Call::Describe => there.describe(&"vm-1".into()).await.unwrap_err(),
                    _ => there.list().await.unwrap_err(),
                };
                assert_eq!(error.kind(), kind, "{call:?} with extensions: {extensions}");
                behind.calm();
            }
        }
    }
}

#[tokio::test]
async fn an_invalid_field_is_named() {
    let (_server, there) = plain(Arc::new(sim(Settings::default())), true).await;
    let mut wrong = request("web");
    wrong.disks[0].size_gib = 0;
    let error = there.create(wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.field(), Some("spec.disks[data].sizeGiB"));
}

#[tokio::test]
async fn a_change_that_was_applied_and_answered_with_an_error_is_open() {
    let behind = sim(Settings::default());
    let (_server, there) = plain(Arc::new(behind.clone()), true).await;
    let id = make(&there, "web").await;
    behind.plan(Planned::on(Call::Delete, Fault::ErrorAfter));
    let error = there.delete(DeleteRequest { id, proof: proof("web") }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(behind.is_empty());
}
