//! When node groups grow and shrink, and what they may cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When a group grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleUpPolicy {
    /// Whether it grows by itself.
    pub enabled: bool,
    /// How long the need must last.
    #[schemars(range(min = 0))]
    pub stabilization_window_seconds: i32,
    /// Share of CPU in use from which it grows.
    #[schemars(range(min = 0, max = 100))]
    pub cpu_threshold: i32,
    /// Share of memory in use from which it grows.
    #[schemars(range(min = 0, max = 100))]
    pub memory_threshold: i32,
}

impl Default for ScaleUpPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            stabilization_window_seconds: 60,
            cpu_threshold: 80,
            memory_threshold: 80,
        }
    }
}

/// When a group shrinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleDownPolicy {
    /// Whether it shrinks by itself.
    pub enabled: bool,
    /// How long a node must be idle.
    #[schemars(range(min = 0))]
    pub stabilization_window_seconds: i32,
    /// Share of CPU in use below which a node counts as idle.
    #[schemars(range(min = 0, max = 100))]
    pub cpu_threshold: i32,
    /// Share of memory in use below which a node counts as idle.
    #[schemars(range(min = 0, max = 100))]
    pub memory_threshold: i32,
    /// How long to wait after the group grew.
    #[schemars(range(min = 0))]
    pub cooldown_seconds: i32,
}

impl Default for ScaleDownPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            stabilization_window_seconds: 600,
            cpu_threshold: 50,
            memory_threshold: 50,
            cooldown_seconds: 600,
        }
    }
}

/// Machines that the platform may take back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotConfig {
    /// Whether they are used.
    pub enabled: bool,
    /// Share of the group that they may be.
    #[schemars(range(min = 0, max = 100))]
    pub max_spot_percentage: i32,
    /// Take ordinary ones where there are none.
    pub fallback_to_on_demand: bool,
    /// How long before they go a node is drained.
    pub interruption_grace_period: String,
    /// Share of them that may go in an hour.
    #[schemars(range(min = 0, max = 100))]
    pub allowed_interruption_rate: i32,
}

impl Default for SpotConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            max_spot_percentage: 80,
            fallback_to_on_demand: true,
            interruption_grace_period: "120s".to_owned(),
            allowed_interruption_rate: 20,
        }
    }
}

/// How costs are kept down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CostOptimization {
    /// Whether they are.
    pub enabled: bool,
    /// How boldly: auto, manual, aggressive or conservative.
    pub strategy: String,
    /// Pause between two changes.
    pub optimization_interval: String,
    /// Savings per month below which nothing is changed.
    pub min_monthly_savings: f64,
    /// Share of performance that a change may cost.
    #[schemars(range(min = 0, max = 100))]
    pub max_performance_impact: i32,
    /// Whether a person must agree first.
    pub require_approval: bool,
}

impl Default for CostOptimization {
    fn default() -> Self {
        Self {
            enabled: true,
            strategy: "auto".to_owned(),
            optimization_interval: "24h".to_owned(),
            min_monthly_savings: 10.0,
            max_performance_impact: 5,
            require_approval: false,
        }
    }
}

/// A group that is spread over data centres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiRegion {
    /// Whether it is.
    pub enabled: bool,
    /// The data centres; the group's own when there are none.
    #[serde(rename = "datacenterIDs", default, skip_serializing_if = "Vec::is_empty")]
    pub datacenter_ids: Vec<String>,
    /// How nodes are spread: balanced, weighted or primary-backup.
    pub distribution_strategy: String,
    /// Weights by data centre, for weighted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weighted_distribution: BTreeMap<String, i32>,
    /// The first choice, for primary-backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_datacenter: Option<String>,
    /// Nodes that each data centre has at least.
    #[schemars(range(min = 0))]
    pub min_nodes_per_region: i32,
}

impl Default for MultiRegion {
    fn default() -> Self {
        Self {
            enabled: false,
            datacenter_ids: Vec::new(),
            distribution_strategy: "balanced".to_owned(),
            weighted_distribution: BTreeMap::new(),
            primary_datacenter: None,
            min_nodes_per_region: 1,
        }
    }
}
