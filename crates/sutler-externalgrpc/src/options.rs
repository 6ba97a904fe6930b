//! How cluster-autoscaler is to shrink a group.

use prost_types::Duration;
use sutler_api::autoscaler::{AutoscalerConfig, NodeGroup};

use crate::pb::NodeGroupAutoscalingOptions;

/// As good as never, and still a time that every reader can hold.
const NEVER: i64 = 10 * 365 * 24 * 3600;

/// The options of a group: what its `scaleDownPolicy` says, and else what the caller uses by default.
///
/// Ours calls a node idle when both its CPU and its memory are in use below their thresholds.
/// cluster-autoscaler has one threshold, and compares it with the larger of both shares: the smaller
/// of our two is the one under which it removes no node that we would keep.
pub(crate) fn options(
    group: &NodeGroup,
    config: Option<&AutoscalerConfig>,
    defaults: Option<NodeGroupAutoscalingOptions>,
) -> NodeGroupAutoscalingOptions {
    let mut options = complete(defaults.unwrap_or_else(|| NodeGroupAutoscalingOptions {
        scale_down_utilization_threshold: 0.5,
        scale_down_gpu_utilization_threshold: 0.5,
        ..NodeGroupAutoscalingOptions::default()
    }));
    match &group.spec.scale_down_policy {
        Some(policy) if policy.enabled => {
            let percent = policy.cpu_threshold.min(policy.memory_threshold);
            options.scale_down_utilization_threshold = f64::from(percent) / 100.0;
            options.scale_down_unneeded_duration =
                seconds(policy.stabilization_window_seconds.into());
        }
        // No share is below none, and no node is idle or unready for that long.
        Some(_) => {
            options.scale_down_utilization_threshold = 0.0;
            options.scale_down_gpu_utilization_threshold = 0.0;
            options.scale_down_unneeded_duration = seconds(NEVER);
            options.scale_down_unready_duration = seconds(NEVER);
        }
        None => {}
    }
    if let Some(settings) = config.and_then(|config| config.spec.global_settings.as_ref()) {
        options.max_node_provision_duration = seconds(settings.node_ready_timeout_seconds.into());
    }
    options
}

/// A time that is left out is read as none at all, so each has one: cluster-autoscaler's own default.
fn complete(mut options: NodeGroupAutoscalingOptions) -> NodeGroupAutoscalingOptions {
    let minutes = |minutes: i64| seconds(minutes * 60);
    options.scale_down_unneeded_duration = options.scale_down_unneeded_duration.or(minutes(10));
    options.scale_down_unready_duration = options.scale_down_unready_duration.or(minutes(20));
    options.max_node_provision_duration = options.max_node_provision_duration.or(minutes(15));
    options.max_node_startup_duration = options.max_node_startup_duration.or(minutes(15));
    options
}

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn group(policy: Value) -> NodeGroup {
        let mut spec = json!({ "minNodes": 0, "maxNodes": 3 });
        if !policy.is_null() {
            spec["scaleDownPolicy"] = policy;
        }
        NodeGroup::new("g", serde_json::from_value(spec).unwrap())
    }

    fn config(seconds: i32) -> AutoscalerConfig {
        let spec = json!({ "globalSettings": { "nodeReadyTimeoutSeconds": seconds } });
        AutoscalerConfig::new("default", serde_json::from_value(spec).unwrap())
    }

    fn sent() -> NodeGroupAutoscalingOptions {
        NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.7,
            scale_down_gpu_utilization_threshold: 0.6,
            zero_or_max_node_scaling: true,
            ignore_daemon_sets_utilization: true,
            scale_down_unneeded_duration: seconds(1),
            scale_down_unready_duration: seconds(2),
            max_node_provision_duration: seconds(3),
            max_node_startup_duration: seconds(4),
            allow_non_atomic_scale_up_to_max: true,
        }
    }

    #[test]
    fn what_a_group_does_not_say_is_as_the_caller_has_it() {
        assert_eq!(options(&group(Value::Null), None, Some(sent())), sent());
    }

    #[test]
    fn the_policy_and_the_settings_count() {
        let policy =
            json!({ "cpuThreshold": 40, "memoryThreshold": 30, "stabilizationWindowSeconds": 77 });
        let expected = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.3,
            scale_down_unneeded_duration: seconds(77),
            max_node_provision_duration: seconds(900),
            ..sent()
        };
        assert_eq!(options(&group(policy), Some(&config(900)), Some(sent())), expected);
    }

    #[test]
    fn every_time_is_told() {
        for defaults in [None, Some(NodeGroupAutoscalingOptions::default())] {
            let options = options(&group(Value::Null), None, defaults);
            assert_eq!(options.scale_down_unneeded_duration, seconds(600));
            assert_eq!(options.scale_down_unready_duration, seconds(1200));
            assert_eq!(options.max_node_provision_duration, seconds(900));
            assert_eq!(options.max_node_startup_duration, seconds(900));
        }
        let made_up = options(&group(Value::Null), None, None);
        assert!(made_up.scale_down_utilization_threshold > 0.0);
    }

    #[test]
    fn a_group_that_must_not_shrink_never_does() {
        let options = options(&group(json!({ "enabled": false })), None, Some(sent()));
        assert!(options.scale_down_utilization_threshold <= 0.0);
        assert_eq!(options.scale_down_unneeded_duration, seconds(NEVER));
        assert_eq!(options.scale_down_unready_duration, seconds(NEVER));
    }
}
