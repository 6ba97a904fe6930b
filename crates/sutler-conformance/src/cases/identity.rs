//! Tokens: written, taken off, and kept from others.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "identity":
    a_token_is_taken_off [OBSERVED] token,
    what_is_nobodys_is_not_deleted [OWNER] token,
    what_is_nobodys_can_be_adopted [OBSERVED] token,
    adopting_twice_is_adopting_once [ONCE] token,
    somebody_elses_is_not_adopted [OWNER] token,
    a_stranger_does_not_disown [OWNER] token,
}

async fn a_token_is_taken_off(context: &Context) -> Check {
    let made = context.make().await?;
    context.provider.disown(&made.id, &made.proof()).await?;
    let token = context.shown(&made.id).await?.token;
    context.provider.adopt(&made.id, &made.owner).await?;
    ensure!(token.is_none(), "it was disowned and carries {token:?}");
    Ok(())
}

async fn what_is_nobodys_is_not_deleted(context: &Context) -> Check {
    let made = context.make().await?;
    context.provider.disown(&made.id, &made.proof()).await?;
    let answer = context.provider.delete(made.delete()).await;
    let refused = refused(answer, ErrorKind::Conflict, "deleting a machine without a token");
    drop(context.provider.adopt(&made.id, &made.owner).await);
    refused.map(drop)
}

async fn what_is_nobodys_can_be_adopted(context: &Context) -> Check {
    let made = context.make().await?;
    context.provider.disown(&made.id, &made.proof()).await?;
    let heir = context.request();
    context.provider.adopt(&made.id, &heir.owner).await?;
    let shown = context.shown(&made.id).await?;
    let carried = shown.token == Some(heir.owner.token.clone());
    let proof = Proof { owner: heir.owner, name: None };
    let started = context.provider.delete(DeleteRequest { id: made.id.clone(), proof }).await?;
    context.ended(started.task).await?;
    ensure!(carried, "it was adopted and carries {:?}", shown.token);
    ensure!(context.provider.describe(&made.id).await?.is_none(), "its new owner cannot delete it");
    Ok(())
}

async fn adopting_twice_is_adopting_once(context: &Context) -> Check {
    let made = context.make().await?;
    for _ in 0..2 {
        context.provider.adopt(&made.id, &made.owner).await?;
    }
    let token = context.shown(&made.id).await?.token;
    ensure!(token == Some(made.owner.token.clone()), "it carries {token:?}");
    Ok(())
}

async fn somebody_elses_is_not_adopted(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.adopt(&made.id, &context.owner()).await;
    refused(answer, ErrorKind::Conflict, "adopting somebody else's machine")?;
    let token = context.shown(&made.id).await?.token;
    ensure!(token == Some(made.owner.token.clone()), "it carries {token:?}");
    Ok(())
}

async fn a_stranger_does_not_disown(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.disown(&made.id, &context.stranger()).await;
    refused(answer, ErrorKind::Conflict, "disowning somebody else's machine")?;
    let token = context.shown(&made.id).await?.token;
    ensure!(token == Some(made.owner.token.clone()), "it carries {token:?}");
    Ok(())
}
