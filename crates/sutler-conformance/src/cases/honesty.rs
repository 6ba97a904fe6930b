//! Whether a platform can what it says, and says what it cannot.

use std::{fmt::Debug, time::Duration};

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "platform":
    is_well [ANSWERS] nothing,
    capabilities_stay_the_same [HONEST] nothing,
    capabilities_make_sense [HONEST] nothing,
    listing_is_as_reported [HONEST] nothing,
    events_are_as_reported [HONEST] nothing,
    templates_are_as_reported [HONEST] nothing,
    hosts_are_as_reported [HONEST] nothing,
    reconfiguring_is_as_reported [HONEST] nothing,
    shutting_down_is_as_reported [HONEST] nothing,
    pausing_is_as_reported [HONEST] nothing,
    snapshots_are_as_reported [HONEST] nothing,
    saving_memory_is_as_reported [HONEST] snapshots,
    copies_are_as_reported [HONEST] nothing,
    linked_copies_are_as_reported [HONEST] clones,
    images_are_as_reported [HONEST] nothing,
    kept_disks_are_as_reported [HONEST] nothing,
    exports_are_as_reported [HONEST] nothing,
    imports_are_as_reported [HONEST] nothing,
    upgrades_are_as_reported [HONEST] nothing,
    guest_commands_are_as_reported [HONEST] nothing,
    consoles_are_as_reported [HONEST] nothing,
    moves_are_as_reported [HONEST] nothing,
    tokens_are_as_reported [HONEST] nothing,
    ids_are_told_as_reported [HONEST] nothing,
}

/// Reported and refused as Unsupported is a lie, and so is the opposite.
fn as_reported<T: Debug>(what: &str, reported: bool, answer: Result<T>) -> Check {
    let unsupported = matches!(&answer, Err(error) if error.kind() == ErrorKind::Unsupported);
    ensure!(
        !(reported && unsupported),
        "{what}: it is reported as a capability and refused as Unsupported"
    );
    ensure!(
        reported || unsupported,
        "{what}: it is not reported as a capability and not refused as Unsupported: {answer:?}"
    );
    Ok(())
}

async fn is_well(context: &Context) -> Check {
    context.provider.validate().await?;
    Ok(context.provider.validate().await?)
}

async fn capabilities_stay_the_same(context: &Context) -> Check {
    let again = context.provider.capabilities().await?;
    ensure!(again == context.can, "they were {:?}", context.can);
    Ok(())
}

async fn capabilities_make_sense(context: &Context) -> Check {
    let can = context.provider.capabilities().await?;
    ensure!(can.token || can.unique_by != UniqueBy::Token, "tokens are unique, and there are none");
    for (more, less, what) in [
        (can.memory_snapshots, can.snapshots, "memory_snapshots without snapshots"),
        (can.linked_clones, can.clones, "linked_clones without clones"),
        (can.reconfigure_online, can.reconfigure, "reconfigure_online without reconfigure"),
        (can.disk_growth_online, can.reconfigure, "disk_growth_online without reconfigure"),
        (can.export_compression, can.disk_export, "export_compression without disk_export"),
        (!can.returns_id, can.list, "neither IDs nor a list"),
    ] {
        ensure!(!more || less, "{what}");
    }
    ensure!(can.name_limit >= 8, "names of {} characters prove nothing", can.name_limit);
    ensure!(can.concurrency > 0, "no call could ever be made");
    let Deadlines { look, list, make, change, transfer } = can.deadlines;
    let shortest = [look, list, make, change, transfer].into_iter().min();
    ensure!(shortest > Some(Duration::ZERO), "a deadline of no time");
    Ok(())
}

async fn listing_is_as_reported(context: &Context) -> Check {
    as_reported("list", context.can.list, context.provider.list().await)
}

async fn events_are_as_reported(context: &Context) -> Check {
    let answer = context.provider.events().await.map(drop);
    as_reported("events", context.can.events, answer)
}

async fn templates_are_as_reported(context: &Context) -> Check {
    as_reported("templates", context.can.templates, context.provider.templates().await)
}

async fn hosts_are_as_reported(context: &Context) -> Check {
    as_reported("hosts", context.can.hosts, context.provider.hosts().await)
}

async fn reconfiguring_is_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let request = ReconfigureRequest {
        id: made.id.clone(),
        proof: made.proof(),
        desired: made.request.clone(),
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    as_reported("reconfigure", context.can.reconfigure, context.provider.reconfigure(request).await)
}

async fn shutting_down_is_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let op = PowerOp::Shutdown { timeout: Duration::from_secs(30) };
    let answer = context.provider.power(made.power(op)).await;
    as_reported("graceful_shutdown", context.can.graceful_shutdown, answer)
}

async fn pausing_is_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.power(made.power(PowerOp::Pause)).await;
    as_reported("pause", context.can.pause, answer)
}

pub(super) fn snapshot(made: &crate::context::Made, name: &str, memory: bool) -> SnapshotRequest {
    SnapshotRequest {
        id: made.id.clone(),
        proof: made.proof(),
        name: name.to_owned(),
        description: None,
        memory,
        quiesce: false,
    }
}

async fn snapshots_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.snapshot_create(snapshot(&made, "one", false)).await;
    as_reported("snapshots", context.can.snapshots, answer)
}

async fn saving_memory_is_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.snapshot_create(snapshot(&made, "one", true)).await;
    as_reported("memory_snapshots", context.can.memory_snapshots, answer)
}

async fn copies_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let target = context.request();
    let answer = super::copies::copy(context, &made, &target, false).await;
    as_reported("clones", context.can.clones, answer)
}

async fn linked_copies_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let target = context.request();
    let answer = super::copies::copy(context, &made, &target, true).await;
    as_reported("linked_clones", context.can.linked_clones, answer)
}

async fn images_are_as_reported(context: &Context) -> Check {
    let target = context.word("image");
    let request = context.image(&target);
    let answer = context.provider.image_prepare(request).await;
    let task = answer.as_ref().ok().and_then(|prepared| prepared.task.clone());
    as_reported("image_import", context.can.image_import, answer)?;
    if context.can.image_import {
        // One that is still on its way would come after its removal.
        context.ended(task).await?;
        super::transfer::remove(context, &target).await?;
    }
    Ok(())
}

/// Whoever has no kept disks refuses them: an ordinary one in their place would go with its machine.
async fn kept_disks_are_as_reported(context: &Context) -> Check {
    let reported = context.can.kept_disks;
    as_reported("kept_disks", reported, context.provider.kept_disks().await)?;
    let key = context.key();
    as_reported("kept_disk_remove", reported, context.provider.kept_disk_remove(&key).await)?;
    let request = super::kept::request(context, &key, 1);
    let answer = context.provider.create(request.clone()).await;
    if let Ok(accepted) = &answer {
        context.made_by(request, accepted.clone()).await?;
    }
    as_reported("a machine with a kept disk", reported, answer)
}

async fn exports_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let request = super::transfer::export(context, &made, &context.word("out"));
    as_reported("disk_export", context.can.disk_export, context.provider.disk_export(request).await)
}

async fn imports_are_as_reported(context: &Context) -> Check {
    let request = super::transfer::import(context.import_from(), &context.word("in"));
    as_reported("disk_import", context.can.disk_import, context.provider.disk_import(request).await)
}

async fn upgrades_are_as_reported(context: &Context) -> Check {
    let request = CreateRequest { power_on: false, ..context.request() };
    let made = context.make_like(request).await?;
    let request = HardwareUpgradeRequest { id: made.id.clone(), proof: made.proof(), version: 1 };
    let answer = context.provider.hardware_upgrade(request).await;
    as_reported("hardware_upgrade", context.can.hardware_upgrade, answer)
}

async fn guest_commands_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let command = super::guest::command(&made, &["true"]);
    let answer = context.provider.guest_exec(command).await;
    as_reported("guest_commands", context.can.guest_commands, answer)
}

/// Opening a console can take a guest; only what is not reported can be asked of every platform.
async fn consoles_are_as_reported(context: &Context) -> Check {
    if context.can.console {
        return Ok(());
    }
    let made = context.make().await?;
    let answer = context.provider.console(&made.id, &made.proof()).await;
    refused(answer, ErrorKind::Unsupported, "console").map(drop)
}

async fn moves_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let host = context.shown(&made.id).await?.host.unwrap_or_default();
    let request = MigrateRequest { id: made.id.clone(), proof: made.proof(), host };
    as_reported(
        "live_migration",
        context.can.live_migration,
        context.provider.migrate(request).await,
    )
}

async fn tokens_are_as_reported(context: &Context) -> Check {
    let made = context.make().await?;
    let shown = context.shown(&made.id).await?;
    let carried = shown.token == Some(made.owner.token.clone())
        && shown.installation.as_ref() == Some(&made.owner.installation);
    ensure!(
        carried == context.can.token,
        "token is reported as {}, and the machine shows {:?} of {:?}",
        context.can.token,
        shown.token,
        shown.installation
    );
    as_reported(
        "disown",
        context.can.token,
        context.provider.disown(&made.id, &made.proof()).await,
    )?;
    if context.can.token {
        // Back to its owner, so that it can be deleted.
        context.provider.adopt(&made.id, &made.owner).await?;
    }
    Ok(())
}

async fn ids_are_told_as_reported(context: &Context) -> Check {
    let request = context.request();
    let accepted = context.provider.create(request.clone()).await?;
    let told = accepted.id.is_some();
    context.made_by(request, accepted).await?;
    ensure!(told == context.can.returns_id, "an ID was told: {told}");
    Ok(())
}
