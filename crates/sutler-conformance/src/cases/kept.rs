//! Disks that outlive their machines.

use sutler_provider::*;

use crate::{
    case::{Broken, Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "kept":
    it_is_made_and_shown_with_its_machine [OBSERVED] kept_disks,
    it_outlives_its_machine [KEPT] kept_disks,
    it_comes_back_to_another_machine [KEPT] kept_disks,
    it_grows_and_does_not_shrink [OBSERVED] kept_disks,
    a_second_request_makes_no_second_disk [ONCE] kept_known,
    another_machine_does_not_get_it [KEPT] kept_disks,
    the_same_key_twice [BAD_INPUT] kept_disks,
    it_is_not_removed_while_a_machine_has_it [KEPT] kept_disks,
    it_is_removed_once [ONCE] kept_disks,
    removing_what_is_not_there_is_done [ABSENCE] kept_disks,
    taken_off_a_machine_it_stays [KEPT] kept_reconfigured,
    a_copy_has_a_disk_of_its_own [KEPT] kept_copied,
}

const NAME: &str = "store";

fn disk(key: &DiskKey, size_gib: u64) -> Disk {
    Disk { name: NAME.to_owned(), size_gib, kept: Some(key.clone()), ..Disk::default() }
}

/// A small machine for a new owner, with the disk of this key.
pub(super) fn request(context: &Context, key: &DiskKey, size_gib: u64) -> CreateRequest {
    CreateRequest { disks: vec![disk(key, size_gib)], ..context.request() }
}

async fn make(context: &Context, key: &DiskKey, size_gib: u64) -> Check<Made> {
    context.make_like(request(context, key, size_gib)).await
}

/// The disk of a key, of which there is never more than one.
async fn find(context: &Context, key: &DiskKey) -> Check<Option<KeptDisk>> {
    let all = context.provider.kept_disks().await?;
    let mut found: Vec<_> = all.into_iter().filter(|disk| disk.key == *key).collect();
    ensure!(found.len() <= 1, "the key {key} has several disks: {found:?}");
    Ok(found.pop())
}

/// The disk of a key, which this machine must have, or none.
async fn held(context: &Context, key: &DiskKey, by: Option<&Made>) -> Check<KeptDisk> {
    let found = find(context, key).await?;
    let found = found.ok_or_else(|| Broken(format!("the disk {key} is not there")))?;
    let by = by.map(|made| &made.id);
    ensure!(found.machine.as_ref() == by, "{by:?} should have the disk, and it is {found:?}");
    Ok(found)
}

/// What a machine shows of the disk, where its platform tells of disks.
async fn shown(context: &Context, made: &Made) -> Check<Option<DiskInfo>> {
    let Some(disks) = context.shown(&made.id).await?.disks else { return Ok(None) };
    match disks.iter().find(|disk| disk.name == NAME) {
        Some(disk) => Ok(Some(disk.clone())),
        None => Err(Broken(format!("it has {disks:?}"))),
    }
}

async fn delete(context: &Context, made: &Made) -> Check {
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    context.gone(made).await
}

/// Whether two looks saw one disk; not every platform has a name for it.
fn same(before: &KeptDisk, after: &KeptDisk) -> Check {
    let same = before.id.is_none() || before.id == after.id;
    ensure!(same, "it was {before:?}, and what has its key is another disk: {after:?}");
    Ok(())
}

async fn it_is_made_and_shown_with_its_machine(context: &Context) -> Check {
    let key = context.key();
    ensure!(find(context, &key).await?.is_none(), "a disk that was never made is there");
    let made = make(context, &key, 2).await?;
    let disk = held(context, &key, Some(&made)).await?;
    ensure!(disk.size_gib == 2, "it has {} GiB and not 2", disk.size_gib);
    if let Some(info) = shown(context, &made).await? {
        ensure!(info.kept == Some(key), "the machine shows it as {info:?}");
    }
    Ok(())
}

async fn it_outlives_its_machine(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&made)).await?;
    delete(context, &made).await?;
    same(&before, &held(context, &key, None).await?)
}

async fn it_comes_back_to_another_machine(context: &Context) -> Check {
    let key = context.key();
    let first = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&first)).await?;
    delete(context, &first).await?;
    let second = make(context, &key, 2).await?;
    same(&before, &held(context, &key, Some(&second)).await?)
}

async fn it_grows_and_does_not_shrink(context: &Context) -> Check {
    let key = context.key();
    for (wanted, size) in [(2, 2), (4, 4), (1, 4)] {
        let made = make(context, &key, wanted).await?;
        let disk = held(context, &key, Some(&made)).await?;
        ensure!(
            disk.size_gib == size,
            "asked for with {wanted} GiB it has {} GiB and not {size}",
            disk.size_gib
        );
        delete(context, &made).await?;
    }
    Ok(())
}

async fn a_second_request_makes_no_second_disk(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&made)).await?;
    let again = context.provider.create(made.request.clone()).await?;
    let again = context.made_by(made.request.clone(), again).await?;
    same(&before, &held(context, &key, Some(&again)).await?)
}

async fn another_machine_does_not_get_it(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&made)).await?;
    let rival = request(context, &key, 2);
    let answer = context.provider.create(rival.clone()).await;
    if let Ok(Accepted { id: Some(id), .. }) = &answer {
        context.remember(id, &rival);
    }
    refused(answer, ErrorKind::Conflict, "a disk that another machine has")?;
    same(&before, &held(context, &key, Some(&made)).await?)?;
    if context.can.list {
        let left = context.listed(&rival).await?;
        ensure!(left.is_empty(), "it was refused, and left {left:?}");
    }
    Ok(())
}

async fn the_same_key_twice(context: &Context) -> Check {
    let key = context.key();
    let mut request = request(context, &key, 2);
    request.disks.push(Disk { name: "again".to_owned(), ..disk(&key, 2) });
    let answer = context.provider.create(request.clone()).await;
    if let Ok(Accepted { id: Some(id), .. }) = &answer {
        context.remember(id, &request);
    }
    refused(answer, ErrorKind::Invalid, "two disks of one key")?;
    let left = find(context, &key).await?;
    ensure!(left.is_none(), "it was refused, and left {left:?}");
    Ok(())
}

async fn it_is_not_removed_while_a_machine_has_it(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&made)).await?;
    let answer = context.provider.kept_disk_remove(&key).await;
    refused(answer, ErrorKind::Conflict, "removing a disk that a machine has")?;
    same(&before, &held(context, &key, Some(&made)).await?)
}

async fn it_is_removed_once(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    delete(context, &made).await?;
    for _ in 0..2 {
        let started = context.provider.kept_disk_remove(&key).await?;
        context.ended(started.task).await?;
        let left = find(context, &key).await?;
        ensure!(left.is_none(), "it was removed, and is {left:?}");
    }
    Ok(())
}

async fn removing_what_is_not_there_is_done(context: &Context) -> Check {
    let started = context.provider.kept_disk_remove(&context.key()).await?;
    context.ended(started.task).await.map(drop)
}

async fn change(context: &Context, request: ReconfigureRequest) -> Check {
    let started = context.provider.reconfigure(request).await?;
    context.ended(started.task).await.map(drop)
}

async fn taken_off_a_machine_it_stays(context: &Context) -> Check {
    let key = context.key();
    let power_on = context.can.reconfigure_online && context.can.disk_growth_online;
    let request = CreateRequest { power_on, ..request(context, &key, 2) };
    let made = context.make_like(request).await?;
    let before = held(context, &key, Some(&made)).await?;
    let without = CreateRequest { disks: Vec::new(), ..made.request.clone() };
    let remove_disks = vec![NAME.to_owned()];
    let off = ReconfigureRequest { remove_disks, ..super::reconfigure::to(&made, without) };
    change(context, off).await?;
    same(&before, &held(context, &key, None).await?)?;
    let disks = context.shown(&made.id).await?.disks.unwrap_or_default();
    let left = disks.iter().find(|disk| disk.name == NAME || disk.kept.is_some());
    ensure!(left.is_none(), "it was taken off, and the machine shows {left:?}");
    change(context, super::reconfigure::to(&made, made.request.clone())).await?;
    same(&before, &held(context, &key, Some(&made)).await?)
}

async fn a_copy_has_a_disk_of_its_own(context: &Context) -> Check {
    let key = context.key();
    let made = make(context, &key, 2).await?;
    let before = held(context, &key, Some(&made)).await?;
    let target = context.request();
    let accepted = super::copies::copy(context, &made, &target, false).await?;
    let copy = context.made_by(target, accepted).await?;
    same(&before, &held(context, &key, Some(&made)).await?)?;
    let disks = context.shown(&copy.id).await?.disks.unwrap_or_default();
    let kept = disks.iter().find(|disk| disk.kept.is_some());
    ensure!(kept.is_none(), "the copy has {kept:?}, which is its source's");
    Ok(())
}
