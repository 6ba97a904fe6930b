//! Under `provider.v1` alone: what is known of the platform, and whose machines are touched.

use std::sync::Arc;

use sutler_provider::*;
use sutler_rpc::{ClientSecurity, pb::base as pb};
use sutler_sim::{Feature, Foreign, Settings, Tamper};

use crate::support::{client, make, options, owner, plain, proof, remote, request, sim};

#[tokio::test]
async fn a_provider_without_extensions_is_known_by_names() {
    let (_server, there) = plain(Arc::new(sim(Settings::default())), false).await;
    let can = there.capabilities().await.unwrap();
    assert_eq!((can.unique_by, can.token, can.list), (UniqueBy::Name, false, true));
    // It cannot say how far its lists are behind, so some lag is reckoned with.
    assert_eq!(can.list_lag, std::time::Duration::from_secs(15));
    assert!(can.snapshots && can.reuses_ids && !can.pause && !can.events && !can.templates);
    let id = make(&there, "web-abcde").await;
    let listing = there.list().await.unwrap();
    assert_eq!((listing.complete, listing.machines[0].name.as_str()), (true, "web-abcde"));
    assert_eq!(listing.machines[0].token, None);
    let found = there.describe(&id).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.power), ("web-abcde", Power::On));
    // The same request again is the same machine; somebody else's of that name is refused.
    assert_eq!(make(&there, "web-abcde").await, id);
    let other = CreateRequest { owner: owner("other"), ..request("web-abcde") };
    assert_eq!(there.create(other).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(there.events().await.err().unwrap().kind(), ErrorKind::Unsupported);
    assert!(!there.has_extensions() || there.hosts().await.is_err());
    let off = PowerRequest { id: id.clone(), proof: proof("web-abcde"), op: PowerOp::Off };
    there.power(off).await.unwrap();
    assert_eq!(there.describe(&id).await.unwrap().unwrap().power, Power::Off);
    there.delete(DeleteRequest { id: id.clone(), proof: proof("web-abcde") }).await.unwrap();
    assert_eq!(there.describe(&id).await.unwrap(), None);
    there.delete(DeleteRequest { id, proof: proof("web-abcde") }).await.unwrap();
}

/// The wire itself has no place for a name.
#[tokio::test]
async fn a_machine_that_was_given_the_id_of_a_dead_one_is_not_removed_in_its_place() {
    let settings = Settings { token: false, unique_by: UniqueBy::Name, ..Settings::default() };
    let platform = sim(settings);
    let (_server, there) = plain(Arc::new(platform.clone()), false).await;
    let id = make(&there, "web-abcde").await;
    platform.tamper(&id, Tamper::Delete).unwrap();
    let theirs = Foreign { id: Some(id.clone()), ..Foreign::named("somebodys") };
    assert_eq!(platform.appear(theirs).unwrap(), id);
    let delete = || DeleteRequest { id: id.clone(), proof: proof("web-abcde") };
    let refused = there.delete(delete()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains("somebodys"), "{refused:?}");
    assert_eq!(there.describe(&id).await.unwrap().unwrap().name, "somebodys");
    platform.tamper(&id, Tamper::Delete).unwrap();
    there.delete(delete()).await.unwrap();
}

#[tokio::test]
async fn a_provider_without_a_list_says_so() {
    let settings = Settings { without: [Feature::List].into(), ..Settings::default() };
    let (_server, there) = plain(Arc::new(sim(settings)), false).await;
    assert!(!there.capabilities().await.unwrap().list);
}

#[tokio::test]
async fn what_has_no_place_for_kept_disks_never_makes_ordinary_ones_of_them() {
    let behind = sim(Settings::default());
    let (_server, there) = plain(Arc::new(behind.clone()), false).await;
    assert!(!there.capabilities().await.unwrap().kept_disks);
    let mut wanted = request("web-abcde");
    wanted.disks[0].kept = Some("disk-1".into());
    let refused = |error: Error| {
        assert_eq!((error.kind(), error.field()), (ErrorKind::Unsupported, Some("disks[0].kept")));
    };
    refused(there.create(wanted.clone()).await.unwrap_err());
    assert!(behind.is_empty());
    let id = make(&there, "web-abcde").await;
    let change = ReconfigureRequest {
        id: id.clone(),
        proof: proof("web-abcde"),
        desired: wanted.clone(),
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    refused(there.reconfigure(change).await.unwrap_err());
    let copy = CloneRequest {
        source: id,
        snapshot: None,
        target: CreateRequest { name: "copy".to_owned(), ..wanted },
        linked: false,
        customize: serde_json::Map::new(),
    };
    refused(there.clone_machine(copy).await.unwrap_err());
    assert_eq!((behind.len(), behind.kept().len()), (1, 0));
    assert_eq!(there.kept_disks().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let removed = there.kept_disk_remove(&"disk-1".into()).await;
    assert_eq!(removed.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn extensions_can_be_left_aside() {
    let behind = sim(Settings::default());
    let (server, there) = plain(Arc::new(behind), true).await;
    assert_eq!(there.capabilities().await.unwrap().unique_by, UniqueBy::Token);
    let mut without = options(ClientSecurity::Plaintext);
    without.extensions = false;
    without.unique_by = UniqueBy::None;
    let there = remote(&server, without);
    assert_eq!(there.capabilities().await.unwrap().unique_by, UniqueBy::None);
    assert!(!there.has_extensions());
}

#[tokio::test]
async fn managers_without_a_name_touch_only_what_is_theirs_or_nobodys() {
    let behind = sim(Settings::default());
    let (server, ours) = plain(Arc::new(behind.clone()), true).await;
    let id = make(&ours, "sutlers").await;
    behind.seed([Machine::new("vm-900", "found", Power::On)]).unwrap();
    let mut client = client(&server).await;
    let delete = |id: &str| pb::DeleteRequest { id: id.to_owned(), owner: None };
    let status = client.delete(delete(&id.0)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    let create =
        |owner| pb::CreateRequest { name: "theirs".to_owned(), owner, ..Default::default() };
    let made = client.create(create(None)).await.unwrap().into_inner().id;
    let again = client.create(create(None)).await.unwrap().into_inner().id;
    assert_eq!(made, again);
    // The manager learns to say who it is, and finds its machine all the same.
    let me = pb::ObjectIdentity { uid: "u-1".into(), namespace: "n".into(), name: "theirs".into() };
    let off = pb::PowerRequest { id: made.clone(), op: 2, owner: Some(me), ..Default::default() };
    client.power(off).await.unwrap();
    client.delete(delete(&made)).await.unwrap();
    client.delete(delete(&made)).await.unwrap();
    // What nobody has claimed was always at the word of whoever knew its ID.
    client.delete(delete("vm-900")).await.unwrap();
    let left: Vec<String> = behind.machines().into_iter().map(|truth| truth.machine.name).collect();
    assert_eq!(left, ["sutlers"]);
}
