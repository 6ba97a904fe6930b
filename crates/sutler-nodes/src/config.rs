//! What an AutoscalerConfig says of itself: whether it counts, and what of it is not carried out.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    autoscaler::{AutoscalerConfig, AutoscalerConfigStatus},
    conditions,
    names::{MANAGER, condition_types, reasons},
};
use sutler_control::kit::status_difference;
use sutler_scale::world::Settings;

use crate::context::Context;

/// The one that counts.
const NAME: &str = "default";

/// Writes what is other in the status of a config.
pub(crate) async fn tell(context: &Arc<Context>, config: &AutoscalerConfig) {
    let now = context.clock.now();
    let old = config.status.clone().unwrap_or_default();
    let said = say(config, context.settings.scaling);
    let mut new = AutoscalerConfigStatus {
        active: Some(said.active),
        message: Some(said.message.clone()),
        observed_generation: config.metadata.generation,
        ..old.clone()
    };
    conditions::set(
        &mut new.conditions,
        condition_types::READY,
        said.ready.into(),
        said.reason,
        &said.message,
        config.metadata.generation,
        now,
    );
    if status_difference(&old, &new).is_none() {
        return;
    }
    new.last_updated = Some(Time(now));
    let Some(patch) = status_difference(&old, &new) else { return };
    let body = json!({ "metadata": { "uid": config.uid() }, "status": patch });
    let api: Api<AutoscalerConfig> = Api::all(context.client.clone());
    let params = PatchParams::apply(MANAGER);
    if let Err(error) = api.patch_status(&config.name_any(), &params, &Patch::Merge(body)).await {
        tracing::debug!(%error, "the status of an AutoscalerConfig is written later");
    }
}

struct Said {
    active: bool,
    ready: bool,
    reason: &'static str,
    message: String,
}

fn say(config: &AutoscalerConfig, scaling: bool) -> Said {
    if config.name_any() != NAME {
        let message = format!("only the one called {NAME} counts");
        return Said { active: false, ready: false, reason: "NotUsed", message };
    }
    if !scaling {
        let message = "another autoscaler drives the groups: only time-outs count".to_owned();
        return Said { active: true, ready: true, reason: reasons::READY, message };
    }
    let global = config.spec.global_settings.clone().unwrap_or_default();
    if let Err(error) = Settings::read(&global) {
        let message = error.to_string();
        return Said { active: false, ready: false, reason: reasons::INVALID, message };
    }
    let mut open = Vec::new();
    if config.spec.node_group_defaults.is_some() {
        open.push(
            "nodeGroupDefaults and globalSettings.enableDynamicNodeGroupCreation: groups are not made by \
             themselves in this release, since no platform tells which sizes it sells: make the groups, \
             with minNodes 0 where they may be empty",
        );
    }
    if global.enable_rebalancing {
        open.push(
            "globalSettings.enableRebalancing: what would cost less is told in the groups' condition \
             Cheaper, and not done",
        );
    }
    match open.is_empty() {
        true => {
            let message = "in force".to_owned();
            Said { active: true, ready: true, reason: reasons::READY, message }
        }
        false => Said {
            active: true,
            ready: false,
            reason: reasons::NOT_YET_SERVED,
            message: format!("in force, but for {}", open.join("; ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, spec: serde_json::Value) -> AutoscalerConfig {
        AutoscalerConfig::new(name, serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn only_the_default_one_counts_and_what_is_not_done_is_named() {
        let plain = say(&config("default", json!({})), true);
        assert!(plain.active && plain.ready);
        let other = say(&config("other", json!({})), true);
        assert!(!other.active && other.message.contains("default"));
        let rebalancing = json!({ "globalSettings": { "enableRebalancing": true } });
        let said = say(&config("default", rebalancing), true);
        assert!(said.active && !said.ready && said.message.contains("enableRebalancing"));
        // Whether or not groups may be made: nobody reads what they would be like.
        for dynamic in [true, false] {
            let defaults = json!({ "nodeGroupDefaults": { "maxNodes": 3 },
                "globalSettings": { "enableDynamicNodeGroupCreation": dynamic } });
            let said = say(&config("default", defaults), true);
            assert!(said.active && !said.ready && said.message.contains("nodeGroupDefaults"));
        }
    }
}
