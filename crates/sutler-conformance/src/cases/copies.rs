//! Copies of machines, under the rules of making them.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "copies":
    a_copy_is_a_machine_of_its_own [OBSERVED] clones,
    a_copy_carries_its_owners_token [OBSERVED] clones_known,
    a_second_request_finds_the_first [ONCE] clones_known,
    somebody_elses_name_is_taken [UNIQUE] clones_unique,
    the_source_stays_as_it_is [OBSERVED] clones,
    deleting_the_copy_leaves_the_source [OWNER] clones,
}

/// Asks for a copy; what comes of it is deleted in the end.
pub(super) async fn copy(
    context: &Context,
    made: &Made,
    target: &CreateRequest,
    linked: bool,
) -> Result<Accepted> {
    let request = CloneRequest {
        source: made.id.clone(),
        snapshot: None,
        target: target.clone(),
        linked,
        customize: serde_json::Map::new(),
    };
    let answer = context.provider.clone_machine(request).await;
    if let Ok(Accepted { id: Some(id), .. }) = &answer {
        context.remember(id, target);
    }
    answer
}

async fn copied(context: &Context, made: &Made) -> Check<Made> {
    let target = context.request();
    let accepted = copy(context, made, &target, false).await?;
    context.made_by(target, accepted).await
}

async fn a_copy_is_a_machine_of_its_own(context: &Context) -> Check {
    let made = context.make().await?;
    let copy = copied(context, &made).await?;
    ensure!(copy.id != made.id, "the copy is its source");
    let shown = context.shown(&copy.id).await?;
    ensure!(shown.name == copy.name, "it is called {:?} and not {:?}", shown.name, copy.name);
    Ok(())
}

async fn a_copy_carries_its_owners_token(context: &Context) -> Check {
    let made = context.make().await?;
    let copy = copied(context, &made).await?;
    let token = context.shown(&copy.id).await?.token;
    ensure!(token == Some(copy.owner.token.clone()), "it carries {token:?}");
    Ok(())
}

async fn a_second_request_finds_the_first(context: &Context) -> Check {
    let made = context.make().await?;
    let one = copied(context, &made).await?;
    let again = copy(context, &made, &one.request, false).await?;
    let again = context.made_by(one.request.clone(), again).await?;
    ensure!(one.id == again.id, "the same request made {} and {}", one.id, again.id);
    Ok(())
}

async fn somebody_elses_name_is_taken(context: &Context) -> Check {
    let made = context.make().await?;
    let target = CreateRequest { name: made.name.clone(), ..context.request() };
    let answer = copy(context, &made, &target, false).await;
    refused(answer, ErrorKind::Conflict, "a copy with its source's name, for another owner")
        .map(drop)
}

/// Disks without the bytes that they take: a guest goes on writing.
fn disks(machine: &Machine) -> Option<Vec<DiskInfo>> {
    let still = |disk: &DiskInfo| DiskInfo { actual_bytes: None, ..disk.clone() };
    machine.disks.as_ref().map(|disks| disks.iter().map(still).collect())
}

async fn the_source_stays_as_it_is(context: &Context) -> Check {
    let made = context.make().await?;
    let before = context.shown(&made.id).await?;
    copied(context, &made).await?;
    let after = context.shown(&made.id).await?;
    let same = (before.token == after.token)
        && (before.name == after.name)
        && (before.power == after.power)
        && (disks(&before) == disks(&after));
    ensure!(same, "the source was {before:?} and is {after:?}");
    Ok(())
}

async fn deleting_the_copy_leaves_the_source(context: &Context) -> Check {
    let made = context.make().await?;
    let copy = copied(context, &made).await?;
    let started = context.provider.delete(copy.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&copy).await?;
    context.shown(&made.id).await.map(drop)
}
