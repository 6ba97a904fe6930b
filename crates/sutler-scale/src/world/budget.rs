//! Disruption budgets.

use k8s_openapi::api::policy::v1 as policy;

use super::{Key, MalformedError, Selector, Shape};

/// How many of some pods may be made to leave at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its namespace and name.
    pub key: Key,
    /// The pods; none when absent.
    pub selector: Option<Selector>,
    /// How many may leave now.
    pub allowed: i32,
    /// Whether as many are healthy as should be.
    pub healthy: bool,
    /// Whether pods that are not ready may leave in any case.
    pub unhealthy_always: bool,
}

impl Budget {
    /// Reads one of Kubernetes. While its status speaks of an older spec nothing may leave, as the
    /// API server has it.
    pub fn read(budget: &policy::PodDisruptionBudget) -> Result<Self, MalformedError> {
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            return Err(MalformedError::new("metadata.name", "is missing"));
        }
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let spec = budget.spec.clone().unwrap_or_default();
        let status = budget.status.clone().unwrap_or_default();
        let stale =
            status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0);
        let unhealthy_always = match spec.unhealthy_pod_eviction_policy.as_deref() {
            None | Some("" | "IfHealthyBudget") => false,
            Some("AlwaysAllow") => true,
            Some(other) => {
                return Err(MalformedError::new(
                    "spec.unhealthyPodEvictionPolicy",
                    format!("{other:?} is neither IfHealthyBudget nor AlwaysAllow"),
                ));
            }
        };
        Ok(Self {
            key: Key::new(namespace, name),
            selector: Selector::read("spec.selector", spec.selector.as_ref())?,
            allowed: if stale { 0 } else { status.disruptions_allowed.unwrap_or(0).max(0) },
            healthy: status.desired_healthy.unwrap_or(0) > 0
                && status.current_healthy.unwrap_or(0) >= status.desired_healthy.unwrap_or(0),
            unhealthy_always,
        })
    }

    /// Whether pods of this shape are meant.
    pub fn covers(&self, shape: &Shape) -> bool {
        self.key.namespace == shape.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&shape.labels))
    }
}
