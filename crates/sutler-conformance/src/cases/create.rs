//! Making machines, once each.

use futures::future::join_all;
use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "create":
    what_was_made_can_be_seen [OBSERVED] nothing,
    it_is_as_it_was_asked_for [OBSERVED] nothing,
    it_is_off_where_that_was_asked_for [OBSERVED] nothing,
    its_disks_are_there [OBSERVED] nothing,
    its_addresses_are_told [OBSERVED] addresses,
    its_task_can_be_asked_after [TASKS] nothing,
    a_second_request_finds_the_first [ONCE] knows_its_own,
    requests_at_the_same_time_make_one [ONCE] knows_its_own,
    a_request_again_after_its_end_makes_none [ONCE] knows_its_own,
    somebody_elses_name_is_taken [UNIQUE] unique,
    a_taken_name_stays_with_its_machine [UNIQUE] unique_and_listed,
    other_names_are_other_machines [UNIQUE] nothing,
    many_at_once_are_all_made [ANSWERS] nothing,
    a_caller_that_is_gone_is_no_matter [CALLER_GONE] unique_and_listed,
}

async fn what_was_made_can_be_seen(context: &Context) -> Check {
    let made = context.make().await?;
    let shown = context.shown(&made.id).await?;
    ensure!(shown.id == made.id && shown.name == made.name, "{made:?} is shown as {shown:?}");
    if context.can.list {
        let listed = context.listed(&made.request).await?;
        ensure!(listed.len() == 1, "it is listed {} times", listed.len());
    }
    Ok(())
}

async fn it_is_as_it_was_asked_for(context: &Context) -> Check {
    let mut request = context.request();
    request.class.iter_mut().for_each(|class| {
        class.cpu = 2;
        class.memory_mib = 1024;
    });
    let made = context.make_like(request).await?;
    let shown = context.shown(&made.id).await?;
    ensure!(shown.cpu.is_none_or(|cpu| cpu == 2), "it has {:?} CPUs and not 2", shown.cpu);
    let memory = shown.memory_mib;
    ensure!(memory.is_none_or(|mib| mib == 1024), "it has {memory:?} MiB and not 1024");
    ensure!(matches!(shown.power, Power::On | Power::Unknown), "it is {:?}", shown.power);
    Ok(())
}

async fn it_is_off_where_that_was_asked_for(context: &Context) -> Check {
    let request = CreateRequest { power_on: false, ..context.request() };
    let made = context.make_like(request).await?;
    let power = context.shown(&made.id).await?.power;
    ensure!(matches!(power, Power::Off | Power::Unknown), "it is {power:?}");
    Ok(())
}

async fn its_disks_are_there(context: &Context) -> Check {
    let data = Disk { name: "data".to_owned(), size_gib: 3, ..Disk::default() };
    let made = context.make_like(CreateRequest { disks: vec![data], ..context.request() }).await?;
    let Some(disks) = context.shown(&made.id).await?.disks else { return Ok(()) };
    let size = |name: &str| disks.iter().find(|disk| disk.name == name).map(|disk| disk.size_gib);
    ensure!(size("root").is_some() && size("data") == Some(3), "it has {disks:?}");
    Ok(())
}

async fn its_addresses_are_told(context: &Context) -> Check {
    let made = context.make().await?;
    context
        .until("it has an address", || async {
            Ok((!context.shown(&made.id).await?.ips.is_empty()).then_some(()))
        })
        .await
}

async fn its_task_can_be_asked_after(context: &Context) -> Check {
    let request = context.request();
    let accepted = context.provider.create(request.clone()).await?;
    if let Some(task) = accepted.task.clone() {
        let state = context.provider.task(&task).await?;
        ensure!(state != TaskState::Unknown, "task {task} is not known right after its answer");
        context.ended(Some(task.clone())).await?;
        let (first, second) =
            (context.provider.task(&task).await?, context.provider.task(&task).await?);
        ensure!(first == second, "its end was {first:?} and then {second:?}");
    }
    context.made_by(request, accepted).await.map(drop)
}

async fn a_second_request_finds_the_first(context: &Context) -> Check {
    let made = context.make().await?;
    let again = context.provider.create(made.request.clone()).await?;
    if let Some(id) = &again.id {
        context.remember(id, &made.request);
        ensure!(*id == made.id, "the same request made {id} beside {}", made.id);
    }
    context.ended(again.task).await?;
    one(context, &made.request).await
}

async fn requests_at_the_same_time_make_one(context: &Context) -> Check {
    let request = context.request();
    let answers = join_all((0..4).map(|_| context.provider.create(request.clone()))).await;
    let mut ids = Vec::new();
    for answer in answers {
        match answer {
            Ok(accepted) => {
                if let Some(id) = &accepted.id {
                    context.remember(id, &request);
                    ids.push(id.clone());
                }
                context.ended(accepted.task).await?;
            }
            // One that is under way may be in the way of another.
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() <= 1, "the same request, four times at once, made {ids:?}");
    one(context, &request).await
}

async fn a_request_again_after_its_end_makes_none(context: &Context) -> Check {
    let request = context.request();
    for _ in 0..3 {
        let accepted = context.provider.create(request.clone()).await?;
        context.made_by(request.clone(), accepted).await?;
    }
    one(context, &request).await
}

async fn somebody_elses_name_is_taken(context: &Context) -> Check {
    let made = context.make().await?;
    let thief = CreateRequest { name: made.name.clone(), ..context.request() };
    let answer = context.provider.create(thief.clone()).await;
    if let Ok(Accepted { id: Some(id), .. }) = &answer {
        context.remember(id, &thief);
    }
    refused(answer, ErrorKind::Conflict, "a second machine of the same name, for another owner")
        .map(drop)
}

async fn a_taken_name_stays_with_its_machine(context: &Context) -> Check {
    let made = context.make().await?;
    let before = context.shown(&made.id).await?;
    let thief = CreateRequest { name: made.name.clone(), ..context.request() };
    drop(context.provider.create(thief).await);
    let after = context.shown(&made.id).await?;
    ensure!(
        before.token == after.token,
        "its token was {:?} and is {:?}",
        before.token,
        after.token
    );
    let listing = context.provider.list().await?;
    let count = listing.machines.iter().filter(|machine| machine.name == made.name).count();
    ensure!(count == 1, "{count} machines are called {:?}", made.name);
    Ok(())
}

async fn other_names_are_other_machines(context: &Context) -> Check {
    let (one, two) = (context.make().await?, context.make().await?);
    ensure!(one.id != two.id, "two requests have one machine {}", one.id);
    Ok(())
}

async fn many_at_once_are_all_made(context: &Context) -> Check {
    let made = join_all((0..8).map(|_| context.make())).await;
    let made: Vec<_> = made.into_iter().collect::<Check<_>>()?;
    let mut ids: Vec<_> = made.iter().map(|made| made.id.clone()).collect();
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == 8, "eight requests made {ids:?}");
    Ok(())
}

async fn a_caller_that_is_gone_is_no_matter(context: &Context) -> Check {
    let request = context.request();
    let patience = std::time::Duration::from_millis(5);
    drop(tokio::time::timeout(patience, context.provider.create(request.clone())).await);
    // As a control plane does after a crash: it waits, looks, and asks again if there is nothing.
    let window = context.can.list_lag + std::time::Duration::from_millis(500);
    let end = tokio::time::Instant::now() + window;
    while context.listed(&request).await?.is_empty() && tokio::time::Instant::now() < end {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    if context.listed(&request).await?.is_empty() {
        let again = context.provider.create(request.clone()).await?;
        context.made_by(request.clone(), again).await?;
    }
    one(context, &request).await
}

/// Exactly one machine of this request is there.
async fn one(context: &Context, request: &CreateRequest) -> Check {
    if !context.can.list {
        return Ok(());
    }
    let listed = context.listed(request).await?;
    for machine in &listed {
        context.remember(&machine.id, request);
    }
    let ids: Vec<_> = listed.iter().map(|machine| &machine.id).collect();
    ensure!(ids.len() == 1, "one machine was asked for, and there are {ids:?}");
    Ok(())
}
