//! Policies of groups, read and checked.

use std::collections::BTreeMap;

use sutler_api::autoscaler as api;
use sutler_api::duration::Duration;

use super::MalformedError;

/// When a group grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpPolicy {
    /// Whether it grows by itself.
    pub enabled: bool,
    /// Seconds that the need must last.
    pub window: i64,
    /// Share of CPU in use, in percent, above which a node is added.
    pub cpu: u32,
    /// Share of memory in use, in percent, above which a node is added.
    pub memory: u32,
}

/// When a group shrinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownPolicy {
    /// Whether it shrinks by itself.
    pub enabled: bool,
    /// Seconds that a node must be idle.
    pub window: i64,
    /// Share of CPU in use, in percent, below which a node is idle.
    pub cpu: u32,
    /// Share of memory in use, in percent, below which a node is idle.
    pub memory: u32,
    /// Seconds to wait after the group grew.
    pub cooldown: i64,
}

/// How many of a group's machines the platform may take back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotPolicy {
    /// Share of the group, in percent, that they may be.
    pub max_share: u32,
    /// Whether ordinary ones are taken where there are none.
    pub fallback: bool,
    /// Seconds before they go that a node is drained.
    pub grace: i64,
    /// Share of them, in percent, that may go in an hour before no more are taken.
    pub max_interruptions: u32,
}

/// How a group is spread over places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    /// By what rule.
    pub strategy: RegionStrategy,
    /// Nodes that each place has at least.
    pub min_each: u32,
}

/// By what rule a group is spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionStrategy {
    /// As many in each.
    Balanced,
    /// By these weights; a place without one gets its minimum only.
    Weighted(BTreeMap<String, u32>),
    /// All in this one, and in the others while it has no room.
    PrimaryBackup(String),
}

/// How a group's costs are kept down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostPolicy {
    /// How boldly.
    pub strategy: CostStrategy,
    /// Seconds between two changes.
    pub interval: i64,
    /// Savings a month, in millionths, below which nothing is changed.
    pub min_savings: u64,
    /// Share of performance, in percent, that a change may cost.
    pub max_impact: u32,
    /// Whether a person must agree first.
    pub approval: bool,
}

/// How boldly costs are kept down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostStrategy {
    /// By the limits that are set.
    Auto,
    /// Fuller nodes are accepted.
    Aggressive,
    /// Only what costs no performance and saves twice the least.
    Conservative,
    /// Only proposals.
    Manual,
}

fn number(field: String, value: i32) -> Result<u32, MalformedError> {
    u32::try_from(value).map_err(|_| MalformedError::new(field, format!("{value} is below 0")))
}

fn percent(field: String, value: i32) -> Result<u32, MalformedError> {
    match u32::try_from(value) {
        Ok(share) if share <= 100 => Ok(share),
        _ => Err(MalformedError::new(field, format!("{value} is not between 0 and 100"))),
    }
}

fn duration(field: String, text: &str) -> Result<i64, MalformedError> {
    match Duration(text.to_owned()).to_std() {
        Ok(duration) => Ok(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)),
        Err(error) => Err(MalformedError::new(field, error.to_string())),
    }
}

impl UpPolicy {
    pub(crate) fn read(policy: Option<&api::ScaleUpPolicy>) -> Result<Self, MalformedError> {
        let policy = policy.cloned().unwrap_or_default();
        let field = |name: &str| format!("spec.scaleUpPolicy.{name}");
        let window = policy.stabilization_window_seconds;
        Ok(Self {
            enabled: policy.enabled,
            window: number(field("stabilizationWindowSeconds"), window)?.into(),
            cpu: percent(field("cpuThreshold"), policy.cpu_threshold)?,
            memory: percent(field("memoryThreshold"), policy.memory_threshold)?,
        })
    }
}

impl DownPolicy {
    pub(crate) fn read(policy: Option<&api::ScaleDownPolicy>) -> Result<Self, MalformedError> {
        let policy = policy.cloned().unwrap_or_default();
        let field = |name: &str| format!("spec.scaleDownPolicy.{name}");
        let window = policy.stabilization_window_seconds;
        Ok(Self {
            enabled: policy.enabled,
            window: number(field("stabilizationWindowSeconds"), window)?.into(),
            cpu: percent(field("cpuThreshold"), policy.cpu_threshold)?,
            memory: percent(field("memoryThreshold"), policy.memory_threshold)?,
            cooldown: number(field("cooldownSeconds"), policy.cooldown_seconds)?.into(),
        })
    }
}

impl SpotPolicy {
    pub(crate) fn read(policy: Option<&api::SpotConfig>) -> Result<Option<Self>, MalformedError> {
        let Some(policy) = policy.filter(|policy| policy.enabled) else { return Ok(None) };
        let field = |name: &str| format!("spec.spotConfig.{name}");
        Ok(Some(Self {
            max_share: percent(field("maxSpotPercentage"), policy.max_spot_percentage)?,
            fallback: policy.fallback_to_on_demand,
            grace: duration(field("interruptionGracePeriod"), &policy.interruption_grace_period)?,
            max_interruptions: percent(
                field("allowedInterruptionRate"),
                policy.allowed_interruption_rate,
            )?,
        }))
    }
}

impl Regions {
    /// The rule, and the places that it names.
    pub(crate) fn read(
        policy: Option<&api::MultiRegion>,
        own: Option<&str>,
    ) -> Result<Option<(Self, Vec<String>)>, MalformedError> {
        let Some(policy) = policy.filter(|policy| policy.enabled) else { return Ok(None) };
        let field = |name: &str| format!("spec.multiRegion.{name}");
        let mut places = policy.datacenter_ids.clone();
        if places.is_empty() {
            places.extend(own.map(str::to_owned));
        }
        let named = |name: &str, place: &String| match places.contains(place) {
            true => Ok(()),
            false => Err(MalformedError::new(
                field(name),
                format!("{place:?} is not one of datacenterIDs"),
            )),
        };
        let strategy = match policy.distribution_strategy.as_str() {
            "balanced" => RegionStrategy::Balanced,
            "weighted" => {
                let mut weights = BTreeMap::new();
                for (place, weight) in &policy.weighted_distribution {
                    named("weightedDistribution", place)?;
                    weights.insert(
                        place.clone(),
                        number(format!("spec.multiRegion.weightedDistribution[{place}]"), *weight)?,
                    );
                }
                if weights.values().all(|weight| *weight == 0) {
                    return Err(MalformedError::new(
                        field("weightedDistribution"),
                        "gives no data centre a weight above 0, which strategy weighted needs",
                    ));
                }
                RegionStrategy::Weighted(weights)
            }
            "primary-backup" => match &policy.primary_datacenter {
                Some(primary) => {
                    named("primaryDatacenter", primary)?;
                    RegionStrategy::PrimaryBackup(primary.clone())
                }
                None => {
                    return Err(MalformedError::new(
                        field("primaryDatacenter"),
                        "is missing, which strategy primary-backup needs",
                    ));
                }
            },
            other => {
                return Err(MalformedError::new(
                    field("distributionStrategy"),
                    format!("{other:?} is none of balanced, weighted and primary-backup"),
                ));
            }
        };
        let min_each = number(field("minNodesPerRegion"), policy.min_nodes_per_region)?;
        Ok(Some((Self { strategy, min_each }, places)))
    }
}

impl CostPolicy {
    pub(crate) fn read(
        policy: Option<&api::CostOptimization>,
    ) -> Result<Option<Self>, MalformedError> {
        let policy = policy.cloned().unwrap_or_default();
        if !policy.enabled {
            return Ok(None);
        }
        let field = |name: &str| format!("spec.costOptimization.{name}");
        let strategy = match policy.strategy.as_str() {
            "auto" => CostStrategy::Auto,
            "aggressive" => CostStrategy::Aggressive,
            "conservative" => CostStrategy::Conservative,
            "manual" => CostStrategy::Manual,
            other => {
                return Err(MalformedError::new(
                    field("strategy"),
                    format!("{other:?} is none of auto, aggressive, conservative and manual"),
                ));
            }
        };
        let savings = super::Price::per_hour(policy.min_monthly_savings).ok_or_else(|| {
            MalformedError::new(
                field("minMonthlySavings"),
                format!("{} is not an amount of money", policy.min_monthly_savings),
            )
        })?;
        Ok(Some(Self {
            strategy,
            interval: duration(field("optimizationInterval"), &policy.optimization_interval)?,
            min_savings: savings.0,
            max_impact: percent(field("maxPerformanceImpact"), policy.max_performance_impact)?,
            approval: policy.require_approval,
        }))
    }
}
