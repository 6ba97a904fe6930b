//! Sets of field paths: who owns what, what changed, what is to be removed.
//!
//! A set is a trie. A path can be a member, lead to members, or both: owning `.spec` does not mean
//! owning `.spec.a`, nor the other way round.

mod codec;
mod element;

use std::cmp::Ordering;

pub use self::{codec::FieldsError, element::PathElement};

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; each is a member, has children, or both.
    pub(crate) entries: Vec<Entry>,
}

/// One element of one level of the trie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl FieldSet {
    /// The set without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of object fields, each path given by its field names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|e| usize::from(e.member) + e.children.len()).sum()
    }

    /// Adds a path. The empty path is not tracked.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let place = match self.find(first) {
            Ok(place) => place,
            Err(place) => {
                let entry =
                    Entry { element: first.clone(), member: false, children: FieldSet::default() };
                self.entries.insert(place, entry);
                place
            }
        };
        let entry = &mut self.entries[place];
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.children.insert(rest);
        }
    }

    /// Whether the path is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Ok(place) = self.find(first) else { return false };
        let entry = &self.entries[place];
        if rest.is_empty() { entry.member } else { entry.children.has(rest) }
    }

    /// The members below one element, without that element.
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        let entry = &self.entries[self.find(element).ok()?];
        (!entry.children.is_empty()).then_some(&entry.children)
    }

    /// Paths that are members of either.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        for pair in zip(&self.entries, &other.entries) {
            entries.push(match pair {
                (Some(only), None) | (None, Some(only)) => only.clone(),
                (Some(l), Some(r)) => Entry {
                    element: l.element.clone(),
                    member: l.member || r.member,
                    children: l.children.union(&r.children),
                },
                (None, None) => continue,
            });
        }
        Self { entries }
    }

    /// Paths that are members of both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for pair in zip(&self.entries, &other.entries) {
            if let (Some(l), Some(r)) = pair {
                let children = l.children.intersection(&r.children);
                out.push(&l.element, l.member && r.member, children);
            }
        }
        out
    }

    /// Members of this set that are not members of the other. A member does not take what is below
    /// it along.
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Self::default();
        for pair in zip(&self.entries, &other.entries) {
            match pair {
                (Some(l), None) => out.entries.push(l.clone()),
                (Some(l), Some(r)) => {
                    let children = l.children.difference(&r.children);
                    out.push(&l.element, l.member && !r.member, children);
                }
                _ => {}
            }
        }
        out
    }

    /// As [`FieldSet::difference`], but a member of the other set also takes what is below it.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Self::default();
        for pair in zip(&self.entries, &other.entries) {
            match pair {
                (Some(l), None) => out.entries.push(l.clone()),
                (Some(l), Some(r)) if !r.member => {
                    let children = l.children.recursive_difference(&r.children);
                    out.push(&l.element, l.member, children);
                }
                _ => {}
            }
        }
        out
    }

    /// As [`FieldSet::difference`] in place, for a small set to be taken out of a large one.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.take_out(other, false);
    }

    /// As [`FieldSet::recursive_difference`] in place.
    pub(crate) fn subtract_recursively(&mut self, other: &Self) {
        self.take_out(other, true);
    }

    fn take_out(&mut self, other: &Self, recursively: bool) {
        for gone in &other.entries {
            let Ok(place) = self.find(&gone.element) else { continue };
            let entry = &mut self.entries[place];
            if gone.member && recursively {
                self.entries.remove(place);
                continue;
            }
            entry.member &= !gone.member;
            entry.children.take_out(&gone.children, recursively);
            if !entry.member && entry.children.is_empty() {
                self.entries.remove(place);
            }
        }
    }

    /// The union of two sets that are not needed any more.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => self.union(&other),
        }
    }

    /// Only the members that have no members below them.
    pub fn leaves(&self) -> Self {
        let mut out = Self::default();
        for entry in &self.entries {
            let member = entry.member && entry.children.is_empty();
            out.push(&entry.element, member, entry.children.leaves());
        }
        out
    }

    /// Calls `visit` with every member path; the members of one level come before those below it.
    pub fn each(&self, visit: &mut dyn FnMut(&[PathElement])) {
        self.each_from(&mut Vec::new(), visit);
    }

    /// Every member path, in the order of [`FieldSet::each`].
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::with_capacity(self.len());
        self.each(&mut |path| out.push(path.to_vec()));
        out
    }

    fn each_from(&self, path: &mut Vec<PathElement>, visit: &mut dyn FnMut(&[PathElement])) {
        for entry in self.entries.iter().filter(|e| e.member) {
            path.push(entry.element.clone());
            visit(path);
            path.pop();
        }
        for entry in self.entries.iter().filter(|e| !e.children.is_empty()) {
            path.push(entry.element.clone());
            entry.children.each_from(path, visit);
            path.pop();
        }
    }

    /// Appends an element that sorts after all others, unless it would say nothing.
    pub(crate) fn push(&mut self, element: &PathElement, member: bool, children: FieldSet) {
        if member || !children.is_empty() {
            self.entries.push(Entry { element: element.clone(), member, children });
        }
    }

    pub(crate) fn find(&self, element: &PathElement) -> Result<usize, usize> {
        // Most sets are built in order.
        match self.entries.last() {
            None => return Err(0),
            Some(last) if last.element < *element => return Err(self.entries.len()),
            Some(_) => {}
        }
        self.entries.binary_search_by(|entry| entry.element.cmp(element))
    }
}

/// Walks two sorted lists side by side.
fn zip<'a>(
    left: &'a [Entry],
    right: &'a [Entry],
) -> impl Iterator<Item = (Option<&'a Entry>, Option<&'a Entry>)> {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        let order = match (left.get(i), right.get(j)) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(l), Some(r)) => l.element.cmp(&r.element),
        };
        let pair = match order {
            Ordering::Less => (left.get(i), None),
            Ordering::Greater => (None, right.get(j)),
            Ordering::Equal => (left.get(i), right.get(j)),
        };
        i += usize::from(pair.0.is_some());
        j += usize::from(pair.1.is_some());
        Some(pair)
    })
}

/// The text of a path: `.spec.ports[port=80].name`.
pub fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
