//! Groups that are made for pods that fit none.

use std::collections::BTreeMap;
use std::sync::Arc;

use sutler_api::autoscaler::NodeGroupDefaults;

use super::classes::Class;
use super::estimate::{Packed, pack_onto};
use super::limits::{Limits, later};
use super::plan::{GrowPlan, NewGroup, WhyNot};
use crate::snapshot::NewSite;
use crate::stage::Stage;
use crate::world::{
    CostPolicy, DownPolicy, Group, GroupFacts, Key, Labels, MalformedError, Place, Shape, Size,
    SpotPolicy, Taint, Test, UpPolicy, Upcoming, Window,
};

/// What new groups can be made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Offers {
    /// Sizes that the platform offers.
    pub sizes: Vec<Size>,
    /// Places that the platform has.
    pub places: Vec<Place>,
    /// What groups are like that are made.
    pub defaults: GroupDefaults,
}

/// What groups are like that are made.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDefaults {
    /// Namespace that they are made in.
    pub namespace: String,
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
    /// The only place, where there is one.
    pub place: Option<String>,
    /// The only sizes; empty means all that are offered.
    pub sizes: Vec<String>,
    /// Labels that all nodes get.
    pub labels: Labels,
    /// Taints that all nodes get.
    pub taints: Vec<Taint>,
    /// When they grow.
    pub up: UpPolicy,
    /// When they shrink.
    pub down: DownPolicy,
    /// Machines that the platform may take back.
    pub spot: Option<SpotPolicy>,
    /// How costs are kept down.
    pub cost: Option<CostPolicy>,
}

impl GroupDefaults {
    /// Reads those of an AutoscalerConfig.
    pub fn read(defaults: &NodeGroupDefaults) -> Result<Self, MalformedError> {
        let field = |name: &str| format!("spec.nodeGroupDefaults.{name}");
        let number = |name: &str, value: i32| {
            u32::try_from(value)
                .map_err(|_| MalformedError::new(field(name), format!("{value} is below 0")))
        };
        let (min, max) =
            (number("minNodes", defaults.min_nodes)?, number("maxNodes", defaults.max_nodes)?);
        if min > max {
            return Err(MalformedError::new(
                field("minNodes"),
                format!("{min} is above maxNodes {max}: lower it or raise maxNodes"),
            ));
        }
        let mut taints = Vec::new();
        for (index, taint) in defaults.taints.iter().enumerate() {
            taints.push(Taint::read(&field(&format!("taints[{index}]")), taint)?);
        }
        Ok(Self {
            namespace: defaults.namespace.clone(),
            min,
            max,
            place: defaults.datacenter_id.clone(),
            sizes: defaults.offering_ids.clone(),
            labels: defaults.labels.clone(),
            taints,
            up: UpPolicy::read(defaults.scale_up_policy.as_ref())?,
            down: DownPolicy::read(defaults.scale_down_policy.as_ref())?,
            spot: SpotPolicy::read(defaults.spot_config.as_ref())?,
            cost: CostPolicy::read(defaults.cost_optimization.as_ref())?,
        })
    }
}

/// What makes one new group better than another, the smaller the better: pods that are not helped,
/// cost, waste, size and place.
type Rank<'a> = (u64, u128, u128, &'a str, &'a str);

/// What pods ask of a group: labels that its nodes get, and taints that keep others away.
type Demand = (Labels, Vec<Taint>);

/// Plans groups for what is left, one for all pods of one demand.
pub(crate) fn add(
    stage: &mut Stage<'_>,
    offers: Option<&Offers>,
    classes: &mut [Class<'_>],
    limits: &Limits,
    plan: &mut GrowPlan,
) {
    let mut demands: BTreeMap<Demand, Vec<usize>> = BTreeMap::new();
    for unhelped in &mut plan.unhelped {
        let refused = |why: &WhyNot| matches!(why, WhyNot::Refused(_));
        if unhelped.why.is_some() || !unhelped.groups.iter().all(|(_, why)| refused(why)) {
            continue;
        }
        if !stage.world.settings.dynamic_groups || offers.is_none() {
            unhelped.why = Some(WhyNot::DynamicDisabled);
            continue;
        }
        let first = unhelped.pods.first();
        let class = classes
            .iter()
            .position(|class| class.pods.get(class.done).map(|(_, key)| *key) == first);
        if let Some(class) = class {
            let demand = demand(stage.snapshot.shape(classes[class].shape));
            demands.entry(demand).or_default().push(class);
        }
    }
    let Some(offers) = offers else { return };
    let (mut left, mut growing) = (limits.left(), limits.growing());
    for (demand, wanted) in demands {
        let since = wanted.iter().filter_map(|class| classes[*class].since()).min();
        let until = since.map(|since| later(since, offers.defaults.up.window));
        let max_growing = stage.world.settings.max_growing;
        let why = if left == 0 {
            Some(WhyNot::ClusterFull { max: stage.world.settings.max_workers.unwrap_or(u32::MAX) })
        } else if growing >= max_growing as usize {
            Some(WhyNot::TooManyGrowing { max: max_growing })
        } else {
            until.filter(|until| *until > stage.now).map(|until| WhyNot::Window { until })
        };
        if let Some(why) = why {
            hold(plan, classes, &wanted, &why);
            continue;
        }
        let Some(group) = best(stage, offers, classes, &demand, &wanted, left) else { continue };
        let nodes = u32::try_from(group.nodes.len()).unwrap_or(u32::MAX);
        left = left.saturating_sub(nodes.max(group.min));
        growing += 1;
        let helped: usize = group.nodes.iter().map(|node| node.pods.len()).sum();
        drop_helped(plan, &group, helped);
        plan.new_groups.push(group);
    }
}

/// Says of pods of these classes why no group is made for them.
fn hold(plan: &mut GrowPlan, classes: &[Class<'_>], wanted: &[usize], why: &WhyNot) {
    for class in wanted {
        let first = classes[*class].waiting(false).first().map(|(_, key)| *key);
        for unhelped in plan.unhelped.iter_mut().filter(|it| it.pods.first() == first) {
            unhelped.retry_at = unhelped.retry_at.into_iter().chain(why.retry_at()).min();
            unhelped.why = Some(why.clone());
        }
    }
}

fn drop_helped(plan: &mut GrowPlan, group: &NewGroup, helped: usize) {
    let pods: std::collections::BTreeSet<&Key> =
        group.nodes.iter().flat_map(|node| &node.pods).collect();
    debug_assert_eq!(pods.len(), helped);
    for unhelped in &mut plan.unhelped {
        unhelped.pods.retain(|pod| !pods.contains(pod));
    }
    plan.unhelped.retain(|unhelped| !unhelped.pods.is_empty());
}

/// The group that helps most of the pods, then the cheapest, then the least wasteful.
fn best(
    stage: &mut Stage<'_>,
    offers: &Offers,
    classes: &mut [Class<'_>],
    demand: &Demand,
    wanted: &[usize],
    left: u32,
) -> Option<NewGroup> {
    let skip: Vec<bool> = (0..classes.len()).map(|class| !wanted.contains(&class)).collect();
    let most = offers.defaults.max.min(left);
    let usable = |size: &&Size| {
        let named = &offers.defaults.sizes;
        (named.is_empty() || named.contains(&size.id))
            && size.exhausted_until.is_none_or(|until| until <= stage.now)
    };
    let sizes: Vec<&Size> = offers.sizes.iter().filter(usable).collect();
    let places = offers.places.iter().filter(|place| {
        offers.defaults.place.as_ref().is_none_or(|only| *only == place.id)
            && place.exhausted_until.is_none_or(|until| until <= stage.now)
    });
    let mut places: Vec<Place> = places.cloned().collect();
    if let (true, Some(only)) = (places.is_empty(), &offers.defaults.place) {
        places.push(Place { id: only.clone(), ..Place::default() });
    }
    let mut best: Option<(Rank<'_>, NewGroup)> = None;
    for size in sizes {
        for place in &places {
            let group = group(offers, demand, size, place);
            if stage.world.groups.contains_key(&group.key) {
                continue;
            }
            let mark = stage.mark();
            let packed = pack_group(stage, &group, classes, most, &skip);
            let wasted = packed.nodes.iter().map(|node| stage.snapshot.free(node.site).weight());
            let wasted: u128 = wasted.map(u128::from).sum();
            stage.rollback(mark);
            let nodes = nodes(&packed, classes, size, place);
            let helped: usize = nodes.iter().map(|node| node.pods.len()).sum();
            if helped == 0 {
                continue;
            }
            let per_weight = super::price_per_weight(stage);
            let price = super::sizes::reckoned_price(&group, size, per_weight);
            let cost = u128::from(price) * nodes.len() as u128;
            let unhelped = u64::MAX - helped as u64;
            let rank = (unhelped, cost, wasted, size.id.as_str(), place.id.as_str());
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                let new = NewGroup {
                    key: group.key,
                    size: size.id.clone(),
                    place: place.id.clone(),
                    labels: group.labels,
                    taints: group.taints,
                    min: offers.defaults.min.min(left),
                    max: offers.defaults.max,
                    nodes,
                };
                best = Some((rank, new));
            }
        }
    }
    best.map(|(_, group)| group)
}

fn nodes(packed: &Packed, classes: &[Class<'_>], size: &Size, place: &Place) -> Vec<Upcoming> {
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let nodes = packed.nodes.iter().map(|node| {
        let mut pods = Vec::new();
        for (class, number) in &node.pods {
            let from = taken.entry(*class).or_default();
            let waiting = &classes[*class].waiting(false)[*from..];
            let number = usize::try_from(*number).unwrap_or(0);
            pods.extend(waiting[..number].iter().map(|(_, key)| (*key).clone()));
            *from += number;
        }
        Upcoming { size: size.id.clone(), place: place.id.clone(), spot: false, pods }
    });
    nodes.collect()
}

fn pack_group(
    stage: &mut Stage<'_>,
    group: &Group,
    classes: &[Class<'_>],
    most: u32,
    skip: &[bool],
) -> Packed {
    let mut opened = 0;
    pack_onto(stage, classes, most, skip, &mut |stage, shape| {
        let mark = stage.mark();
        let size = &group.sizes[0];
        let name = format!("<{}:{opened}>", group.key);
        opened += 1;
        let site = stage.open_site(NewSite {
            labels: Arc::new(group.labels_of(size, &group.places[0], &name)),
            taints: group.taints.clone().into(),
            unschedulable: false,
            allocatable: size.allocatable.clone(),
            pods: size.pods,
            template: None,
            name,
        });
        if stage.snapshot.check(shape, site, 0).is_ok() {
            return Some((site, 0));
        }
        stage.rollback(mark);
        None
    })
}

fn group(offers: &Offers, demand: &Demand, size: &Size, place: &Place) -> Group {
    let defaults = &offers.defaults;
    let mut labels = defaults.labels.clone();
    labels.extend(demand.0.clone());
    let mut taints = defaults.taints.clone();
    taints.extend(demand.1.iter().filter(|taint| !defaults.taints.contains(taint)).cloned());
    Group {
        key: Key::new(&defaults.namespace, &name(&labels, &taints, size, place)),
        min: defaults.min,
        max: defaults.max,
        desired: 0,
        current: 0,
        failed: 0,
        labels,
        taints,
        sizes: vec![size.clone()],
        preferred_size: None,
        mixed: false,
        places: vec![place.clone()],
        regions: None,
        up: defaults.up.clone(),
        down: defaults.down.clone(),
        spot: defaults.spot.clone(),
        cost: defaults.cost.clone(),
        paused: false,
        stopped: false,
        facts: GroupFacts { load: Window::default(), ..GroupFacts::default() },
        last_up: None,
        last_down: None,
    }
}

/// What a shape asks of a group: labels that it selects nodes by and that can be given, and taints
/// for those of them that it tolerates too, which is how people set nodes apart.
fn demand(shape: &Shape) -> Demand {
    let mut labels = Labels::new();
    let terms = shape.node_affinity.as_deref().unwrap_or_default();
    for requirement in terms.first().map(|term| term.labels.as_slice()).unwrap_or_default() {
        let value = match &requirement.test {
            Test::In(values) => values.first().cloned(),
            Test::Exists => Some(String::new()),
            _ => None,
        };
        if let Some(value) = value.filter(|_| can_be_given(&requirement.key)) {
            labels.insert(requirement.key.clone(), value);
        }
    }
    for (key, value) in &shape.node_selector {
        if can_be_given(key) {
            labels.insert(key.clone(), value.clone());
        }
    }
    let mut taints: Vec<Taint> = shape
        .tolerations
        .iter()
        .filter_map(|toleration| {
            let own = labels.get(&toleration.key)?;
            let same = toleration.value.as_ref() == Some(own);
            same.then(|| Taint {
                key: toleration.key.clone(),
                value: own.clone(),
                effect: toleration.effect.unwrap_or(crate::world::Effect::NoSchedule),
            })
        })
        .filter(Taint::keeps_away)
        .collect();
    taints.sort();
    taints.dedup();
    (labels, taints)
}

/// Whether a group may give its nodes this label: those of Kubernetes and ours tell facts.
fn can_be_given(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let of = |domain: &str| {
        prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    !of("kubernetes.io") && !of("k8s.io") && !of("autoscaler.vpsie.com")
}

/// Equal groups have equal names, so that a group that is made already is not made again.
fn name(labels: &Labels, taints: &[Taint], size: &Size, place: &Place) -> String {
    let text = format!("{labels:?}{taints:?}{}/{}", size.id, place.id);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let place: String = place.id.to_ascii_lowercase().chars().take(20).collect();
    let place: String =
        place.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    match place.trim_matches('-') {
        "" => format!("auto-{hash:016x}"),
        place => format!("auto-{place}-{hash:016x}"),
    }
}
