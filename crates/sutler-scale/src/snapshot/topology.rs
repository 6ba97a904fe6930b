//! Labels of nodes that tell places apart, as numbers.

use std::collections::HashMap;

use crate::world::Labels;

/// What a node without the label has.
const NONE: u32 = u32::MAX;

/// Values of labels by node. Values keep their number, so that counts can be kept by it.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    keys: HashMap<String, usize>,
    names: Vec<String>,
    values: Vec<HashMap<String, u32>>,
    of: Vec<Vec<u32>>,
}

impl Topology {
    /// The number of a label, with the nodes that there are.
    pub(crate) fn key<'a>(&mut self, key: &str, nodes: impl Iterator<Item = &'a Labels>) -> usize {
        if let Some(number) = self.keys.get(key) {
            return *number;
        }
        let number = self.names.len();
        self.keys.insert(key.to_owned(), number);
        self.names.push(key.to_owned());
        self.values.push(HashMap::new());
        self.of.push(Vec::new());
        for labels in nodes {
            self.push_one(number, labels);
        }
        number
    }

    /// The label of a number.
    pub(crate) fn name(&self, key: usize) -> &str {
        &self.names[key]
    }

    /// One more node.
    pub(crate) fn push(&mut self, labels: &Labels) {
        for key in 0..self.names.len() {
            self.push_one(key, labels);
        }
    }

    /// The last node is gone.
    pub(crate) fn pop(&mut self) {
        for of in &mut self.of {
            of.pop();
        }
    }

    /// The value of a label on a node.
    pub(crate) fn value(&self, key: usize, node: usize) -> Option<usize> {
        let value = self.of[key][node];
        (value != NONE).then_some(value as usize)
    }

    fn push_one(&mut self, key: usize, labels: &Labels) {
        let values = &mut self.values[key];
        let value = labels.get(&self.names[key]).map_or(NONE, |value| {
            if let Some(number) = values.get(value) {
                return *number;
            }
            let number = u32::try_from(values.len()).unwrap_or(NONE);
            values.insert(value.clone(), number);
            number
        });
        self.of[key].push(value);
    }
}
