//! Snapshots: taken once, gone back to, deleted.

use futures::future::join;
use sutler_provider::*;

use super::honesty::snapshot;
use crate::{
    case::{Broken, Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "snapshots":
    what_was_taken_can_be_seen [OBSERVED] snapshots,
    a_second_of_the_same_name_is_the_first [ONCE] snapshots,
    two_at_once_of_the_same_name_are_one [ONCE] snapshots,
    other_names_are_other_snapshots [UNIQUE] snapshots,
    going_back_brings_back_what_was [OBSERVED] snapshots,
    what_was_deleted_is_gone [OBSERVED] snapshots,
    deleting_twice_is_deleting_once [ONCE] snapshots,
    a_stranger_takes_none [OWNER] snapshots_with_token,
    a_stranger_deletes_none [OWNER] snapshots_with_token,
    a_stranger_does_not_go_back [OWNER] snapshots_with_token,
}

/// Takes a snapshot and waits for it; its ID comes with the answer, with the task, or with the
/// machine.
async fn take(context: &Context, made: &Made, name: &str) -> Check<SnapshotId> {
    let taken = context.provider.snapshot_create(snapshot(made, name, false)).await?;
    let told = context.ended(taken.task).await?;
    if let Some(id) = taken.id.or_else(|| told.map(Into::into)) {
        return Ok(id);
    }
    let shown = seen(context, made).await?.unwrap_or_default();
    let found = shown.into_iter().find(|snapshot| snapshot.name == name);
    let missing = || Broken(format!("the ID of snapshot {name:?} is told nowhere"));
    found.map(|snapshot| snapshot.id).ok_or_else(missing)
}

/// The machine's snapshots, where the platform tells of them.
async fn seen(context: &Context, made: &Made) -> Check<Option<Vec<Snapshot>>> {
    Ok(context.shown(&made.id).await?.snapshots)
}

async fn what_was_taken_can_be_seen(context: &Context) -> Check {
    let made = context.make().await?;
    let id = take(context, &made, "one").await?;
    let Some(seen) = seen(context, &made).await? else { return Ok(()) };
    let right = seen.len() == 1 && seen[0].id == id && seen[0].name == "one";
    ensure!(right, "{id} was taken, and there are {seen:?}");
    Ok(())
}

async fn a_second_of_the_same_name_is_the_first(context: &Context) -> Check {
    let made = context.make().await?;
    let one = take(context, &made, "one").await?;
    let again = take(context, &made, "one").await?;
    ensure!(one == again, "the same request took {one} and {again}");
    let seen = seen(context, &made).await?;
    ensure!(seen.as_ref().is_none_or(|seen| seen.len() == 1), "there are {seen:?}");
    Ok(())
}

async fn two_at_once_of_the_same_name_are_one(context: &Context) -> Check {
    let made = context.make().await?;
    let request = || context.provider.snapshot_create(snapshot(&made, "one", false));
    let (one, two) = join(request(), request()).await;
    for answer in [one, two] {
        match answer {
            Ok(taken) => context.ended(taken.task).await.map(drop)?,
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    let seen = seen(context, &made).await?;
    ensure!(seen.as_ref().is_none_or(|seen| seen.len() == 1), "there are {seen:?}");
    Ok(())
}

async fn other_names_are_other_snapshots(context: &Context) -> Check {
    let made = context.make().await?;
    let (one, two) = (take(context, &made, "one").await?, take(context, &made, "two").await?);
    ensure!(one != two, "two snapshots have one ID {one}");
    Ok(())
}

async fn going_back_brings_back_what_was(context: &Context) -> Check {
    let request = CreateRequest { power_on: false, ..context.request() };
    let made = context.make_like(request).await?;
    let before = context.shown(&made.id).await?;
    let id = take(context, &made, "one").await?;
    if context.can.reconfigure {
        let mut desired = made.request.clone();
        desired.class.iter_mut().for_each(|class| class.cpu = 2);
        let request = super::reconfigure::to(&made, desired);
        let started = context.provider.reconfigure(request).await?;
        context.ended(started.task).await?;
    }
    let started = context.provider.snapshot_revert(&made.id, &made.proof(), &id).await?;
    context.ended(started.task).await?;
    let after = context.at_rest(&made.id).await?;
    ensure!(before.cpu == after.cpu, "it had {:?} CPUs and has {:?}", before.cpu, after.cpu);
    ensure!(after.token == before.token, "it lost its token");
    Ok(())
}

async fn what_was_deleted_is_gone(context: &Context) -> Check {
    let made = context.make().await?;
    let id = take(context, &made, "one").await?;
    let started = context.provider.snapshot_delete(&made.id, &made.proof(), &id).await?;
    context.ended(started.task).await?;
    let seen = seen(context, &made).await?.unwrap_or_default();
    ensure!(seen.is_empty(), "it was deleted, and there are {seen:?}");
    Ok(())
}

async fn deleting_twice_is_deleting_once(context: &Context) -> Check {
    let made = context.make().await?;
    let (one, other) = (take(context, &made, "one").await?, take(context, &made, "two").await?);
    for _ in 0..2 {
        let started = context.provider.snapshot_delete(&made.id, &made.proof(), &one).await?;
        context.ended(started.task).await?;
    }
    let Some(seen) = seen(context, &made).await? else { return Ok(()) };
    let ids: Vec<_> = seen.iter().map(|snapshot| &snapshot.id).collect();
    ensure!(ids == [&other], "there are {ids:?} and should be {other}");
    Ok(())
}

async fn a_stranger_takes_none(context: &Context) -> Check {
    let made = context.make().await?;
    let request = SnapshotRequest { proof: context.stranger(), ..snapshot(&made, "one", false) };
    let answer = context.provider.snapshot_create(request).await;
    refused(answer, ErrorKind::Conflict, "a snapshot of somebody else's machine")?;
    let seen = seen(context, &made).await?.unwrap_or_default();
    ensure!(seen.is_empty(), "it was refused, and there are {seen:?}");
    Ok(())
}

async fn a_stranger_deletes_none(context: &Context) -> Check {
    let made = context.make().await?;
    let id = take(context, &made, "one").await?;
    let answer = context.provider.snapshot_delete(&made.id, &context.stranger(), &id).await;
    refused(answer, ErrorKind::Conflict, "deleting somebody else's snapshot")?;
    let seen = seen(context, &made).await?;
    ensure!(seen.is_none_or(|seen| seen.len() == 1), "it was refused, and the snapshot is gone");
    Ok(())
}

async fn a_stranger_does_not_go_back(context: &Context) -> Check {
    let made = context.make().await?;
    let id = take(context, &made, "one").await?;
    let answer = context.provider.snapshot_revert(&made.id, &context.stranger(), &id).await;
    refused(answer, ErrorKind::Conflict, "somebody else's machine going back").map(drop)
}
