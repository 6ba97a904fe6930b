//! Node groups.

use jiff::Timestamp;
use sutler_api::autoscaler::{NodeGroup, NodeGroupSpec};
use sutler_api::names::{annotations, condition_types, labels, reasons};

use super::policy::{CostPolicy, DownPolicy, Regions, SpotPolicy, UpPolicy};
use super::window::Window;
use super::{Key, Labels, MalformedError, Price, Resources, Taint};

/// A group of nodes that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its namespace and name.
    pub key: Key,
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
    /// Nodes that are wanted now.
    pub desired: u32,
    /// Records that are not being deleted, failed ones included.
    pub current: u32,
    /// Records that failed: machines that serve nobody and may still be paid for.
    pub failed: u32,
    /// Labels that its nodes get.
    pub labels: Labels,
    /// Taints that its nodes get.
    pub taints: Vec<Taint>,
    /// Sizes that its nodes may have, in the order in which they are named.
    pub sizes: Vec<Size>,
    /// The size that is tried first.
    pub preferred_size: Option<String>,
    /// Whether nodes may differ in size.
    pub mixed: bool,
    /// Places that its nodes may be in; one without a name where the platform has none.
    pub places: Vec<Place>,
    /// How they are spread over the places.
    pub regions: Option<Regions>,
    /// When it grows.
    pub up: UpPolicy,
    /// When it shrinks.
    pub down: DownPolicy,
    /// Machines that the platform may take back.
    pub spot: Option<SpotPolicy>,
    /// How costs are kept down.
    pub cost: Option<CostPolicy>,
    /// Changes are held back on request.
    pub paused: bool,
    /// It stopped after too many failures, until a person acts.
    pub stopped: bool,
    /// What its object does not tell.
    pub facts: GroupFacts,
    /// When it last grew.
    pub last_up: Option<Timestamp>,
    /// When it last shrank.
    pub last_down: Option<Timestamp>,
}

/// What the caller knows of a group beyond its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupFacts {
    /// Sizes that the platform offers; a group that was read has its own in [`Group::sizes`].
    pub sizes: Vec<Size>,
    /// Places that the platform has, for their labels; one that is not here has none. A group
    /// that was read has its own in [`Group::places`].
    pub places: Vec<Place>,
    /// Nodes that were asked for and have not joined.
    pub upcoming: Vec<Upcoming>,
    /// Nodes that are on their way out.
    pub leaving: u32,
    /// Nodes that it should have fewer of, in use or not, because a person said so.
    pub excess: u32,
    /// The platform refused a node for now: none is asked for before this time.
    pub backoff_until: Option<Timestamp>,
    /// When a removal last failed.
    pub last_down_failure: Option<Timestamp>,
    /// When costs were last seen to.
    pub last_optimised: Option<Timestamp>,
    /// Share of spot machines, in percent, that went in the last hour.
    pub interruptions: u32,
    /// How busy it was as a whole.
    pub load: Window,
}

/// A size of machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its name on the platform.
    pub id: String,
    /// Labels that its nodes have besides.
    pub labels: Labels,
    /// What pods may have of it.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub pods: i64,
    /// What it costs.
    pub price: Option<Price>,
    /// What it costs where the platform may take it back; absent where it is not sold so.
    pub spot_price: Option<Price>,
    /// There is none left until this time.
    pub exhausted_until: Option<Timestamp>,
    /// There is none left of those that the platform may take back until this time.
    pub spot_exhausted_until: Option<Timestamp>,
}

/// A place that machines are made in: a data centre.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its name on the platform.
    pub id: String,
    /// Labels that nodes in it have: zone, region.
    pub labels: Labels,
    /// It has no room until this time.
    pub exhausted_until: Option<Timestamp>,
}

/// A node that was asked for, or is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upcoming {
    /// Its size.
    pub size: String,
    /// Its place.
    pub place: String,
    /// Whether the platform may take it back.
    pub spot: bool,
    /// Pods that it was asked for. A hint: forgetting it is safe.
    pub pods: Vec<Key>,
}

impl Group {
    /// Reads a NodeGroup.
    pub fn read(object: &NodeGroup, mut facts: GroupFacts) -> Result<Self, MalformedError> {
        let spec = &object.spec;
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let number = |field: &str, value: i32| {
            u32::try_from(value)
                .map_err(|_| MalformedError::new(field, format!("{value} is below 0")))
        };
        let (min, max) =
            (number("spec.minNodes", spec.min_nodes)?, number("spec.maxNodes", spec.max_nodes)?);
        if min > max {
            return Err(MalformedError::new(
                "spec.minNodes",
                format!("{min} is above maxNodes {max}: lower it or raise maxNodes"),
            ));
        }
        let mut taints = Vec::new();
        for (index, taint) in spec.taints.iter().enumerate() {
            taints.push(Taint::read(&format!("spec.taints[{index}]"), taint)?);
        }
        let own_place = spec.datacenter_id.as_deref();
        let (regions, places) = match Regions::read(spec.multi_region.as_ref(), own_place)? {
            Some((regions, places)) => (Some(regions), places),
            None => (None, vec![own_place.unwrap_or_default().to_owned()]),
        };
        let known = std::mem::take(&mut facts.places);
        let places = places.into_iter().map(|id| match known.iter().find(|known| known.id == id) {
            Some(place) => place.clone(),
            None => Place { id, ..Place::default() },
        });
        let status = object.status.clone().unwrap_or_default();
        let annotated = object.metadata.annotations.as_ref();
        let is_paused = annotated.and_then(|all| all.get(annotations::PAUSED));
        let stopped = status.conditions.iter().any(|condition| {
            condition.type_ == condition_types::ERROR
                && condition.status == "True"
                && condition.reason.as_deref() == Some(reasons::TOO_MANY_FAILURES)
        });
        Ok(Self {
            key: Key::new(namespace, name),
            min,
            max,
            desired: number("spec.desiredNodes", spec.desired_nodes)?,
            current: number("status.currentNodes", status.current_nodes)?,
            failed: number("status.failedNodes", status.failed_nodes.unwrap_or(0))?,
            labels: spec.labels.clone(),
            taints,
            sizes: sizes(object, std::mem::take(&mut facts.sizes))?,
            preferred_size: spec.preferred_instance_type.clone(),
            mixed: spec.allow_mixed_instances,
            places: places.collect(),
            regions,
            up: UpPolicy::read(spec.scale_up_policy.as_ref())?,
            down: DownPolicy::read(spec.scale_down_policy.as_ref())?,
            spot: SpotPolicy::read(spec.spot_config.as_ref())?,
            cost: CostPolicy::read(spec.cost_optimization.as_ref())?,
            paused: is_paused.is_some_and(|value| value == "true"),
            stopped,
            facts,
            last_up: status.last_scale_up_time.map(|time| time.0),
            last_down: status.last_scale_down_time.map(|time| time.0),
        })
    }

    /// What is wrong with a group's policies, by itself and whatever its platform offers: one error
    /// for each of them.
    pub fn policy_errors(spec: &NodeGroupSpec) -> Vec<MalformedError> {
        let own_place = spec.datacenter_id.as_deref();
        let errors = [
            Regions::read(spec.multi_region.as_ref(), own_place).err(),
            UpPolicy::read(spec.scale_up_policy.as_ref()).err(),
            DownPolicy::read(spec.scale_down_policy.as_ref()).err(),
            SpotPolicy::read(spec.spot_config.as_ref()).err(),
            CostPolicy::read(spec.cost_optimization.as_ref()).err(),
        ];
        errors.into_iter().flatten().collect()
    }

    /// Records that serve or will.
    pub fn healthy(&self) -> u32 {
        self.current.saturating_sub(self.failed)
    }

    /// How large it is, counting what is asked for.
    pub fn size(&self) -> u32 {
        self.healthy().max(self.desired)
    }

    /// Machines that it has or will have, failed ones included.
    pub fn machines(&self) -> u32 {
        self.size().saturating_add(self.failed)
    }

    /// The size of this name.
    pub fn size_of(&self, id: &str) -> Option<&Size> {
        self.sizes.iter().find(|size| size.id == id)
    }

    /// The labels of a node of this size in this place.
    pub fn labels_of(&self, size: &Size, place: &Place, hostname: &str) -> Labels {
        let mut all: Labels = [
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", hostname),
            ("node.kubernetes.io/instance-type", &size.id),
            (labels::MANAGED, "true"),
            (labels::NODE_GROUP, &self.key.name),
            (labels::OFFERING, &size.id),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        if !place.id.is_empty() {
            all.insert(labels::DATACENTER.to_owned(), place.id.clone());
        }
        for own in [&place.labels, &size.labels, &self.labels] {
            all.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        all
    }
}

fn sizes(object: &NodeGroup, offered: Vec<Size>) -> Result<Vec<Size>, MalformedError> {
    let spec = &object.spec;
    let named: Vec<Size> = if spec.offering_ids.is_empty() {
        offered
    } else {
        let find = |id: &String| offered.iter().find(|size| size.id == *id).cloned();
        spec.offering_ids.iter().filter_map(find).collect()
    };
    if named.is_empty() {
        return Err(MalformedError::new(
            if spec.offering_ids.is_empty() { "spec.classRef" } else { "spec.offeringIDs" },
            "names no size that the platform offers now",
        ));
    }
    if let Some(preferred) = &spec.preferred_instance_type
        && !named.iter().any(|size| size.id == *preferred)
    {
        return Err(MalformedError::new(
            "spec.preferredInstanceType",
            format!("{preferred:?} is not one of the group's sizes that the platform offers"),
        ));
    }
    Ok(named)
}
