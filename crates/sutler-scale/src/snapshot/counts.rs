//! Counts of pods by place, kept up to date as pods come and go.

use std::collections::BTreeMap;

/// A number for each place.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The label that tells places apart.
    pub(crate) key: usize,
    by_value: Vec<i64>,
    total: i64,
}

impl Counts {
    pub(crate) fn new(key: usize) -> Self {
        Self { key, ..Self::default() }
    }

    pub(crate) fn add(&mut self, value: usize, number: i64) {
        if self.by_value.len() <= value {
            self.by_value.resize(value + 1, 0);
        }
        self.by_value[value] += number;
        self.total += number;
    }

    pub(crate) fn at(&self, value: usize) -> i64 {
        self.by_value.get(value).copied().unwrap_or(0)
    }

    /// All places together.
    pub(crate) fn total(&self) -> i64 {
        self.total
    }
}

/// Counts for one rule of even spreading: only some nodes are part of a place, and the emptiest
/// place has to be known at any time.
#[derive(Debug)]
pub(crate) struct SpreadCounts {
    /// The label that tells places apart.
    pub(crate) key: usize,
    /// By node: whether it counts.
    eligible: Vec<bool>,
    /// By place: nodes that count, and pods on them.
    places: Vec<(u32, i64)>,
    /// How many places have so many pods.
    levels: BTreeMap<i64, usize>,
    domains: usize,
}

impl SpreadCounts {
    pub(crate) fn new(key: usize) -> Self {
        Self {
            key,
            eligible: Vec::new(),
            places: Vec::new(),
            levels: BTreeMap::new(),
            domains: 0,
        }
    }

    /// One more node; `value` is its place if it has one.
    pub(crate) fn push_node(&mut self, value: Option<usize>, eligible: bool) {
        let value = value.filter(|_| eligible);
        self.eligible.push(value.is_some());
        let Some(value) = value else { return };
        if self.places.len() <= value {
            self.places.resize(value + 1, (0, 0));
        }
        self.places[value].0 += 1;
        if self.places[value].0 == 1 {
            self.domains += 1;
            let pods = self.places[value].1;
            *self.levels.entry(pods).or_default() += 1;
        }
    }

    /// The last node, which has no pods, is gone.
    pub(crate) fn pop_node(&mut self, value: Option<usize>) {
        if self.eligible.pop() != Some(true) {
            return;
        }
        let Some(value) = value else { return };
        self.places[value].0 -= 1;
        if self.places[value].0 == 0 {
            self.domains -= 1;
            let pods = self.places[value].1;
            self.leave_level(pods);
        }
    }

    /// More pods on a node, or fewer.
    pub(crate) fn add(&mut self, node: usize, value: Option<usize>, number: i64) {
        if !self.eligible[node] {
            return;
        }
        let Some(value) = value else { return };
        let pods = self.places[value].1;
        self.leave_level(pods);
        self.places[value].1 += number;
        *self.levels.entry(pods + number).or_default() += 1;
    }

    /// Pods in a place.
    pub(crate) fn at(&self, value: usize) -> i64 {
        self.places.get(value).filter(|place| place.0 > 0).map_or(0, |place| place.1)
    }

    /// Pods in the emptiest place, where there are so many places.
    pub(crate) fn least(&self, min_domains: i32) -> i64 {
        if i64::try_from(self.domains).unwrap_or(i64::MAX) < i64::from(min_domains) {
            return 0;
        }
        self.levels.keys().next().copied().unwrap_or(i64::from(i32::MAX))
    }

    fn leave_level(&mut self, pods: i64) {
        if let Some(number) = self.levels.get_mut(&pods) {
            *number -= 1;
            if *number == 0 {
                self.levels.remove(&pods);
            }
        }
    }
}
