//! Destroying machines: the right one, for its owner, to the end.

use futures::future::join;
use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "delete":
    what_was_deleted_is_gone [OBSERVED] nothing,
    a_second_time_is_done [ONCE] nothing,
    two_at_once_are_done [ONCE] nothing,
    for_somebody_else_it_is_refused [OWNER] nothing,
    for_another_installation_it_is_refused [OWNER] token,
    for_another_incarnation_it_is_refused [OWNER] token,
    the_id_counts_and_not_the_name [OWNER] nothing,
    a_neighbour_stays [OWNER] nothing,
    its_task_ends_after_the_machine [TASKS] nothing,
    a_caller_that_is_gone_is_no_matter [CALLER_GONE] nothing,
    its_name_is_free_again [OBSERVED] nothing,
}

async fn what_was_deleted_is_gone(context: &Context) -> Check {
    let made = context.make().await?;
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&made).await
}

async fn a_second_time_is_done(context: &Context) -> Check {
    let made = context.make().await?;
    for _ in 0..2 {
        let started = context.provider.delete(made.delete()).await?;
        context.ended(started.task).await?;
        context.gone(&made).await?;
    }
    Ok(())
}

async fn two_at_once_are_done(context: &Context) -> Check {
    let made = context.make().await?;
    let (one, two) =
        join(context.provider.delete(made.delete()), context.provider.delete(made.delete())).await;
    for started in [one?, two?] {
        context.ended(started.task).await?;
    }
    context.gone(&made).await
}

async fn for_somebody_else_it_is_refused(context: &Context) -> Check {
    let made = context.make().await?;
    let request = DeleteRequest { id: made.id.clone(), proof: context.stranger() };
    refused(context.provider.delete(request).await, ErrorKind::Conflict, "a stranger's delete")?;
    context.shown(&made.id).await.map(drop)
}

async fn for_another_installation_it_is_refused(context: &Context) -> Check {
    let made = context.make().await?;
    let mut proof = made.proof();
    proof.owner.installation = "elsewhere".to_owned();
    let answer = context.provider.delete(DeleteRequest { id: made.id.clone(), proof }).await;
    refused(answer, ErrorKind::Conflict, "the same token of another installation")?;
    context.shown(&made.id).await.map(drop)
}

async fn for_another_incarnation_it_is_refused(context: &Context) -> Check {
    let made = context.make().await?;
    let mut proof = made.proof();
    proof.owner.token.incarnation += 1;
    let answer = context.provider.delete(DeleteRequest { id: made.id.clone(), proof }).await;
    refused(answer, ErrorKind::Conflict, "the record's next incarnation")?;
    context.shown(&made.id).await.map(drop)
}

/// A machine that was replaced under the same name: deleting the old one again leaves the new one.
async fn the_id_counts_and_not_the_name(context: &Context) -> Check {
    let old = context.make().await?;
    let started = context.provider.delete(old.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&old).await?;
    let mut request = old.request.clone();
    request.owner.token.incarnation = 2;
    let new = context.make_like(request).await?;
    if new.id == old.id {
        // The platform gives IDs again; then the token is what tells them apart.
        return Ok(());
    }
    let started = context.provider.delete(old.delete()).await?;
    context.ended(started.task).await?;
    let shown = context.provider.describe(&new.id).await?;
    ensure!(shown.is_some(), "deleting {} has deleted {}, which has its name", old.id, new.id);
    Ok(())
}

async fn a_neighbour_stays(context: &Context) -> Check {
    let (made, neighbour) = (context.make().await?, context.make().await?);
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&made).await?;
    context.shown(&neighbour.id).await.map(drop)
}

async fn its_task_ends_after_the_machine(context: &Context) -> Check {
    let made = context.make().await?;
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    let left = context.provider.describe(&made.id).await?;
    ensure!(
        left.is_none(),
        "the delete is done, says its task or answer, and the machine is there"
    );
    Ok(())
}

async fn a_caller_that_is_gone_is_no_matter(context: &Context) -> Check {
    let made = context.make().await?;
    let patience = std::time::Duration::from_millis(5);
    drop(tokio::time::timeout(patience, context.provider.delete(made.delete())).await);
    // It went out, or it did not: asking again ends it either way.
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&made).await
}

async fn its_name_is_free_again(context: &Context) -> Check {
    let old = context.make().await?;
    let started = context.provider.delete(old.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&old).await?;
    let request = CreateRequest { name: old.name.clone(), ..context.request() };
    context.make_like(request).await.map(drop)
}
