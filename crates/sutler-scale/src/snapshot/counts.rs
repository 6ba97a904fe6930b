//! Counts of pods by place, kept up to date as pods come and go.

use std::cell::Cell;
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
    /// By lasting node and by template, whether it counts: 0 is not known, 1 yes, 2 no.
    pub(crate) nodes: Vec<Cell<u8>>,
    pub(crate) templates: Vec<Cell<u8>>,
    places: Vec<Domain>,
    /// How many places have so many pods.
    levels: BTreeMap<i64, usize>,
    domains: usize,
}

/// A place: nodes that count and come and go, whether one of them lasts, and pods.
#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    nodes: u32,
    lasting: bool,
    pods: i64,
}

impl SpreadCounts {
    pub(crate) fn new(key: usize, templates: usize, lasting: usize) -> Self {
        Self {
            key,
            nodes: vec![Cell::new(0); lasting],
            templates: vec![Cell::new(0); templates],
            places: Vec::new(),
            levels: BTreeMap::new(),
            domains: 0,
        }
    }

    /// Whether a place has a node that lasts.
    pub(crate) fn is_lasting(&self, value: usize) -> bool {
        self.places.get(value).is_some_and(|place| place.lasting)
    }

    /// A node that counts comes to a place, or goes.
    pub(crate) fn node(&mut self, value: usize, comes: bool, lasting: bool) {
        if self.places.len() <= value {
            self.places.resize(value + 1, Domain::default());
        }
        let place = &mut self.places[value];
        place.lasting |= lasting;
        let pods = place.pods;
        match comes {
            true => {
                place.nodes += 1;
                if place.nodes == 1 {
                    self.domains += 1;
                    *self.levels.entry(pods).or_default() += 1;
                }
            }
            false => {
                place.nodes -= 1;
                if place.nodes == 0 {
                    self.domains -= 1;
                    self.leave_level(pods);
                }
            }
        }
    }

    /// More pods in a place, or fewer.
    pub(crate) fn add(&mut self, value: usize, number: i64) {
        let pods = self.places[value].pods;
        self.places[value].pods += number;
        if self.places[value].nodes > 0 {
            self.leave_level(pods);
            *self.levels.entry(pods + number).or_default() += 1;
        }
    }

    /// Pods in a place.
    pub(crate) fn at(&self, value: usize) -> i64 {
        self.places.get(value).filter(|place| place.nodes > 0).map_or(0, |place| place.pods)
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
