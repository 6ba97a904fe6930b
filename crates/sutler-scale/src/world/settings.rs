//! Settings for all groups together.

use sutler_api::autoscaler::GlobalSettings;

use super::MalformedError;

/// Settings for all groups together, in seconds where they are times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Nodes in all groups together; absent means no limit.
    pub max_workers: Option<u32>,
    /// Groups that may grow at the same time.
    pub max_growing: u32,
    /// Nodes that may be on their way out at the same time, and so groups that shrink.
    pub max_shrinking: u32,
    /// Pause of a group after it grew.
    pub up_cooldown: i64,
    /// Pause of a group after it shrank, or failed to.
    pub down_cooldown: i64,
    /// How long a pod must wait before a group grows for it.
    pub pod_grace: i64,
    /// How long a node may take to become ready; until then it counts as on its way.
    pub node_ready_timeout: i64,
    /// How long a pod may take to leave a node.
    pub eviction_timeout: i64,
    /// Whether groups are made for pods that fit none.
    pub dynamic_groups: bool,
    /// Whether nodes are replaced to save costs.
    pub rebalancing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_workers: Some(10),
            max_growing: 1,
            max_shrinking: 1,
            up_cooldown: 60,
            down_cooldown: 300,
            pod_grace: 30,
            node_ready_timeout: 600,
            eviction_timeout: 120,
            dynamic_groups: true,
            rebalancing: false,
        }
    }
}

impl Settings {
    /// Reads the settings of an AutoscalerConfig.
    pub fn read(settings: &GlobalSettings) -> Result<Self, MalformedError> {
        let number = |name: &str, value: i32, least: i32| {
            let field = format!("spec.globalSettings.{name}");
            match u32::try_from(value) {
                Ok(number) if value >= least => Ok(number),
                _ => Err(MalformedError::new(field, format!("{value} is below {least}"))),
            }
        };
        let seconds =
            |name: &str, value: i32, least: i32| number(name, value, least).map(i64::from);
        let max = number("maxClusterWorkers", settings.max_cluster_workers, 0)?;
        Ok(Self {
            max_workers: (max > 0).then_some(max),
            max_growing: number("maxConcurrentScaleUps", settings.max_concurrent_scale_ups, 1)?,
            max_shrinking: number(
                "maxConcurrentScaleDowns",
                settings.max_concurrent_scale_downs,
                1,
            )?,
            up_cooldown: seconds("scaleUpCooldownSeconds", settings.scale_up_cooldown_seconds, 0)?,
            down_cooldown: seconds(
                "scaleDownCooldownSeconds",
                settings.scale_down_cooldown_seconds,
                0,
            )?,
            pod_grace: seconds(
                "unschedulablePodGracePeriodSeconds",
                settings.unschedulable_pod_grace_period_seconds,
                0,
            )?,
            node_ready_timeout: seconds(
                "nodeReadyTimeoutSeconds",
                settings.node_ready_timeout_seconds,
                60,
            )?,
            eviction_timeout: seconds(
                "podEvictionTimeoutSeconds",
                settings.pod_eviction_timeout_seconds,
                0,
            )?,
            dynamic_groups: settings.enable_dynamic_node_group_creation,
            rebalancing: settings.enable_rebalancing,
        })
    }
}
