//! What changed between two values, as sets of paths.

use serde_json::Value;

use super::{Problem, item_element};
use crate::{
    fieldset::{Entry, FieldSet, PathElement},
    schema::{Atom, List, ListKind, MapType, Shape, Ty},
    value,
};

/// The paths at which two values differ; no path is in two of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Only on the right.
    pub(crate) added: FieldSet,
    /// On both sides, with different values.
    pub(crate) modified: FieldSet,
    /// Only on the left.
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Leaves out these paths and everything below them.
    pub(crate) fn without(mut self, ignored: &FieldSet) -> Self {
        self.added.subtract_recursively(ignored);
        self.modified.subtract_recursively(ignored);
        self.removed.subtract_recursively(ignored);
        self
    }

    /// What the right side has set.
    pub(crate) fn set(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// As [`Comparison::set`], when the rest is not needed.
    pub(crate) fn into_set(self) -> FieldSet {
        self.modified.join(self.added)
    }

    /// Appends what was found below an element that sorts after all others. Mostly that is one of
    /// the three, which then takes the element.
    fn push(&mut self, element: impl FnOnce() -> PathElement, marks: Marks, below: Comparison) {
        let says = |mark: bool, set: &FieldSet| mark || !set.is_empty();
        let added = says(marks.added, &below.added);
        let modified = says(marks.modified, &below.modified);
        let removed = says(marks.removed, &below.removed);
        if !(added || modified || removed) {
            return;
        }
        let element = element();
        if modified {
            self.modified.push(&element, marks.modified, below.modified);
        }
        if removed {
            self.removed.push(&element, marks.removed, below.removed);
        }
        if added {
            let (member, children) = (marks.added, below.added);
            self.added.entries.push(Entry { element, member, children });
        }
    }
}

/// What happened to one path itself.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    added: bool,
    modified: bool,
    removed: bool,
    /// Whether the value was looked at as a whole.
    leaf: bool,
}

/// Compares two values of a type.
pub(crate) fn compare(ty: Ty, left: &Value, right: &Value) -> Result<Comparison, Problem> {
    let mut out = Comparison::default();
    walk(ty, Some(left), Some(right), &mut out)?;
    Ok(out)
}

fn walk(
    ty: Ty,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Comparison,
) -> Result<Marks, Problem> {
    let atom = ty.atom();
    let (left_atom, right_atom) = (atom.deduce(left), atom.deduce(right));
    // A value that is absent takes whatever form the other one has.
    let mut marks = if right.is_none() {
        handle(left_atom, left, right, out)?
    } else if left.is_none() || left_atom.same(&right_atom) {
        handle(right_atom, left, right, out)?
    } else {
        // The value changed its form: what it was is gone, what it is has come.
        let before = handle(left_atom, left, right, out)?;
        let after = handle(right_atom, left, right, out)?;
        Marks {
            added: before.added || after.added,
            modified: before.modified || after.modified,
            removed: before.removed || after.removed,
            leaf: after.leaf,
        }
    };
    if !marks.leaf {
        if left.is_none() {
            marks.added = true;
        } else if right.is_none() {
            marks.removed = true;
        }
    }
    Ok(marks)
}

fn handle(
    atom: Atom,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Comparison,
) -> Result<Marks, Problem> {
    match atom.shape() {
        None => Err(Problem::new("schema error: invalid atom: inlined")),
        Some(Shape::Scalar(_)) => Ok(leaf(left, right)),
        Some(Shape::List(list)) => {
            let items = |side: Option<&Value>| side.and_then(Value::as_array).map(Vec::len);
            let empty = items(left).unwrap_or(0) == 0 && items(right).unwrap_or(0) == 0;
            if empty || matches!(list.kind, ListKind::Atomic) {
                return Ok(leaf(left, right));
            }
            compare_items(&list, left, right, out)?;
            Ok(Marks::default())
        }
        Some(Shape::Map(map)) => {
            let fields = |side: Option<&Value>| side.and_then(Value::as_object).map(|m| m.len());
            let empty = fields(left).unwrap_or(0) == 0 && fields(right).unwrap_or(0) == 0;
            if empty || map.atomic {
                return Ok(leaf(left, right));
            }
            compare_fields(&map, left, right, out)?;
            Ok(Marks::default())
        }
    }
}

fn leaf(left: Option<&Value>, right: Option<&Value>) -> Marks {
    let marks = Marks { leaf: true, ..Marks::default() };
    match (left, right) {
        (None, _) => Marks { added: true, ..marks },
        (_, None) => Marks { removed: true, ..marks },
        (Some(l), Some(r)) => Marks { modified: !value::equals(l, r), ..marks },
    }
}

fn compare_fields(
    map: &MapType,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Comparison,
) -> Result<(), Problem> {
    let mut lefts = left.and_then(Value::as_object).into_iter().flatten().peekable();
    let mut rights = right.and_then(Value::as_object).into_iter().flatten().peekable();
    loop {
        let (name, l, r) = match (lefts.peek(), rights.peek()) {
            (None, None) => return Ok(()),
            (Some(&(name, l)), None) => (name, Some(l), None),
            (None, Some(&(name, r))) => (name, None, Some(r)),
            (Some(&(ln, l)), Some(&(rn, r))) => match ln.cmp(rn) {
                std::cmp::Ordering::Less => (ln, Some(l), None),
                std::cmp::Ordering::Greater => (rn, None, Some(r)),
                std::cmp::Ordering::Equal => (ln, Some(l), Some(r)),
            },
        };
        if l.is_some() {
            lefts.next();
        }
        if r.is_some() {
            rights.next();
        }
        let mut below = Comparison::default();
        let marks = walk(map.field(name), l, r, &mut below)
            .map_err(|problem| problem.under(&PathElement::field(name)))?;
        out.push(|| PathElement::field(name), marks, below);
    }
}

fn compare_items(
    list: &List,
    left: Option<&Value>,
    right: Option<&Value>,
    out: &mut Comparison,
) -> Result<(), Problem> {
    let (lefts, rights) = (index(list, left)?, index(list, right)?);
    let (mut lefts, mut rights) = (lefts.as_slice(), rights.as_slice());
    loop {
        let element = match (lefts.first(), rights.first()) {
            (None, None) => return Ok(()),
            (Some((element, _)), None) | (None, Some((element, _))) => element,
            (Some((left, _)), Some((right, _))) => left.min(right),
        };
        let (left, right);
        (left, lefts) = split(lefts, element);
        (right, rights) = split(rights, element);
        let mut below = Comparison::default();
        let marks = compare_item(list, left, right, &mut below)
            .map_err(|problem| problem.under(element))?;
        out.push(|| element.clone(), marks, below);
    }
}

/// An item and its identity.
type Item<'a> = (PathElement, &'a Value);

/// The items, sorted by identity.
fn index<'a>(list: &List, side: Option<&'a Value>) -> Result<Vec<Item<'a>>, Problem> {
    let items = side.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut out = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let element = item_element(list, item)
            .map_err(|reason| Problem::new(format!("element {i}: {reason}")))?;
        out.push((element, item));
    }
    out.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(out)
}

/// The items with this identity, which come first, and the others.
fn split<'s, 'a>(items: &'s [Item<'a>], element: &PathElement) -> (&'s [Item<'a>], &'s [Item<'a>]) {
    items.split_at(items.iter().take_while(|(other, _)| other == element).count())
}

/// Compares the items of one identity. Items that are there twice count as one value: the member
/// stands for all of them.
fn compare_item(
    list: &List,
    left: &[Item],
    right: &[Item],
    out: &mut Comparison,
) -> Result<Marks, Problem> {
    match (left, right) {
        ([] | [_], [] | [_]) => {
            let (left, right) = (left.first(), right.first());
            walk(list.element, left.map(|item| item.1), right.map(|item| item.1), out)
        }
        ([_, _, ..], [_, _, ..]) => {
            let same = left.len() == right.len()
                && left.iter().zip(right).all(|((_, l), (_, r))| value::equals(l, r));
            Ok(Marks { modified: !same, ..Marks::default() })
        }
        ([_, _, ..], rest) => {
            let marks = match rest.first() {
                Some((_, right)) => walk(list.element, None, Some(right), out)?,
                None => Marks::default(),
            };
            Ok(Marks { removed: true, ..marks })
        }
        (rest, _) => {
            let marks = match rest.first() {
                Some((_, left)) => walk(list.element, Some(left), None, out)?,
                None => Marks::default(),
            };
            Ok(Marks { added: true, ..marks })
        }
    }
}
