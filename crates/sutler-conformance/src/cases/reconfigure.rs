//! Changing machines until they are as desired.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "reconfigure":
    cpu_and_memory_change [OBSERVED] reconfigure,
    a_second_time_changes_nothing [ONCE] reconfigure,
    as_it_is_takes_nothing [ONCE] reconfigure,
    a_disk_is_added_and_grows [OBSERVED] reconfigure,
    a_disk_does_not_shrink [BAD_INPUT] reconfigure,
    a_stranger_does_not_change_it [OWNER] reconfigure,
    another_owners_token_does_not_change_it [OWNER] reconfigure_with_token,
}

pub(super) fn to(made: &Made, desired: CreateRequest) -> ReconfigureRequest {
    ReconfigureRequest {
        id: made.id.clone(),
        proof: made.proof(),
        desired,
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    }
}

/// A machine that can be changed: off, where it cannot be while it runs.
async fn changeable(context: &Context) -> Check<Made> {
    let power_on = context.can.reconfigure_online && context.can.disk_growth_online;
    let made = context.make_like(CreateRequest { power_on, ..context.request() }).await?;
    // One that has no room to grow is off first.
    let shown = context.shown(&made.id).await?;
    let room = shown.most_cpu.is_none_or(|most| most >= 2)
        && shown.most_memory_mib.is_none_or(|most| most >= 1024);
    if power_on && !room {
        let started = context.provider.power(made.power(PowerOp::Off)).await?;
        context.ended(started.task).await?;
    }
    Ok(made)
}

fn sized(made: &Made, cpu: u32, memory_mib: u64) -> CreateRequest {
    let mut desired = made.request.clone();
    desired.class.iter_mut().for_each(|class| {
        class.cpu = cpu;
        class.memory_mib = memory_mib;
    });
    desired
}

fn with_disk(made: &Made, size_gib: u64) -> CreateRequest {
    let data = Disk { name: "data".to_owned(), size_gib, ..Disk::default() };
    CreateRequest { disks: vec![data], ..made.request.clone() }
}

async fn change(context: &Context, request: ReconfigureRequest) -> Check {
    let started = context.provider.reconfigure(request).await?;
    context.ended(started.task).await.map(drop)
}

async fn is(context: &Context, made: &Made, cpu: u32, memory_mib: u64) -> Check {
    let shown = context.shown(&made.id).await?;
    let right = shown.cpu.is_none_or(|have| have == cpu)
        && shown.memory_mib.is_none_or(|have| have == memory_mib);
    ensure!(right, "it has {:?} CPUs and {:?} MiB", shown.cpu, shown.memory_mib);
    Ok(())
}

async fn cpu_and_memory_change(context: &Context) -> Check {
    let made = changeable(context).await?;
    change(context, to(&made, sized(&made, 2, 1024))).await?;
    is(context, &made, 2, 1024).await
}

async fn a_second_time_changes_nothing(context: &Context) -> Check {
    let made = changeable(context).await?;
    for _ in 0..2 {
        change(context, to(&made, sized(&made, 2, 1024))).await?;
        is(context, &made, 2, 1024).await?;
    }
    Ok(())
}

async fn as_it_is_takes_nothing(context: &Context) -> Check {
    let made = changeable(context).await?;
    let before = context.shown(&made.id).await?;
    change(context, to(&made, made.request.clone())).await?;
    let after = context.shown(&made.id).await?;
    let same = |machine: &Machine| {
        let Machine { cpu, memory_mib, disks, power, .. } = machine.clone();
        (cpu, memory_mib, disks, power)
    };
    ensure!(same(&before) == same(&after), "it was {before:?} and is {after:?}");
    Ok(())
}

async fn a_disk_is_added_and_grows(context: &Context) -> Check {
    let made = changeable(context).await?;
    for size in [2, 4] {
        change(context, to(&made, with_disk(&made, size))).await?;
        let Some(disks) = context.shown(&made.id).await?.disks else { return Ok(()) };
        let found: Vec<_> = disks.iter().filter(|disk| disk.name == "data").collect();
        ensure!(found.len() == 1 && found[0].size_gib == size, "it has {disks:?}");
    }
    Ok(())
}

async fn a_disk_does_not_shrink(context: &Context) -> Check {
    let made = changeable(context).await?;
    change(context, to(&made, with_disk(&made, 4))).await?;
    let answer = context.provider.reconfigure(to(&made, with_disk(&made, 2))).await;
    refused(answer, ErrorKind::Invalid, "a disk that is to become smaller")?;
    let Some(disks) = context.shown(&made.id).await?.disks else { return Ok(()) };
    let size = disks.iter().find(|disk| disk.name == "data").map(|disk| disk.size_gib);
    ensure!(size == Some(4), "it was refused, and the disk has {size:?} GiB");
    Ok(())
}

async fn a_stranger_does_not_change_it(context: &Context) -> Check {
    let made = changeable(context).await?;
    let request =
        ReconfigureRequest { proof: context.stranger(), ..to(&made, sized(&made, 2, 1024)) };
    let answer = context.provider.reconfigure(request).await;
    refused(answer, ErrorKind::Conflict, "changing somebody else's machine")?;
    is(context, &made, 1, 512).await
}

async fn another_owners_token_does_not_change_it(context: &Context) -> Check {
    let made = changeable(context).await?;
    let mut request = to(&made, sized(&made, 2, 1024));
    request.proof.owner = context.owner();
    let answer = context.provider.reconfigure(request).await;
    refused(answer, ErrorKind::Conflict, "the right name and another token")?;
    is(context, &made, 1, 512).await
}
