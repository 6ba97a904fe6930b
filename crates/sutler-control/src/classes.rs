//! The controller of VMClasses: says whether a size makes sense, and who uses it.

use std::sync::Arc;

use kube::{ResourceExt as _, runtime::controller::Action};
use sutler_api::{
    conditions,
    infra::{Firmware, VMClass, VMClassSpec},
    names::{condition_types, reasons},
    quantity::Quantity,
};

use crate::{
    context::Context,
    fleet::{Key, lock},
    images::status_key,
    index::Reference,
    machine::Error,
    used::{self, Standing},
};

const MIB: u64 = 1 << 20;

/// Looks at one class.
pub(crate) async fn reconcile(class: Arc<VMClass>, context: Arc<Context>) -> Result<Action, Error> {
    context.counters.count_reconcile("VMClass");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let key = Key::new(class.namespace().unwrap_or_default(), class.name_any());
    let old = class.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let (count, providers) = {
        let index = lock(&context.index);
        let reference = Reference::Class(key.clone());
        (index.count(&reference), index.providers(&reference))
    };
    new.used_by_vms = i32::try_from(count).ok();
    let valid = validate(&class.spec);
    let ready = |provider: &Key| {
        context.fleet.get(provider).is_some_and(|connection| connection.capabilities().is_some())
    };
    let all_ready = providers.iter().all(ready);
    // What was known stays so while nobody can be asked.
    let supported = providers.iter().filter(|_| valid.is_ok()).filter_map(|provider| {
        let name = status_key(&key, provider);
        (ready(provider) || old.supported_providers.contains(&name)).then_some(name)
    });
    new.supported_providers = supported.collect();
    let generation = class.metadata.generation;
    new.observed_generation = generation;
    let (holds, reason, message) = match valid {
        Ok(()) => (true, reasons::READY, "machines can have this size".to_owned()),
        Err((field, message)) => (false, reasons::INVALID, format!("{field}: {message}")),
    };
    let now = context.clock.now();
    let list = &mut new.conditions;
    let type_ = condition_types::READY;
    conditions::set(list, type_, holds.into(), reason, &message, generation, now);
    let counts_alone = new.conditions == old.conditions;
    used::publish(&context, class.as_ref(), &Standing { old, new, counts_alone, all_ready }).await
}

/// What is wrong with a class: the field, and what to do about it.
type Wrong = (&'static str, String);

/// Whether a class makes sense.
fn validate(spec: &VMClassSpec) -> Result<(), Wrong> {
    if spec.cpu < 1 {
        return Err(("spec.cpu", "a machine needs a CPU: give it at least 1".to_owned()));
    }
    let memory = read(&spec.memory, "spec.memory")?;
    if memory < MIB {
        let message = format!("{} is less than 1 MiB: write a unit, such as 8Gi", spec.memory);
        return Err(("spec.memory", message));
    }
    if let Some(disk) = &spec.disk_defaults
        && read(&disk.size, "spec.diskDefaults.size")? < MIB
    {
        let message = format!("{} is less than 1 MiB: write a unit, such as 40Gi", disk.size);
        return Err(("spec.diskDefaults.size", message));
    }
    limits(spec, memory)?;
    if let Some(security) = &spec.security_profile {
        let bios = spec.firmware == Firmware::Bios;
        if security.secure_boot && bios {
            let message = "secure boot needs UEFI: set spec.firmware to UEFI".to_owned();
            return Err(("spec.securityProfile.secureBoot", message));
        }
        if security.tpm_version.is_some() && !security.tpm_enabled {
            let message = "a version says nothing without tpmEnabled: true".to_owned();
            return Err(("spec.securityProfile.tpmVersion", message));
        }
    }
    Ok(())
}

fn limits(spec: &VMClassSpec, memory: u64) -> Result<(), Wrong> {
    let Some(limits) = &spec.resource_limits else { return Ok(()) };
    if let (Some(limit), Some(reserved)) = (limits.cpu_limit, limits.cpu_reservation)
        && reserved > limit
    {
        let message = format!("{reserved} is more than the limit of {limit}");
        return Err(("spec.resourceLimits.cpuReservation", message));
    }
    let field = "spec.resourceLimits.memoryLimit";
    let limit = limits.memory_limit.as_ref().map(|limit| read(limit, field)).transpose()?;
    let reserved_field = "spec.resourceLimits.memoryReservation";
    let reserved = limits.memory_reservation.as_ref();
    let reserved = reserved.map(|reserved| read(reserved, reserved_field)).transpose()?;
    if let Some(limit) = limit.filter(|limit| *limit < MIB) {
        return Err((field, format!("{limit} bytes are less than 1 MiB: write a unit")));
    }
    let most = limit.unwrap_or(u64::MAX).min(memory);
    match reserved {
        Some(reserved) if reserved > most => {
            let message = "it is more than the machine may use".to_owned();
            Err((reserved_field, message))
        }
        _ => Ok(()),
    }
}

fn read(quantity: &Quantity, field: &'static str) -> Result<u64, Wrong> {
    quantity.to_u64().map_err(|error| (field, error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn field_of(spec: Value) -> Option<&'static str> {
        let spec: VMClassSpec = serde_json::from_value(spec).unwrap();
        validate(&spec).err().map(|(field, _)| field)
    }

    #[test]
    fn a_class_that_makes_no_sense_names_the_field() {
        let limits = |limits: Value| json!({ "cpu": 1, "memory": "1Gi", "resourceLimits": limits });
        for (spec, field) in [
            (json!({ "cpu": 2, "memory": "4Gi" }), None),
            (json!({ "cpu": 0, "memory": "4Gi" }), Some("spec.cpu")),
            (json!({ "cpu": 1, "memory": "512" }), Some("spec.memory")),
            (json!({ "cpu": 1, "memory": "lots" }), Some("spec.memory")),
            (
                json!({ "cpu": 1, "memory": "1Gi", "diskDefaults": { "size": "40" } }),
                Some("spec.diskDefaults.size"),
            ),
            (
                json!({ "cpu": 1, "memory": "1Gi", "securityProfile": { "secureBoot": true } }),
                Some("spec.securityProfile.secureBoot"),
            ),
            (
                limits(json!({ "cpuLimit": 100, "cpuReservation": 200 })),
                Some("spec.resourceLimits.cpuReservation"),
            ),
            (
                limits(json!({ "memoryReservation": "2Gi" })),
                Some("spec.resourceLimits.memoryReservation"),
            ),
            (limits(json!({ "memoryReservation": "1Gi", "memoryLimit": "1Gi" })), None),
        ] {
            assert_eq!(field_of(spec.clone()), field, "{spec}");
        }
    }
}
