//! A memory of what was noted last, whose size and cost are bounded.

use std::collections::BTreeMap;

/// Remembers at least the last `most` entries and at most twice as many: the old half goes as a
/// whole, so that nothing is ever searched for what may be forgotten.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
    most: usize,
}

impl<K: Ord, V> Recent<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), most }
    }

    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.most && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_remembered_and_the_first_forgotten() {
        let mut recent = Recent::new(10);
        for n in 0..100 {
            recent.insert(n, n);
            let known = (0..=n).filter(|n| recent.get(n).is_some()).count();
            assert!(known >= 10.min(n + 1) && known <= 20, "{known} after {n}");
            assert!((n.saturating_sub(9)..=n).all(|n| recent.get(&n) == Some(&n)));
        }
        recent.insert(99, 7);
        assert_eq!(recent.get(&99), Some(&7));
    }
}
