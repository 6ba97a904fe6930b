//! What cannot work is refused for what is wrong with it, and nothing is left.

use std::io::Write as _;

use sutler_provider::{
    CreateRequest, Disk, Error, ErrorKind, Image, Nic, Placement, Provider as _,
};

use crate::corner::Corner;

pub(crate) fn assert_refused<T>(answer: Result<T, Error>, kind: ErrorKind, words: &str) {
    let error = answer.err().unwrap_or_else(|| unreachable!("nobody refused for {words:?}"));
    assert!(error.kind() == kind && error.message().contains(words), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_are_not_what_was_said() {
    let Some(corner) = Corner::open() else { return };
    let request = corner.image_from(&corner.image.clone());
    let sum = Some(("00".repeat(32), "sha256".to_owned()));
    let mut wrong = request.clone();
    wrong.image.checksum = sum;
    let answer = corner.bring(wrong.clone()).await;
    assert_refused(answer, ErrorKind::Failed, "its sha256 is ");
    corner.assert_empty();
    // Nobody asks.
    wrong.verify = false;
    corner.bring(wrong).await.unwrap();
    corner.remove_image(&request.target).await;
    corner.assert_empty();

    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(&corner.image).unwrap();
    for (name, bytes, words) in [
        ("cut", &whole[..40], "it ends within its header"),
        ("half", &whole[..70_000], "it is cut off"),
        ("other", &[7; 4096][..], "does not begin like one"),
    ] {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        assert_refused(corner.bring(corner.image_from(&path)).await, ErrorKind::Failed, words);
        corner.assert_empty();
    }

    // Its beginning is whole, and what it speaks of is not there: nothing is built upon it.
    let path = folder.path().join("nonsense");
    let mut bytes = whole;
    bytes[40..48].copy_from_slice(&513_u64.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let id = corner.bring(corner.image_from(&path)).await.unwrap();
    let made = corner.make(corner.request(Some(&id))).await;
    let error = made.err().unwrap();
    assert!(error.message().contains("Could not"), "{error:?}");
    corner.remove_image(&request.target).await;
    corner.assert_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn images_come_in_another_format() {
    let Some(corner) = Corner::open() else { return };
    let mut request = corner.image_from(&corner.image.clone());
    let options = serde_json::json!({"storage": {"preferredFormat": "raw"}});
    request.options = options.as_object().cloned().unwrap();
    let id = corner.bring(request.clone()).await.unwrap();
    let made = corner.make(corner.request(Some(&id))).await.unwrap();
    let disks = corner.shown(&made).await.disks.unwrap();
    assert_eq!(disks[0].format.as_deref(), Some("qcow2"), "an overlay: {disks:?}");
    assert!(disks[0].backing_file.is_some(), "{disks:?}");
    corner.delete(&made).await;
    corner.remove_image(&request.target).await;
    corner.assert_empty();
}

/// What nobody can see is not taken for gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_pool_that_does_not_run() {
    let Some(corner) = Corner::open() else { return };
    let request = corner.image_from(&corner.image.clone());
    let image = corner.bring(request.clone()).await.unwrap();
    let made = corner.make(corner.request(Some(&image))).await.unwrap();
    corner.run_pool(false);
    assert_refused(corner.try_delete(&made).await, ErrorKind::Unavailable, "is not started");
    let answer = corner.provider.image_remove(&request.target).await;
    assert_refused(answer, ErrorKind::Unavailable, "is not started");
    let answer = corner.make(corner.request(Some(&image))).await;
    assert_refused(answer.map(drop), ErrorKind::Unavailable, "is not started");
    corner.run_pool(true);
    assert_eq!(corner.shown(&made).await.disks.unwrap().len(), 1);
    corner.delete(&made).await;
    corner.remove_image(&request.target).await;
    corner.assert_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_room() {
    let Some(corner) = Corner::small(24) else { return };
    let answer = corner.bring(corner.image_from(&corner.image.clone())).await;
    assert_refused(answer, ErrorKind::Exhausted, "the image takes ");
    corner.assert_empty();
    let thick =
        Disk { name: "data".to_owned(), size_gib: 1, type_: "thick".to_owned(), ..Disk::default() };
    let request = corner.request(None);
    let answer = corner.make(CreateRequest { disks: vec![thick], ..request }).await;
    assert_refused(answer.map(drop), ErrorKind::Exhausted, "No space left on device");
    corner.assert_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_has_not() {
    let Some(corner) = Corner::open() else { return };
    let name = "n".repeat(64);
    let request = CreateRequest { name, ..corner.request(None) };
    let answer = corner.make(request).await;
    assert_refused(answer.map(drop), ErrorKind::Invalid, "is longer than 63 characters");

    let placement = Placement { datastore: Some("nowhere".to_owned()), ..Placement::default() };
    let request = CreateRequest { placement, ..corner.request(None) };
    let answer = corner.make(request).await;
    assert_refused(answer.map(drop), ErrorKind::Invalid, "there is no storage pool \"nowhere\"");

    let network = Some("nowhere".to_owned());
    let nic = Nic { name: "lan".to_owned(), network, ..Nic::default() };
    let request = CreateRequest { nics: vec![nic], ..corner.request(None) };
    let answer = corner.make(request).await;
    assert_refused(answer.map(drop), ErrorKind::Invalid, "there is no network \"nowhere\"");

    let image = Some(Image { template: Some("nothing".to_owned()), ..Image::default() });
    let request = CreateRequest { image, ..corner.request(None) };
    let answer = corner.make(request).await;
    assert_refused(answer.map(drop), ErrorKind::NotFound, "there is no image \"nothing\"");

    let mut request = corner.request(None);
    request.class.as_mut().unwrap().cpu = 4096;
    let answer = corner.make(request).await;
    assert_refused(answer.map(drop), ErrorKind::Invalid, "4096 CPUs are more than the host's");
    corner.assert_empty();
}
