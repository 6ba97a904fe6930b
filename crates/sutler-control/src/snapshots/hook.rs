//! Snapshots that a machine's lifecycle asks for. They are VMSnapshots like all others, known by the
//! generation of the record that brought them about, so that a hook that is run again takes no second
//! one.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use sutler_api::{
    conditions,
    infra::{SnapshotAction, SnapshotConfig, VMSnapshot, VMSnapshotSpec, VirtualMachine},
    names::{condition_types, labels},
    refs::LocalObjectRef,
};
use sutler_provider::{Error, ErrorKind, Result, platform_name};

use crate::context::Context;

/// The pause between two looks at a snapshot.
const LOOK: Duration = Duration::from_secs(1);

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The name of the VMSnapshot that this generation of a record asks for.
pub(crate) fn name(vm: &VirtualMachine, moment: &str, action: &SnapshotAction) -> String {
    let generation = vm.metadata.generation.unwrap_or_default();
    let salt = format!("{} {moment} {generation}", vm.uid().unwrap_or_default());
    let wanted: String = action.name.to_lowercase();
    let wanted: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let base = format!("{}-{}", vm.name_any(), wanted.trim_matches('-'));
    platform_name(&base, &salt, 200)
}

/// Takes the snapshot of a hook and waits until it is there.
pub(crate) async fn run(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    moment: &str,
    action: &SnapshotAction,
) -> Result<()> {
    let namespace = vm.namespace().unwrap_or_default();
    let name = name(vm, moment, action);
    let api: Api<VMSnapshot> = Api::namespaced(context.client.clone(), &namespace);
    let snapshot = object(vm, &name, action);
    match api.create(&PostParams::default(), &snapshot).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(unwritten(&error)),
    }
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        let found = api.get_opt(&name).await.map_err(|error| unwritten(&error))?;
        let Some(found) = found else {
            let message = format!("{moment}: VMSnapshot {name} was deleted before it was taken");
            return Err(Error::new(ErrorKind::Failed, message));
        };
        let of = found.status.unwrap_or_default().conditions;
        if conditions::is_true(&of, condition_types::READY) {
            return Ok(());
        }
        if let Some(stalled) = conditions::find(&of, condition_types::STALLED) {
            let message = format!("{moment}: VMSnapshot {name}: {}", stalled.message);
            return Err(Error::new(ErrorKind::Failed, message));
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
    Err(Error::unavailable(format!("{moment}: VMSnapshot {name} is still not taken")))
}

fn object(vm: &VirtualMachine, name: &str, action: &SnapshotAction) -> VMSnapshot {
    let spec = VMSnapshotSpec {
        vm_ref: LocalObjectRef::new(vm.name_any()),
        snapshot_config: Some(SnapshotConfig {
            description: action.description.clone(),
            include_memory: action.include_memory.unwrap_or(false),
            ..SnapshotConfig::default()
        }),
        ..VMSnapshotSpec::default()
    };
    let mut snapshot = VMSnapshot::new(name, spec);
    let mark = platform_name(&vm.name_any(), &vm.uid().unwrap_or_default(), 63);
    snapshot.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: vm.namespace(),
        labels: Some([(labels::HOOK_OF.to_owned(), mark)].into()),
        ..ObjectMeta::default()
    };
    snapshot
}

fn unwritten(error: &kube::Error) -> Error {
    Error::unavailable(format!("the VMSnapshot of the hook could not be written: {error}"))
}
