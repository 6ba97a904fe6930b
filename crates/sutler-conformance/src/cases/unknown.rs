//! What is asked of machines, tasks and snapshots that are not there.

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, refused},
};

cases! { "unknown":
    a_machine_that_is_not_there_is_none [ABSENCE] nothing,
    a_task_that_is_not_there_is_unknown [ABSENCE] nothing,
    a_disk_that_is_not_there_is_none [ABSENCE] nothing,
    deleting_what_is_not_there_is_done [ABSENCE] nothing,
    switching_what_is_not_there [NOT_FOUND] nothing,
    reconfiguring_what_is_not_there [NOT_FOUND] reconfigure,
    a_snapshot_of_what_is_not_there [NOT_FOUND] snapshots,
    deleting_a_snapshot_of_what_is_not_there_is_done [ABSENCE] snapshots,
    deleting_a_snapshot_that_is_not_there_is_done [ABSENCE] snapshots,
    going_back_to_a_snapshot_that_is_not_there [NOT_FOUND] snapshots,
    copying_what_is_not_there [NOT_FOUND] clones,
    adopting_what_is_not_there [NOT_FOUND] token,
    disowning_what_is_not_there [NOT_FOUND] token,
    upgrading_what_is_not_there [NOT_FOUND] hardware_upgrade,
    a_command_in_what_is_not_there [NOT_FOUND] guest_commands,
    sending_out_what_is_not_there [NOT_FOUND] disk_export,
    removing_an_image_that_is_not_there_is_done [ABSENCE] image_import,
}

fn nowhere(context: &Context) -> MachineId {
    context.word("nowhere").into()
}

async fn a_machine_that_is_not_there_is_none(context: &Context) -> Check {
    let found = context.provider.describe(&nowhere(context)).await?;
    ensure!(found.is_none(), "a machine that was never made is there");
    Ok(())
}

async fn a_task_that_is_not_there_is_unknown(context: &Context) -> Check {
    let state = context.provider.task(&context.word("task").into()).await?;
    ensure!(state == TaskState::Unknown, "a task that was never begun is {state:?}");
    Ok(())
}

async fn a_disk_that_is_not_there_is_none(context: &Context) -> Check {
    let disk = DiskRef { machine: nowhere(context), disk: None, snapshot: None };
    match context.provider.disk_info(&disk).await {
        Ok(None) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        other => Err(crate::case::Broken(format!("it is {other:?}"))),
    }
}

async fn deleting_what_is_not_there_is_done(context: &Context) -> Check {
    let request = DeleteRequest { id: nowhere(context), proof: context.stranger() };
    let started = context.provider.delete(request).await?;
    context.ended(started.task).await.map(drop)
}

async fn switching_what_is_not_there(context: &Context) -> Check {
    for op in [PowerOp::On, PowerOp::Off, PowerOp::Reboot] {
        let request = PowerRequest { id: nowhere(context), proof: context.stranger(), op };
        refused(context.provider.power(request).await, ErrorKind::NotFound, "power")?;
    }
    Ok(())
}

async fn reconfiguring_what_is_not_there(context: &Context) -> Check {
    let request = ReconfigureRequest {
        id: nowhere(context),
        proof: context.stranger(),
        desired: context.request(),
        remove_disks: Vec::new(),
        remove_nics: Vec::new(),
    };
    refused(context.provider.reconfigure(request).await, ErrorKind::NotFound, "reconfigure")
        .map(drop)
}

async fn a_snapshot_of_what_is_not_there(context: &Context) -> Check {
    let request = SnapshotRequest {
        id: nowhere(context),
        proof: context.stranger(),
        name: "one".to_owned(),
        description: None,
        memory: false,
        quiesce: false,
    };
    let answer = context.provider.snapshot_create(request).await;
    refused(answer, ErrorKind::NotFound, "snapshot_create").map(drop)
}

async fn deleting_a_snapshot_of_what_is_not_there_is_done(context: &Context) -> Check {
    let proof = context.stranger();
    context.provider.snapshot_delete(&nowhere(context), &proof, &"none".into()).await?;
    Ok(())
}

async fn deleting_a_snapshot_that_is_not_there_is_done(context: &Context) -> Check {
    let made = context.make().await?;
    context.provider.snapshot_delete(&made.id, &made.proof(), &"none".into()).await?;
    Ok(())
}

async fn going_back_to_a_snapshot_that_is_not_there(context: &Context) -> Check {
    let made = context.make().await?;
    let answer = context.provider.snapshot_revert(&made.id, &made.proof(), &"none".into()).await;
    refused(answer, ErrorKind::NotFound, "snapshot_revert").map(drop)
}

async fn copying_what_is_not_there(context: &Context) -> Check {
    let request = CloneRequest {
        source: nowhere(context),
        snapshot: None,
        target: context.request(),
        linked: false,
        customize: serde_json::Map::new(),
    };
    let answer = context.provider.clone_machine(request).await;
    refused(answer, ErrorKind::NotFound, "clone_machine").map(drop)
}

async fn adopting_what_is_not_there(context: &Context) -> Check {
    let answer = context.provider.adopt(&nowhere(context), &context.owner()).await;
    refused(answer, ErrorKind::NotFound, "adopt").map(drop)
}

async fn disowning_what_is_not_there(context: &Context) -> Check {
    let answer = context.provider.disown(&nowhere(context), &context.stranger()).await;
    refused(answer, ErrorKind::NotFound, "disown").map(drop)
}

async fn upgrading_what_is_not_there(context: &Context) -> Check {
    let proof = context.stranger();
    let request = HardwareUpgradeRequest { id: nowhere(context), proof, version: 1 };
    let answer = context.provider.hardware_upgrade(request).await;
    refused(answer, ErrorKind::NotFound, "hardware_upgrade").map(drop)
}

async fn a_command_in_what_is_not_there(context: &Context) -> Check {
    let command = GuestCommand {
        id: nowhere(context),
        proof: context.stranger(),
        command: vec!["true".to_owned()],
        timeout: context.patience(),
    };
    refused(context.provider.guest_exec(command).await, ErrorKind::NotFound, "guest_exec").map(drop)
}

async fn sending_out_what_is_not_there(context: &Context) -> Check {
    let request = ExportRequest {
        disk: DiskRef { machine: nowhere(context), disk: None, snapshot: None },
        destination: format!("{}/{}", context.export_to(), context.word("out")),
        format: None,
        compress: false,
        credentials: Credentials::default(),
        storage: serde_json::Map::new(),
    };
    refused(context.provider.disk_export(request).await, ErrorKind::NotFound, "disk_export")
        .map(drop)
}

async fn removing_an_image_that_is_not_there_is_done(context: &Context) -> Check {
    super::transfer::remove(context, &context.word("image")).await
}
