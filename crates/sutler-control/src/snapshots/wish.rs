//! What a VMSnapshot asks for, and what of it nobody can carry out.

use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use sutler_api::infra::{ConsistencyLevel, SnapshotConfig, SnapshotType, VMSnapshot};
use sutler_provider::{Capabilities, platform_name};

use super::plan::Wish;
use crate::plan::Blocker;

/// How long a snapshot's name may be: what the strictest of the platforms takes.
const NAME_LIMIT: usize = 40;

/// What a record asks for, in terms of the contract.
pub(crate) fn read(snapshot: &VMSnapshot) -> Result<Wish, Blocker> {
    let config = snapshot.spec.snapshot_config.clone().unwrap_or_default();
    let SnapshotConfig {
        name,
        description,
        include_memory,
        quiesce,
        type_,
        consistency_level,
        compression: _,
        encryption,
    } = &config;
    if encryption.as_ref().is_some_and(|encryption| encryption.enabled) {
        return Err(Blocker::unserved("spec.snapshotConfig.encryption"));
    }
    if *type_ == SnapshotType::Application {
        return Err(Blocker::unserved("spec.snapshotConfig.type: Application"));
    }
    if *consistency_level == ConsistencyLevel::ApplicationConsistent {
        return Err(Blocker::unserved(
            "spec.snapshotConfig.consistencyLevel: ApplicationConsistent",
        ));
    }
    let crash =
        *type_ == SnapshotType::Crash || *consistency_level == ConsistencyLevel::CrashConsistent;
    let hashed = || {
        let base = snapshot.name_any().replace('.', "-");
        // Some platforms want a letter first.
        let digit = base.starts_with(|c: char| c.is_ascii_digit());
        let base = if digit { format!("s-{base}") } else { base };
        platform_name(&base, &snapshot.uid().unwrap_or_default(), NAME_LIMIT)
    };
    Ok(Wish {
        exact: name.is_some(),
        name: name.clone().unwrap_or_else(hashed),
        description: description.clone(),
        memory: *include_memory,
        quiesce: *quiesce && !crash,
        config: digest(snapshot),
    })
}

/// Whether the platform can do it.
pub(crate) fn check(wish: &Wish, capabilities: &Capabilities) -> Result<(), Blocker> {
    if !capabilities.snapshots {
        return Err(Blocker::unsupported(
            "spec.vmRef",
            "the machine's provider cannot take snapshots",
        ));
    }
    if wish.memory && !capabilities.memory_snapshots {
        return Err(Blocker::unsupported(
            "spec.snapshotConfig.includeMemory",
            "the machine's provider cannot save memory",
        ));
    }
    Ok(())
}

/// What is asked for and makes no difference here: it is said rather than refused.
pub(crate) fn without_effect(snapshot: &VMSnapshot, taken_as: Option<&str>) -> Vec<&'static str> {
    let spec = &snapshot.spec;
    let mut fields = Vec::new();
    if spec.snapshot_config.as_ref().is_some_and(|config| config.compression) {
        fields.push("spec.snapshotConfig.compression: the platform decides on that");
    }
    let counts = spec.retention_policy.as_ref().is_some_and(|policy| policy.max_count.is_some());
    if counts && !super::is_schedule(snapshot) {
        fields.push("spec.retentionPolicy.maxCount: it counts the snapshots of a schedule");
    }
    if taken_as.is_some_and(|taken| taken != digest(snapshot)) {
        fields.push(
            "spec.vmRef, spec.snapshotConfig: they were changed after the snapshot was asked for, \
             and a snapshot does not change: create another one",
        );
    }
    fields
}

/// A word that changes with what is asked for.
pub(crate) fn digest(snapshot: &VMSnapshot) -> String {
    let wanted = (&snapshot.spec.vm_ref, &snapshot.spec.snapshot_config);
    let text = serde_json::to_string(&wanted).unwrap_or_default();
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn snapshot(name: &str, spec: Value) -> VMSnapshot {
        let mut whole = json!({ "vmRef": { "name": "web" } });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
            "metadata": { "name": name, "namespace": "ns", "uid": "u" }, "spec": whole,
        }))
        .unwrap()
    }

    #[test]
    fn names_fit_every_platform() {
        for name in ["nightly", "9.to.5", &"long".repeat(50)] {
            let wish = read(&snapshot(name, json!({}))).unwrap();
            assert!(wish.name.len() <= NAME_LIMIT, "{}", wish.name);
            assert!(wish.name.starts_with(|c: char| c.is_ascii_lowercase()), "{}", wish.name);
            assert!(wish.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        }
        let exact = snapshot("a", json!({ "snapshotConfig": { "name": "Before_update" } }));
        assert_eq!(read(&exact).unwrap().name, "Before_update");
    }

    #[test]
    fn what_nobody_can_do_is_named() {
        for (config, field) in [
            (json!({ "encryption": { "enabled": true } }), "encryption"),
            (json!({ "type": "Application" }), "type"),
            (json!({ "consistencyLevel": "ApplicationConsistent" }), "consistencyLevel"),
        ] {
            let blocker = read(&snapshot("a", json!({ "snapshotConfig": config }))).unwrap_err();
            assert!(blocker.failed && blocker.message.contains(field), "{blocker:?}");
        }
        let memory = snapshot("a", json!({ "snapshotConfig": { "includeMemory": true } }));
        let wish = read(&memory).unwrap();
        let able = Capabilities { snapshots: true, ..Capabilities::default() };
        assert!(check(&wish, &able).unwrap_err().message.contains("includeMemory"));
        assert!(check(&wish, &Capabilities::default()).unwrap_err().message.contains("vmRef"));
    }

    #[test]
    fn a_crash_is_not_quiesced() {
        let quiesce = |config: Value| {
            read(&snapshot("a", json!({ "snapshotConfig": config }))).unwrap().quiesce
        };
        assert!(quiesce(json!({})));
        assert!(!quiesce(json!({ "type": "Crash" })));
        assert!(!quiesce(json!({ "consistencyLevel": "CrashConsistent" })));
        assert!(!quiesce(json!({ "quiesce": false })));
    }
}
