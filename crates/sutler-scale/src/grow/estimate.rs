//! How many nodes of one size of one group the waiting pods would need.

use jiff::Timestamp;

use super::classes::Class;
use super::{place_order, sizes};
use crate::snapshot::Rooms;
use crate::stage::Stage;
use crate::world::Key;

/// A size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) group: usize,
    pub(crate) size: usize,
}

/// What packing pods onto new nodes came to.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// The new nodes: site, place, and pods by class.
    pub(crate) nodes: Vec<PackedNode>,
    /// Classes that were helped.
    pub(crate) classes: Vec<usize>,
    /// Since when the first pod has waited that is helped.
    pub(crate) since: Option<Timestamp>,
    /// Whether some class is not plain.
    pub(crate) entangled: bool,
    rooms: Rooms,
}

/// A new node.
#[derive(Debug)]
pub(crate) struct PackedNode {
    pub(crate) site: usize,
    pub(crate) place: usize,
    pub(crate) pods: Vec<(usize, i64)>,
}

/// How good a choice is.
#[derive(Clone, Debug)]
pub(crate) struct Score<'a> {
    cost: u128,
    helped: u128,
    waste: u128,
    preferred: bool,
    liked: i64,
    key: &'a Key,
    size: &'a str,
    pub(crate) nodes: u32,
    pub(crate) classes: Vec<usize>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) entangled: bool,
}

impl Score<'_> {
    /// What it costs by what it helps.
    pub(crate) fn ratio(&self) -> f64 {
        self.cost as f64 / (self.helped as f64).max(1.0)
    }

    /// Price by what is helped, then waste, then what the group prefers, then what pods would
    /// rather have, then the name.
    pub(crate) fn better_than(&self, other: &Self) -> bool {
        let mine = self.cost.saturating_mul(other.helped);
        let theirs = other.cost.saturating_mul(self.helped);
        mine.cmp(&theirs)
            .then_with(|| self.waste.cmp(&other.waste))
            .then_with(|| other.preferred.cmp(&self.preferred))
            .then_with(|| other.liked.cmp(&self.liked))
            .then_with(|| (self.key, self.size).cmp(&(other.key, other.size)))
            .is_lt()
    }
}

/// Packs what is left of the classes onto at most so many new nodes of a choice; the nodes stay
/// open.
pub(crate) fn pack(
    stage: &mut Stage<'_>,
    classes: &[Class<'_>],
    choice: Choice,
    most: u32,
    skip: &[bool],
) -> Packed {
    pack_onto(stage, classes, most, skip, &mut |stage, shape| open_for(stage, shape, choice))
}

/// Opens a node that takes a pod of a shape: its site and its place.
type Open<'o> = dyn FnMut(&mut Stage<'_>, usize) -> Option<(usize, usize)> + 'o;

/// Packs what is left of the classes onto at most so many nodes that are opened as needed.
pub(crate) fn pack_onto(
    stage: &mut Stage<'_>,
    classes: &[Class<'_>],
    most: u32,
    skip: &[bool],
    open: &mut Open<'_>,
) -> Packed {
    let mut left: Vec<i64> = classes.iter().map(Class::left).collect();
    let mut packed = Packed::default();
    let mut first = true;
    loop {
        let mut progress = false;
        for (number, class) in classes.iter().enumerate() {
            // Who was refused, and for whom it only gets harder, need not be tried again.
            let hopeless = !first && stage.snapshot.only_gets_harder(class.shape);
            if left[number] == 0 || skip[number] || hopeless {
                continue;
            }
            let wanted = (number, left[number]);
            let placed = pack_class(stage, class, wanted, most, open, &mut packed);
            if placed > 0 {
                progress = true;
                left[number] -= placed;
            }
        }
        first = false;
        // What came may be what others must be near to.
        let again = |number: usize| {
            left[number] > 0
                && !skip[number]
                && !stage.snapshot.only_gets_harder(classes[number].shape)
        };
        if !progress || !(0..classes.len()).any(again) {
            break;
        }
    }
    for (number, class) in classes.iter().enumerate() {
        if left[number] < class.left() {
            packed.classes.push(number);
            packed.entangled |= !stage.snapshot.is_plain(class.shape);
            packed.since = packed.since.into_iter().chain(class.since()).min();
        }
    }
    packed
}

fn pack_class(
    stage: &mut Stage<'_>,
    class: &Class<'_>,
    (number, wanted): (usize, i64),
    most: u32,
    open: &mut Open<'_>,
    packed: &mut Packed,
) -> i64 {
    let shape = class.shape;
    let own = stage.snapshot.shape(shape).clone();
    let plain = stage.snapshot.is_plain(shape);
    let harder = stage.snapshot.only_gets_harder(shape);
    let mut left = wanted;
    let mut at = 0;
    while left > 0 {
        if let Some(next) = packed.rooms.next(&stage.snapshot, at, &own.requests) {
            at = next;
            let node = &mut packed.nodes[at];
            let fits = match plain {
                true => stage.snapshot.room(shape, node.site, left, 0),
                false => i64::from(stage.snapshot.check(shape, node.site, 0).is_ok()),
            };
            if fits > 0 {
                stage.snapshot.put(shape, node.site, fits, false);
                packed.rooms.touch(&stage.snapshot, at);
                match node.pods.last_mut() {
                    Some((last, pods)) if *last == number => *pods += fits,
                    _ => node.pods.push((number, fits)),
                }
                left -= fits;
                // Another node may have become better by it.
                at = if plain {
                    at + 1
                } else if harder {
                    at
                } else {
                    0
                };
            } else {
                at += 1;
            }
            continue;
        }
        at = packed.nodes.len();
        if packed.nodes.len() >= most as usize {
            break;
        }
        let Some((site, place)) = open(stage, shape) else { break };
        packed.nodes.push(PackedNode { site, place, pods: Vec::new() });
        packed.rooms.push(&stage.snapshot, site);
    }
    wanted - left
}

/// Opens a node that takes a pod of this shape, in the place that is next in turn.
fn open_for(stage: &mut Stage<'_>, shape: usize, choice: Choice) -> Option<(usize, usize)> {
    for place in place_order(&stage.groups[choice.group], stage.now) {
        let mark = stage.mark();
        let site = stage.open(choice.group, choice.size, place);
        if stage.snapshot.check(shape, site, 0).is_ok() {
            stage.groups[choice.group].by_place[place] += 1;
            return Some((site, place));
        }
        stage.rollback(mark);
    }
    None
}

/// Tries a choice, and takes everything back.
pub(crate) fn estimate<'a>(
    stage: &mut Stage<'a>,
    classes: &[Class<'_>],
    choice: Choice,
    most: u32,
    skip: &[bool],
    per_weight: (u128, u128),
) -> Option<Score<'a>> {
    let mark = stage.mark();
    let packed = pack(stage, classes, choice, most, skip);
    let group = stage.groups[choice.group].group;
    let size = &group.sizes[choice.size];
    let (mut helped, mut waste, mut liked) = (0u128, 0u128, 0i64);
    for node in &packed.nodes {
        waste += u128::from(stage.snapshot.free(node.site).weight());
        for (class, pods) in &node.pods {
            let pods = u128::from(pods.unsigned_abs());
            helped += u128::from(classes[*class].weight) * pods;
        }
    }
    if let Some(node) = packed.nodes.first() {
        let labels = stage.snapshot.labels(node.site);
        for class in &packed.classes {
            let shape = stage.snapshot.shape(classes[*class].shape);
            liked += shape.preference(stage.snapshot.name(node.site), labels);
        }
    }
    undo(stage, choice.group, &packed);
    stage.rollback(mark);
    if packed.nodes.is_empty() {
        return None;
    }
    let nodes = u32::try_from(packed.nodes.len()).unwrap_or(u32::MAX);
    let price = sizes::reckoned_price(group, size, per_weight);
    Some(Score {
        cost: u128::from(price) * u128::from(nodes),
        helped,
        waste,
        preferred: group.preferred_size.as_deref() == Some(size.id.as_str()),
        liked,
        key: &group.key,
        size: &size.id,
        nodes,
        classes: packed.classes,
        since: packed.since,
        entangled: packed.entangled,
    })
}

/// The places count what was opened; takes that back.
fn undo(stage: &mut Stage<'_>, group: usize, packed: &Packed) {
    for node in &packed.nodes {
        stage.groups[group].by_place[node.place] -= 1;
    }
}
