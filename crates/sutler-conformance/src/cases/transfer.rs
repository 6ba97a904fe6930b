//! Images and disks that come and go.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "transfer":
    an_image_is_brought_once [ONCE] image_import,
    an_image_is_removed_once [ONCE] image_import,
    the_root_disk_is_described [OBSERVED] nothing,
    a_disk_is_sent_once [ONCE] disk_export,
    what_was_sent_can_be_brought_in [OBSERVED] transfer,
    what_was_brought_in_is_one [ONCE] disk_import,
    a_wrong_checksum_is_noticed [OBSERVED] transfer,
}

pub(super) fn export(context: &Context, made: &Made, word: &str) -> ExportRequest {
    ExportRequest {
        disk: DiskRef { machine: made.id.clone(), disk: None, snapshot: None },
        destination: format!("{}/{word}", context.export_to()),
        format: None,
        compress: false,
        credentials: Credentials::default(),
        storage: serde_json::Map::new(),
    }
}

pub(super) fn import(source: &str, target: &str) -> ImportRequest {
    ImportRequest {
        source: source.to_owned(),
        target: target.to_owned(),
        format: None,
        storage_hint: None,
        checksum: None,
        credentials: Credentials::default(),
        storage: serde_json::Map::new(),
    }
}

async fn an_image_is_brought_once(context: &Context) -> Check {
    let target = context.word("image");
    let one = context.provider.image_prepare(context.image(&target)).await?;
    context.ended(one.task).await?;
    let two = context.provider.image_prepare(context.image(&target)).await?;
    ensure!(two.task.is_none(), "it is there, and is brought again");
    ensure!(one.id == two.id, "the same image is {:?} and {:?}", one.id, two.id);
    remove(context, &target).await
}

/// Removes an image. Not every wire can ask for that, and no capability says so.
pub(super) async fn remove(context: &Context, target: &str) -> Check {
    match context.provider.image_remove(target).await {
        Ok(started) => context.ended(started.task).await.map(drop),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn an_image_is_removed_once(context: &Context) -> Check {
    let target = context.word("image");
    let one = context.provider.image_prepare(context.image(&target)).await?;
    context.ended(one.task).await?;
    for _ in 0..2 {
        remove(context, &target).await?;
    }
    Ok(())
}

async fn the_root_disk_is_described(context: &Context) -> Check {
    let made = context.make().await?;
    let disk = DiskRef { machine: made.id.clone(), disk: None, snapshot: None };
    match context.provider.disk_info(&disk).await {
        Ok(Some(info)) => {
            ensure!(info.size_gib > 0, "the root disk is {info:?}");
            Ok(())
        }
        Ok(None) => Err(crate::case::Broken("a machine without a root disk".to_owned())),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn a_disk_is_sent_once(context: &Context) -> Check {
    let made = context.make().await?;
    let request = export(context, &made, &context.word("out"));
    let one = context.provider.disk_export(request.clone()).await?;
    context.ended(one.task).await?;
    let two = context.provider.disk_export(request).await?;
    context.ended(two.task).await?;
    ensure!(one.id == two.id, "the same disk to the same place is {} and {}", one.id, two.id);
    Ok(())
}

async fn what_was_sent_can_be_brought_in(context: &Context) -> Check {
    let made = context.make().await?;
    let request = export(context, &made, &context.word("out"));
    let sent = context.provider.disk_export(request.clone()).await?;
    context.ended(sent.task).await?;
    let target = context.word("in");
    let request =
        ImportRequest { checksum: sent.checksum.clone(), ..import(&request.destination, &target) };
    let brought = context.provider.disk_import(request).await?;
    context.ended(brought.task).await?;
    let same = sent.checksum.is_none() || brought.checksum == sent.checksum;
    ensure!(same, "sent as {:?}, brought in as {:?}", sent.checksum, brought.checksum);
    Ok(())
}

async fn what_was_brought_in_is_one(context: &Context) -> Check {
    let target = context.word("in");
    let request = import(context.import_from(), &target);
    let one = context.provider.disk_import(request.clone()).await?;
    context.ended(one.task).await?;
    let two = context.provider.disk_import(request).await?;
    context.ended(two.task).await?;
    ensure!(one.id == two.id, "the same disk is {} and {}", one.id, two.id);
    Ok(())
}

async fn a_wrong_checksum_is_noticed(context: &Context) -> Check {
    let made = context.make().await?;
    let request = export(context, &made, &context.word("out"));
    let sent = context.provider.disk_export(request.clone()).await?;
    context.ended(sent.task).await?;
    let checksum = Some("sha256:0000".to_owned());
    let request = ImportRequest { checksum, ..import(&request.destination, &context.word("in")) };
    match context.provider.disk_import(request).await {
        Err(error) => refused::<()>(Err(error), ErrorKind::Failed, "a wrong checksum").map(drop),
        Ok(brought) => {
            let ended = context.ended(brought.task).await;
            ensure!(ended.is_err(), "a disk with a wrong checksum was brought in");
            Ok(())
        }
    }
}
