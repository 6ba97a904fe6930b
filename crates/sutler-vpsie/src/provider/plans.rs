//! Which of VPSie's sizes a class is.

use sutler_provider::{Class, Error, Result};

use super::Inner;
use crate::settings::{Dialect, Plan};

/// The key in a class's `extraConfig` that names a size.
pub(super) const EXTRA: &str = "vpsie.plan";

impl Inner {
    /// The ID of the size that a class asks for.
    pub(super) async fn plan(&self, class: &Class, datacenter: &str) -> Result<String> {
        let plans = self.plans(datacenter).await?;
        pick(&plans, class, class.extra.get(EXTRA).map(String::as_str))
    }

    async fn plans(&self, datacenter: &str) -> Result<Vec<Plan>> {
        if !self.settings.plans.is_empty() {
            return Ok(self.settings.plans.clone());
        }
        if self.settings.dialect == Dialect::Govpsie {
            return Err(Error::invalid(
                "spec.options.plans",
                "the dialect govpsie has no list of sizes: name those that machines can have",
            ));
        }
        let offered = self.api.list_offerings().await?;
        let plan = |offering: crate::client::Offering| {
            let here = offering.datacenter_id.as_deref().is_none_or(|dc| dc == datacenter);
            (here && offering.available != Some(false)).then_some(())?;
            Some(Plan {
                id: offering.id?,
                cpu: u32::try_from(offering.cpu?).ok()?,
                memory_mib: u64::try_from(offering.ram?).ok()?,
                disk_gib: u64::try_from(offering.disk?).ok()?,
            })
        };
        Ok(offered.into_iter().filter_map(plan).collect())
    }
}

/// The smallest size that has exactly this CPU and memory, and disk enough.
fn pick(plans: &[Plan], class: &Class, named: Option<&str>) -> Result<String> {
    let fits = |plan: &&Plan| {
        plan.cpu == class.cpu
            && plan.memory_mib == class.memory_mib
            && class.root_gib.is_none_or(|wanted| plan.disk_gib >= wanted)
            && named.is_none_or(|name| plan.id == name)
    };
    let best = plans.iter().filter(fits).min_by_key(|plan| (plan.disk_gib, plan.id.clone()));
    best.map(|plan| plan.id.clone()).ok_or_else(|| {
        let disk = class.root_gib.map(|gib| format!(" and {gib} GiB of disk")).unwrap_or_default();
        let named = named.map(|name| format!(" called {name:?}")).unwrap_or_default();
        let there: Vec<String> = plans
            .iter()
            .map(|plan| {
                let Plan { id, cpu, memory_mib, disk_gib } = plan;
                format!("{id} ({cpu} CPUs, {memory_mib} MiB, {disk_gib} GiB)")
            })
            .collect();
        Error::invalid(
            "spec.classRef",
            format!(
                "VPSie has no size{named} of {} CPUs, {} MiB{disk}; there are: {}",
                class.cpu,
                class.memory_mib,
                there.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_exactly_what_was_asked_for() {
        let plan = |id: &str, cpu, memory_mib, disk_gib| Plan {
            id: id.to_owned(),
            cpu,
            memory_mib,
            disk_gib,
        };
        let plans = [plan("big", 1, 512, 40), plan("small", 1, 512, 20), plan("two", 2, 512, 20)];
        let class = |root_gib| Class { root_gib, ..Class::new(1, 512) };
        assert_eq!(pick(&plans, &class(None), None).unwrap(), "small");
        assert_eq!(pick(&plans, &class(Some(30)), None).unwrap(), "big");
        assert_eq!(pick(&plans, &class(None), Some("big")).unwrap(), "big");
        for (class, named) in
            [(class(Some(50)), None), (Class::new(3, 512), None), (class(None), Some("two"))]
        {
            let error = pick(&plans, &class, named).unwrap_err();
            assert_eq!(error.field(), Some("spec.classRef"));
            assert!(error.message().contains("small (1 CPUs, 512 MiB, 20 GiB)"), "{error}");
        }
    }
}
