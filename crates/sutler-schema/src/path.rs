//! Paths of fields, printed as the API prints them: `spec.disks[0].name`.

use std::fmt;

/// The path of a field. Steps return a new path, so that one may be branched off freely.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    text: String,
    /// Whether there is no element yet: the first prints `<nil>` alone and has no dot after it.
    nil: bool,
}

impl Default for Path {
    fn default() -> Self {
        Self::root()
    }
}

impl Path {
    /// The path without elements; prints as `<nil>`.
    pub fn root() -> Self {
        Self { text: String::new(), nil: true }
    }

    /// A path of one field.
    pub fn new(name: &str) -> Self {
        Self::root().child(name)
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let mut text = String::with_capacity(self.text.len() + name.len() + 1);
        text.push_str(&self.text);
        push_child(&mut text, self.nil, name);
        Self { text, nil: false }
    }

    /// Item `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut text = self.text.clone();
        push_index(&mut text, index);
        Self { text, nil: false }
    }

    /// Entry `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self { text: format!("{}[{key}]", self.text), nil: false }
    }
}

/// Appends a field to a path under construction; `first` when it is the first element.
pub(crate) fn push_child(text: &mut String, first: bool, name: &str) {
    // An element with an empty name prints as an empty subscript.
    if name.is_empty() {
        text.push_str("[]");
        return;
    }
    if !first {
        text.push('.');
    }
    text.push_str(name);
}

pub(crate) fn push_index(text: &mut String, index: usize) {
    use fmt::Write as _;
    write!(text, "[{index}]").expect("writing to a string cannot fail");
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.nil { "<nil>" } else { &self.text })
    }
}

impl From<&str> for Path {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing() {
        let spec = Path::new("spec");
        assert_eq!(Path::root().to_string(), "<nil>");
        assert_eq!(spec.child("disks").index(0).child("name").to_string(), "spec.disks[0].name");
        assert_eq!(spec.child("labels").key("a.b/c").to_string(), "spec.labels[a.b/c]");
        assert_eq!(Path::root().index(3).to_string(), "[3]");
    }
}
