//! The world set up for a decision: all nodes, those that are on their way, and what each group
//! has where.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{NewSite, Snapshot};
use crate::world::{Entry, Group, Key, Node, PodPlace, Size, Taint, Upcoming, World};

/// The world set up for a decision.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) world: &'a World,
    pub(crate) now: Timestamp,
    pub(crate) snapshot: Snapshot<'a>,
    pub(crate) groups: Vec<GroupStage<'a>>,
    /// The nodes that are there, which come first among the snapshot's.
    pub(crate) nodes: Vec<NodeStage<'a>>,
    /// Nodes that were asked for: their site, their group and the pods that they are for.
    pub(crate) upcoming: Vec<(usize, usize, Vec<Key>)>,
    /// Numbers of the shapes of DaemonSets' pods.
    daemons: std::ops::Range<usize>,
    /// By template: which of them run there, and copies of a node of it.
    runs: HashMap<usize, Vec<usize>>,
    copies: HashMap<usize, Vec<Arc<NewSite>>>,
    /// How many nodes of each template are open, and in which order they were opened.
    open: Vec<usize>,
    order: Vec<usize>,
}

/// A time to come back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    step: usize,
    opened: usize,
}

/// A node that is there.
#[derive(Debug)]
pub(crate) struct NodeStage<'a> {
    pub(crate) node: &'a Node,
    pub(crate) group: Option<usize>,
    /// Its pods that are not on their way out.
    pub(crate) pods: Vec<&'a Entry>,
    /// Whether waiting pods were found room here.
    pub(crate) expected: bool,
}

/// A group and what it has where.
#[derive(Debug)]
pub(crate) struct GroupStage<'a> {
    pub(crate) group: &'a Group,
    /// The number of its first template.
    templates: usize,
    /// Its nodes that are there.
    pub(crate) members: Vec<usize>,
    /// Nodes by place, those on their way and those that are planned included.
    pub(crate) by_place: Vec<u32>,
    /// How many of all these the platform may take back.
    pub(crate) spot: u32,
    /// The one size that it is held to.
    pub(crate) only_size: Option<usize>,
    /// Nodes that are planned.
    pub(crate) planned: u32,
}

impl<'a> Stage<'a> {
    /// Sets up the world.
    pub(crate) fn new(world: &'a World, now: Timestamp) -> Self {
        let mut templates = 0;
        let mut groups = Vec::with_capacity(world.groups.len());
        let mut group_numbers: HashMap<&Key, usize> = HashMap::new();
        for (number, group) in world.groups.values().enumerate() {
            group_numbers.insert(&group.key, number);
            groups.push(GroupStage {
                group,
                templates,
                members: Vec::new(),
                by_place: vec![0; group.places.len()],
                spot: 0,
                only_size: None,
                planned: 0,
            });
            templates += group.sizes.len() * group.places.len();
        }
        let mut snapshot = Snapshot::new(world.shapes(), &world.namespaces, templates);
        let first = snapshot.shapes();
        snapshot.add_shapes(world.daemons.values());
        let daemons = first..snapshot.shapes();
        let mut stage = Self {
            world,
            now,
            snapshot,
            groups,
            nodes: Vec::with_capacity(world.nodes().len()),
            upcoming: Vec::new(),
            daemons,
            runs: HashMap::new(),
            copies: HashMap::new(),
            open: vec![0; templates],
            order: Vec::new(),
        };
        stage.add_nodes(&group_numbers);
        stage.snapshot.keep_all();
        stage.add_pods();
        stage.hold_to_sizes();
        stage.add_upcoming();
        stage
    }

    fn add_nodes(&mut self, group_numbers: &HashMap<&Key, usize>) {
        for node in self.world.nodes().values() {
            let group = node.group.as_ref().and_then(|key| group_numbers.get(key).copied());
            let timeout = SignedDuration::from_secs(self.world.settings.node_ready_timeout);
            let deadline = node.created.checked_add(timeout).unwrap_or(Timestamp::MAX);
            let starting = !node.ready && !node.deleting && group.is_some() && deadline > self.now;
            let taints = match starting {
                true => node.taints.iter().filter(|taint| !taint.is_startup()).cloned().collect(),
                false => node.taints.clone(),
            };
            let site = self.snapshot.push(Arc::new(NewSite {
                name: node.name.clone(),
                labels: node.labels.clone(),
                taints,
                unschedulable: node.unschedulable,
                allocatable: node.allocatable.clone(),
                pods: node.pods,
                template: None,
            }));
            if node.deleting || !node.ready && !starting {
                self.snapshot.close(site);
            }
            if let Some(number) = group {
                let group = &mut self.groups[number];
                group.members.push(site);
                if !node.deleting {
                    group.note(node.place.as_deref().unwrap_or_default(), node.spot);
                }
            }
            self.nodes.push(NodeStage { node, group, pods: Vec::new(), expected: false });
        }
    }

    fn add_pods(&mut self) {
        let sites: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (node.node.name.as_str(), at)).collect();
        for entry in self.world.entries() {
            let pod = &entry.pod;
            match &pod.place {
                PodPlace::On(node) => {
                    let Some(site) = sites.get(node.as_str()) else { continue };
                    self.snapshot.put(entry.shape, *site, 1, pod.terminating);
                    if !pod.terminating {
                        self.nodes[*site].pods.push(entry);
                    }
                }
                // It gets its room there, whoever has it now.
                PodPlace::Nominated(node) if !pod.terminating => {
                    if let Some(site) = sites.get(node.as_str()) {
                        self.snapshot.put(entry.shape, *site, 1, false);
                        self.nodes[*site].pods.push(entry);
                    }
                }
                _ => {}
            }
        }
    }

    /// A group whose nodes must not differ keeps the size that most of them have.
    fn hold_to_sizes(&mut self) {
        for number in 0..self.groups.len() {
            let group = self.groups[number].group;
            if group.mixed {
                continue;
            }
            let mut votes = vec![0usize; group.sizes.len()];
            let of_nodes = self.groups[number].members.iter();
            let of_nodes = of_nodes.filter_map(|site| self.nodes[*site].node.size.as_deref());
            let of_upcoming = group.facts.upcoming.iter().map(|node| node.size.as_str());
            for size in of_nodes.chain(of_upcoming) {
                if let Some(at) = group.sizes.iter().position(|known| known.id == size) {
                    votes[at] += 1;
                }
            }
            let best = (0..votes.len()).max_by_key(|at| (votes[*at], std::cmp::Reverse(*at)));
            let preferred = group.preferred_size.as_ref();
            let preferred =
                preferred.and_then(|id| group.sizes.iter().position(|size| size.id == *id));
            self.groups[number].only_size = match best {
                Some(best) if votes[best] > 0 => Some(best),
                _ => preferred.or(if group.sizes.len() == 1 { Some(0) } else { None }),
            };
        }
    }

    fn add_upcoming(&mut self) {
        for number in 0..self.groups.len() {
            let group = self.groups[number].group;
            let mut coming: Vec<Upcoming> = group.facts.upcoming.clone();
            for node in &coming {
                self.groups[number].note(&node.place, node.spot);
            }
            // Wanted, and not yet on record: these come too, unless the group has stopped.
            if !group.stopped && !group.paused {
                for _ in group.healthy()..group.desired.min(group.max) {
                    let Some(size) = crate::grow::usual_size(&self.groups[number], self.now) else {
                        break;
                    };
                    let place = crate::grow::place_order(&self.groups[number], self.now);
                    let Some(place) = place.first().copied() else { break };
                    let place = group.places[place].id.clone();
                    self.groups[number].note(&place, false);
                    let size = group.sizes[size].id.clone();
                    coming.push(Upcoming { size, place, spot: false, pods: Vec::new() });
                }
            }
            for node in coming {
                let Some(size) = group.sizes.iter().position(|size| size.id == node.size) else {
                    continue;
                };
                let place = group.places.iter().position(|place| place.id == node.place);
                let site = self.open(number, size, place.unwrap_or(0));
                self.upcoming.push((site, number, node.pods));
            }
        }
    }

    /// One more node of a size in a place, with the pods of DaemonSets on it.
    pub(crate) fn open(&mut self, group: usize, size: usize, place: usize) -> usize {
        let template = self.template(group, size, place);
        let copy = self.open[template];
        self.open[template] += 1;
        self.order.push(template);
        let site = self.copy(group, size, place, template, copy);
        let site = self.snapshot.push(site);
        if !self.runs.contains_key(&template) {
            let runs = self.daemons.clone().filter(|shape| {
                self.snapshot.prepare(*shape);
                self.snapshot.check(*shape, site, 0).is_ok()
            });
            let runs: Vec<usize> = runs.collect();
            self.runs.insert(template, runs);
        }
        for at in 0..self.runs.get(&template).map_or(0, Vec::len) {
            let shape = self.runs[&template][at];
            self.snapshot.put(shape, site, 1, false);
        }
        site
    }

    /// One more node that is of no group's template, with the pods of DaemonSets on it.
    pub(crate) fn open_site(&mut self, site: NewSite) -> usize {
        let site = self.snapshot.push(Arc::new(site));
        for shape in self.daemons.clone() {
            self.snapshot.prepare(shape);
            if self.snapshot.check(shape, site, 0).is_ok() {
                self.snapshot.put(shape, site, 1, false);
            }
        }
        site
    }

    /// Takes everything back since a mark, with the nodes that were opened.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        self.snapshot.rollback(mark.step);
        for template in self.order.drain(mark.opened..) {
            self.open[template] -= 1;
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { step: self.snapshot.mark(), opened: self.order.len() }
    }

    /// The number of the template of a size in a place.
    pub(crate) fn template(&self, group: usize, size: usize, place: usize) -> usize {
        let stage = &self.groups[group];
        stage.templates + size * stage.group.places.len() + place
    }

    fn copy(
        &mut self,
        group: usize,
        size: usize,
        place: usize,
        template: usize,
        number: usize,
    ) -> Arc<NewSite> {
        let group = self.groups[group].group;
        let copies = self.copies.entry(template).or_default();
        while copies.len() <= number {
            let site = template_site(group, &group.sizes[size], place, template, copies.len());
            copies.push(Arc::new(site));
        }
        copies[number].clone()
    }
}

fn template_site(
    group: &Group,
    size: &Size,
    place: usize,
    template: usize,
    number: usize,
) -> NewSite {
    let place = &group.places[place];
    // No node has a name with these characters.
    let name = format!("<{}:{}:{}:{number}>", group.key, size.id, place.id);
    let taints: Arc<[Taint]> = group.taints.clone().into();
    NewSite {
        labels: Arc::new(group.labels_of(size, place, &name)),
        taints,
        unschedulable: false,
        allocatable: size.allocatable.clone(),
        pods: size.pods,
        template: Some(template),
        name,
    }
}

impl GroupStage<'_> {
    /// One more node in a place; where the place is not one of the group's, it counts nowhere.
    pub(crate) fn note(&mut self, place: &str, spot: bool) {
        let known = self.group.places.iter().position(|known| known.id == place);
        // A group of one place has all its nodes there.
        let known = known.or(if self.by_place.len() == 1 { Some(0) } else { None });
        if let Some(at) = known {
            self.by_place[at] += 1;
        }
        self.spot += u32::from(spot);
    }

    /// How large it is with what is planned.
    pub(crate) fn size(&self) -> u32 {
        self.group.size().saturating_add(self.planned)
    }
}
