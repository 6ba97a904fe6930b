//! Nodes with their pods, on which moves are tried out and taken back.
//!
//! The rules are those of [`crate::filters`]; counts by place stand in for looking at every pod.
//! Counts for a shape are made when it is first asked about ([`Snapshot::prepare`]).

mod check;
mod counts;
mod rooms;
mod topology;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(crate) use check::No;
use counts::{Counts, SpreadCounts};
pub(crate) use rooms::Rooms;
use topology::Topology;

use crate::filters::{NodeFacts, fixed, spread_counts_node};
use crate::world::{HostPort, Labels, Resources, Shape, Shapes, Taint, Term};

/// A node to try things out on.
#[derive(Clone, Debug)]
pub(crate) struct NewSite {
    pub(crate) name: String,
    pub(crate) labels: Arc<Labels>,
    pub(crate) taints: Arc<[Taint]>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Resources,
    pub(crate) pods: i64,
    /// Nodes of one template admit the same shapes.
    pub(crate) template: Option<usize>,
}

#[derive(Debug)]
struct Site {
    facts: Arc<NewSite>,
    /// What is left of devices and the like.
    other: BTreeMap<String, i64>,
    ports: Vec<HostPort>,
    /// Nothing more is put there.
    closed: bool,
}

/// A term of anti-affinity that some shapes have, and where pods of these are.
#[derive(Debug)]
struct Away {
    term: Term,
    owners: Counts,
}

#[derive(Debug)]
struct Known {
    shape: Arc<Shape>,
    /// Where pods of it are: all of them, and those on their way out.
    at: BTreeMap<usize, (i64, i64)>,
    /// Terms that it has itself.
    away: Vec<usize>,
    /// Counts and spreads that pods of it are counted in.
    counted: Vec<usize>,
    spread_counted: Vec<usize>,
    prepared: Option<Prepared>,
}

/// What was found out about a shape before it is placed.
#[derive(Debug)]
struct Prepared {
    /// Others' terms that mean it.
    kept_away: Vec<usize>,
    /// Counts for each of its terms of anti-affinity, and of affinity.
    anti: Vec<usize>,
    near: Vec<usize>,
    means_itself: bool,
    spread: Vec<(usize, i64)>,
    /// Whether only room and what never changes matters.
    plain: bool,
    /// Whether only taints and cordons matter of what never changes.
    easy: bool,
    /// By node, or by their kinds, and by template: 0 is not known, 1 yes, 2 no.
    fixed: Vec<Cell<u8>>,
    templates: Vec<Cell<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put { shape: usize, site: usize, number: i64, terminating: bool },
    Push,
    Close(usize),
}

/// Nodes with their pods.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    namespaces: &'a BTreeMap<String, Labels>,
    known: Vec<Known>,
    sites: Vec<Site>,
    /// What is left by node; apart, since this is what is looked at most.
    cpu: Vec<i64>,
    memory: Vec<i64>,
    ephemeral: Vec<i64>,
    slots: Vec<i64>,
    topology: Topology,
    aways: Vec<Away>,
    counts: Vec<Counts>,
    spreads: Vec<SpreadCounts>,
    /// Whose each spread is, and which of its rules.
    spread_owner: Vec<(usize, usize)>,
    steps: Vec<Step>,
    templates: usize,
    /// The first nodes, which stay: answers about them are remembered.
    lasting: usize,
    /// By lasting node: nodes of one number have the same taints and cordons; and how many numbers.
    kept_by: Vec<usize>,
    kinds: usize,
    /// By template: spreads that its nodes matter to, of so many that there were.
    concerned: HashMap<usize, (usize, Arc<[usize]>)>,
}

impl<'a> Snapshot<'a> {
    /// One with these shapes and no nodes, that remembers answers for so many templates.
    pub(crate) fn new(
        shapes: &Shapes,
        namespaces: &'a BTreeMap<String, Labels>,
        templates: usize,
    ) -> Self {
        let mut snapshot = Self {
            namespaces,
            known: Vec::with_capacity(shapes.all().len()),
            sites: Vec::new(),
            cpu: Vec::new(),
            memory: Vec::new(),
            ephemeral: Vec::new(),
            slots: Vec::new(),
            topology: Topology::default(),
            aways: Vec::new(),
            counts: Vec::new(),
            spreads: Vec::new(),
            spread_owner: Vec::new(),
            steps: Vec::new(),
            templates,
            lasting: 0,
            kept_by: Vec::new(),
            kinds: 0,
            concerned: HashMap::new(),
        };
        let mut terms = HashMap::new();
        for shape in shapes.all() {
            snapshot.know(shape.clone().unwrap_or_default(), &mut terms);
        }
        snapshot
    }

    /// Adds shapes that no pod has; to be called before anything is prepared.
    pub(crate) fn add_shapes<'s>(&mut self, shapes: impl Iterator<Item = &'s Arc<Shape>>) {
        let mut terms: HashMap<Term, usize> =
            self.aways.iter().enumerate().map(|(at, away)| (away.term.clone(), at)).collect();
        for shape in shapes {
            self.know(shape.clone(), &mut terms);
        }
    }

    fn know(&mut self, shape: Arc<Shape>, terms: &mut HashMap<Term, usize>) {
        let mut own = Vec::new();
        for term in &shape.anti_affinity {
            let number = *terms.entry(term.clone()).or_insert_with(|| {
                let sites = self.sites.iter().map(|site| &*site.facts.labels);
                let key = self.topology.key(&term.topology_key, sites);
                self.aways.push(Away { term: term.clone(), owners: Counts::new(key) });
                self.aways.len() - 1
            });
            own.push(number);
        }
        self.known.push(Known {
            shape,
            at: BTreeMap::new(),
            away: own,
            counted: Vec::new(),
            spread_counted: Vec::new(),
            prepared: None,
        });
    }

    /// Labels by which pods keep others away.
    pub(crate) fn away_keys(&self) -> impl Iterator<Item = &str> {
        self.aways.iter().map(|away| away.term.topology_key.as_str())
    }

    pub(crate) fn shape(&self, shape: usize) -> &Arc<Shape> {
        &self.known[shape].shape
    }

    pub(crate) fn shapes(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.sites.len()
    }

    pub(crate) fn name(&self, site: usize) -> &str {
        &self.sites[site].facts.name
    }

    pub(crate) fn labels(&self, site: usize) -> &Labels {
        &self.sites[site].facts.labels
    }

    /// What is left on a node.
    pub(crate) fn free(&self, site: usize) -> Resources {
        Resources {
            cpu: self.cpu[site],
            memory: self.memory[site],
            ephemeral: self.ephemeral[site],
            other: self.sites[site].other.clone(),
        }
    }

    /// The nodes that there are stay: answers about them may be remembered.
    pub(crate) fn keep_all(&mut self) {
        self.lasting = self.sites.len();
        let mut numbers = HashMap::new();
        for site in &self.sites {
            let looks = (site.facts.taints.clone(), site.facts.unschedulable);
            let next = numbers.len();
            self.kept_by.push(*numbers.entry(looks).or_insert(next));
        }
        self.kinds = numbers.len();
    }

    /// One more node, without pods.
    pub(crate) fn push(&mut self, site: Arc<NewSite>) -> usize {
        let number = self.sites.len();
        self.cpu.push(site.allocatable.cpu);
        self.memory.push(site.allocatable.memory);
        self.ephemeral.push(site.allocatable.ephemeral);
        self.slots.push(site.pods);
        self.topology.push(&site.labels);
        let other = site.allocatable.other.clone();
        self.sites.push(Site { facts: site, other, ports: Vec::new(), closed: false });
        self.for_spreads(number, true);
        self.steps.push(Step::Push);
        number
    }

    /// Tells spreads of a node that came or goes. Those for which nodes of its template change
    /// nothing are remembered, since nodes come and go often.
    fn for_spreads(&mut self, site: usize, comes: bool) {
        let template = self.sites[site].facts.template;
        let known = template.and_then(|at| self.concerned.get(&at));
        let concerned = match known {
            Some((number, concerned)) if *number == self.spreads.len() => concerned.clone(),
            _ => {
                let all = (0..self.spreads.len()).filter(|at| self.concerns(*at, site));
                let concerned: Arc<[usize]> = all.collect();
                if let Some(template) = template {
                    self.concerned.insert(template, (self.spreads.len(), concerned.clone()));
                }
                concerned
            }
        };
        for spread in concerned.iter() {
            let spread = &mut self.spreads[*spread];
            if let Some(value) = self.topology.value(spread.key, site) {
                spread.node(value, comes, site < self.lasting);
            }
        }
    }

    /// Whether a node makes or unmakes a place: one that counts, in a place that no lasting node is
    /// in.
    fn concerns(&self, spread: usize, site: usize) -> bool {
        let value = self.topology.value(self.spreads[spread].key, site);
        value.is_some_and(|value| {
            !self.spreads[spread].is_lasting(value) && self.counts_in(spread, site)
        })
    }

    /// Whether a node counts in a spread.
    fn counts_in(&self, spread: usize, site: usize) -> bool {
        let counts = &self.spreads[spread];
        let memo = match self.sites[site].facts.template {
            Some(template) => counts.templates.get(template),
            None => counts.nodes.get(site),
        };
        match memo.map(Cell::get) {
            Some(1) => true,
            Some(2) => false,
            _ => {
                let (owner, rule) = self.spread_owner[spread];
                let shape = &self.known[owner].shape;
                let eligible = spread_counts_node(shape, &shape.spread[rule], self.facts(site));
                if let Some(memo) = memo {
                    memo.set(if eligible { 1 } else { 2 });
                }
                eligible
            }
        }
    }

    /// Nothing more is put on this node.
    pub(crate) fn close(&mut self, site: usize) {
        if !self.sites[site].closed {
            self.sites[site].closed = true;
            self.steps.push(Step::Close(site));
        }
    }

    /// Puts pods on a node, without asking.
    pub(crate) fn put(&mut self, shape: usize, site: usize, number: i64, terminating: bool) {
        self.apply(shape, site, number, terminating);
        self.steps.push(Step::Put { shape, site, number, terminating });
    }

    /// A place in time to come back to.
    pub(crate) fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Takes everything back that was done since.
    pub(crate) fn rollback(&mut self, mark: usize) {
        while self.steps.len() > mark {
            match self.steps.pop() {
                Some(Step::Put { shape, site, number, terminating }) => {
                    self.apply(shape, site, -number, terminating);
                }
                Some(Step::Close(site)) => self.sites[site].closed = false,
                Some(Step::Push) => self.pop(),
                None => return,
            }
        }
    }

    fn pop(&mut self) {
        let Some(number) = self.sites.len().checked_sub(1) else { return };
        self.for_spreads(number, false);
        self.sites.pop();
        self.cpu.pop();
        self.memory.pop();
        self.ephemeral.pop();
        self.slots.pop();
        self.topology.pop();
    }

    fn apply(&mut self, shape: usize, site: usize, number: i64, terminating: bool) {
        let known = &mut self.known[shape];
        let wants = &known.shape.requests;
        self.cpu[site] -= wants.cpu * number;
        self.memory[site] -= wants.memory * number;
        self.ephemeral[site] -= wants.ephemeral * number;
        self.slots[site] -= number;
        let place = &mut self.sites[site];
        for (name, amount) in &wants.other {
            *place.other.entry(name.clone()).or_default() -= amount * number;
        }
        for port in &known.shape.ports {
            for _ in 0..number {
                place.ports.push(port.clone());
            }
            for _ in number..0 {
                if let Some(at) = place.ports.iter().position(|taken| taken == port) {
                    place.ports.swap_remove(at);
                }
            }
        }
        let here = known.at.entry(site).or_default();
        here.0 += number;
        here.1 += if terminating { number } else { 0 };
        if *here == (0, 0) {
            known.at.remove(&site);
        }
        for away in &known.away {
            let owners = &mut self.aways[*away].owners;
            if let Some(value) = self.topology.value(owners.key, site) {
                owners.add(value, number);
            }
        }
        for counted in &known.counted {
            let counts = &mut self.counts[*counted];
            if let Some(value) = self.topology.value(counts.key, site) {
                counts.add(value, number);
            }
        }
        if !terminating {
            for at in 0..self.known[shape].spread_counted.len() {
                let spread = self.known[shape].spread_counted[at];
                self.add_to_spread(spread, site, number);
            }
        }
    }

    fn add_to_spread(&mut self, spread: usize, site: usize, number: i64) {
        if let Some(value) = self.topology.value(self.spreads[spread].key, site)
            && self.counts_in(spread, site)
        {
            self.spreads[spread].add(value, number);
        }
    }

    /// Makes what is needed to ask about a shape.
    pub(crate) fn prepare(&mut self, shape: usize) {
        if self.known[shape].prepared.is_some() {
            return;
        }
        let own = self.known[shape].shape.clone();
        let means = |term: &Term, other: &Shape, namespaces| {
            term.matches(&other.namespace, &other.labels, namespaces)
        };
        let kept_away: Vec<usize> = (0..self.aways.len())
            .filter(|away| means(&self.aways[*away].term, &own, self.namespaces))
            .collect();
        let mut anti = Vec::new();
        for term in &own.anti_affinity {
            let namespaces = self.namespaces;
            anti.push(self.count(&term.topology_key, |other| means(term, other, namespaces)));
        }
        let mut near = Vec::new();
        let namespaces = self.namespaces;
        let all = |other: &Shape| own.affinity.iter().all(|term| means(term, other, namespaces));
        for term in &own.affinity {
            near.push(self.count(&term.topology_key, all));
        }
        let mut spread = Vec::new();
        for (rule, constraint) in own.spread.iter().enumerate() {
            let itself = i64::from(constraint.counts(&own.labels));
            spread.push((self.count_spread(shape, rule), itself));
        }
        let plain = kept_away.is_empty()
            && anti.is_empty()
            && near.is_empty()
            && spread.is_empty()
            && own.ports.is_empty();
        // Who selects no nodes is kept away by taints alone.
        let easy =
            own.node_selector.is_empty() && own.node_affinity.is_none() && own.volumes.is_empty();
        let fixed = vec![Cell::new(0); if easy { self.kinds } else { self.lasting }];
        self.known[shape].prepared = Some(Prepared {
            kept_away,
            anti,
            near,
            means_itself: all(&own),
            spread,
            plain,
            easy,
            fixed,
            templates: vec![Cell::new(0); self.templates],
        });
    }

    fn count(&mut self, key: &str, meant: impl Fn(&Shape) -> bool) -> usize {
        let sites = self.sites.iter().map(|site| &*site.facts.labels);
        let key = self.topology.key(key, sites);
        let mut counts = Counts::new(key);
        let number = self.counts.len();
        for known in &mut self.known {
            if meant(&known.shape) {
                known.counted.push(number);
                for (site, (pods, _)) in &known.at {
                    if let Some(value) = self.topology.value(key, *site) {
                        counts.add(value, *pods);
                    }
                }
            }
        }
        self.counts.push(counts);
        number
    }

    fn count_spread(&mut self, owner: usize, rule: usize) -> usize {
        let own = self.known[owner].shape.clone();
        let constraint = &own.spread[rule];
        let sites = self.sites.iter().map(|site| &*site.facts.labels);
        let key = self.topology.key(&constraint.topology_key, sites);
        let number = self.spreads.len();
        self.spreads.push(SpreadCounts::new(key, self.templates, self.lasting));
        self.spread_owner.push((owner, rule));
        for site in 0..self.sites.len() {
            if self.concerns(number, site) || site < self.lasting && self.counts_in(number, site) {
                let value = self.topology.value(key, site);
                if let Some(value) = value {
                    self.spreads[number].node(value, true, site < self.lasting);
                }
            }
        }
        for shape in 0..self.known.len() {
            let known = &mut self.known[shape];
            if known.shape.namespace == own.namespace && constraint.counts(&known.shape.labels) {
                known.spread_counted.push(number);
                let at: Vec<(usize, i64)> = known
                    .at
                    .iter()
                    .map(|(site, (pods, terminating))| (*site, pods - terminating))
                    .collect();
                for (site, pods) in at {
                    self.add_to_spread(number, site, pods);
                }
            }
        }
        number
    }

    fn facts(&self, site: usize) -> NodeFacts<'_> {
        let facts = &self.sites[site].facts;
        NodeFacts {
            name: &facts.name,
            labels: &facts.labels,
            taints: &facts.taints,
            unschedulable: facts.unschedulable,
        }
    }

    /// Whether what never changes about this node allows the shape.
    fn admits(&self, shape: usize, site: usize) -> bool {
        let known = &self.known[shape];
        let Some(prepared) = &known.prepared else {
            return fixed(&known.shape, self.facts(site)).is_ok();
        };
        let memo = match self.sites[site].facts.template {
            Some(template) => prepared.templates.get(template),
            None if prepared.easy => {
                self.kept_by.get(site).and_then(|kind| prepared.fixed.get(*kind))
            }
            None => prepared.fixed.get(site),
        };
        match memo.map(Cell::get) {
            Some(1) => true,
            Some(2) => false,
            _ => {
                let admits = fixed(&known.shape, self.facts(site)).is_ok();
                if let Some(memo) = memo {
                    memo.set(if admits { 1 } else { 2 });
                }
                admits
            }
        }
    }
}

#[cfg(test)]
mod tests;
