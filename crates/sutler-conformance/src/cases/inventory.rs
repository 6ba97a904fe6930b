//! Lists, events, templates and hosts.

use futures::StreamExt as _;
use sutler_provider::*;
use tokio::time::timeout;

use crate::{
    case::{Broken, Check, cases, ensure},
    context::Context,
};

cases! { "inventory":
    a_list_is_complete [LIST] list,
    every_machine_is_listed_once [LIST] list,
    a_list_says_what_a_description_says [LIST] list,
    what_was_deleted_is_not_listed [LIST] list,
    a_machine_that_is_made_is_told_of [EVENTS] events,
    a_machine_that_is_gone_is_told_of [EVENTS] events,
    two_listeners_hear_the_same [EVENTS] events,
    templates_have_names [LIST] templates,
    hosts_have_room_for_what_they_run [LIST] hosts,
}

async fn a_list_is_complete(context: &Context) -> Check {
    context
        .until("a list is complete", || async {
            Ok(context.provider.list().await?.complete.then_some(()))
        })
        .await
}

async fn every_machine_is_listed_once(context: &Context) -> Check {
    for _ in 0..3 {
        context.make().await?;
    }
    let listing = context.provider.list().await?;
    let mut ids: Vec<_> = listing.machines.into_iter().map(|machine| machine.id).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == all, "{all} machines are listed, and {} have IDs of their own", ids.len());
    Ok(())
}

async fn a_list_says_what_a_description_says(context: &Context) -> Check {
    let made = context.make().await?;
    let listed = context.find(&made.request).await?;
    let shown = context.shown(&made.id).await?;
    // What only one of them tells is no contradiction.
    fn agree<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
        one.is_none() || other.is_none() || one == other
    }
    let same = (&listed.id, &listed.name, listed.power) == (&shown.id, &shown.name, shown.power)
        && agree(&listed.token, &shown.token)
        && agree(&listed.installation, &shown.installation)
        && agree(&listed.cpu, &shown.cpu)
        && agree(&listed.memory_mib, &shown.memory_mib);
    ensure!(same, "listed as {listed:?}, described as {shown:?}");
    Ok(())
}

async fn what_was_deleted_is_not_listed(context: &Context) -> Check {
    let made = context.make().await?;
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    context.gone(&made).await
}

/// The next event that fits.
async fn next(
    context: &Context,
    events: &mut EventStream,
    what: &str,
    fits: impl Fn(&Event) -> bool,
) -> Check {
    let wait = async {
        while let Some(event) = events.next().await {
            if fits(&event) || event == Event::Lost {
                return Ok(());
            }
        }
        Err(Broken("the stream of events ended".to_owned()))
    };
    let late = |_| Broken(format!("nothing was told of within {:?}: {what}", context.patience()));
    timeout(context.patience(), wait).await.map_err(late)?
}

fn changed(id: &MachineId) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Changed(machine) if machine.id == *id)
}

async fn a_machine_that_is_made_is_told_of(context: &Context) -> Check {
    let mut events = context.provider.events().await?;
    let made = context.make().await?;
    next(context, &mut events, "a machine that was made", changed(&made.id)).await
}

async fn a_machine_that_is_gone_is_told_of(context: &Context) -> Check {
    let made = context.make().await?;
    let mut events = context.provider.events().await?;
    let started = context.provider.delete(made.delete()).await?;
    context.ended(started.task).await?;
    let gone = |event: &Event| *event == Event::Gone(made.id.clone());
    next(context, &mut events, "a machine that is gone", gone).await
}

async fn two_listeners_hear_the_same(context: &Context) -> Check {
    let (mut one, mut two) = (context.provider.events().await?, context.provider.events().await?);
    let made = context.make().await?;
    next(context, &mut one, "to the first listener", changed(&made.id)).await?;
    next(context, &mut two, "to the second listener", changed(&made.id)).await
}

async fn templates_have_names(context: &Context) -> Check {
    for template in context.provider.templates().await? {
        ensure!(!template.id.is_empty() && !template.name.is_empty(), "there is {template:?}");
    }
    Ok(())
}

async fn hosts_have_room_for_what_they_run(context: &Context) -> Check {
    let made = context.make().await?;
    let hosts = context.provider.hosts().await?;
    ensure!(!hosts.is_empty(), "there is a machine, and no host");
    for host in &hosts {
        ensure!(!host.name.is_empty(), "there is {host:?}");
    }
    if let Some(name) = context.shown(&made.id).await?.host {
        ensure!(hosts.iter().any(|host| host.name == name), "it runs on {name}, which is no host");
    }
    Ok(())
}
