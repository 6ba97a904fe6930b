//! Pods that wait for a node, those of one shape together.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use super::limits::later;
use crate::snapshot::Rooms;
use crate::stage::Stage;
use crate::world::{Key, Owner, PodPlace};

/// Pods of one shape that wait for a node.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    pub(crate) shape: usize,
    /// Those that have waited long enough, oldest first; and how many of them are seen to.
    pub(crate) pods: Vec<(Timestamp, &'a Key)>,
    pub(crate) done: usize,
    /// Those that have not, and when the first has.
    pub(crate) young: Vec<(Timestamp, &'a Key)>,
    pub(crate) young_done: usize,
    /// What one of them counts for.
    pub(crate) weight: u64,
}

impl<'a> Class<'a> {
    /// Those that have no place yet.
    pub(crate) fn waiting(&self, young: bool) -> &[(Timestamp, &'a Key)] {
        match young {
            true => &self.young[self.young_done..],
            false => &self.pods[self.done..],
        }
    }

    /// How many still need help.
    pub(crate) fn left(&self) -> i64 {
        i64::try_from(self.pods.len() - self.done).unwrap_or(i64::MAX)
    }

    /// Since when the first of those has waited.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.pods.get(self.done).map(|(since, _)| *since)
    }
}

/// All of them, in the order in which they are placed: by priority, then the largest first, then by
/// name.
pub(crate) fn gather<'a>(stage: &mut Stage<'a>) -> Vec<Class<'a>> {
    let mut classes: BTreeMap<usize, Class<'a>> = BTreeMap::new();
    let grace = stage.world.settings.pod_grace;
    for entry in stage.world.entries() {
        let pod = &entry.pod;
        let PodPlace::Unschedulable { since } = pod.place else { continue };
        if pod.terminating || matches!(pod.owner, Owner::DaemonSet | Owner::Mirror) {
            continue;
        }
        let class = classes.entry(entry.shape).or_insert_with(|| Class {
            shape: entry.shape,
            pods: Vec::new(),
            done: 0,
            young: Vec::new(),
            young_done: 0,
            // A pod that asks for nothing is still a pod.
            weight: pod.shape.requests.weight().max(1),
        });
        match later(since, grace) <= stage.now {
            true => class.pods.push((since, &pod.key)),
            false => class.young.push((since, &pod.key)),
        }
    }
    let mut classes: Vec<Class<'a>> = classes.into_values().collect();
    for class in &mut classes {
        class.pods.sort();
        class.young.sort();
        stage.snapshot.prepare(class.shape);
    }
    let snapshot = &stage.snapshot;
    classes.sort_by_cached_key(|class| {
        let shape = snapshot.shape(class.shape);
        let first = class.pods.iter().chain(&class.young).map(|(_, key)| *key).min();
        (std::cmp::Reverse((shape.priority, class.weight)), first)
    });
    classes
}

/// Puts pods where there is room: those that were promised a node there first, then all in order.
/// Says which went where.
pub(crate) fn place_on_what_is_there(
    stage: &mut Stage<'_>,
    classes: &mut [Class<'_>],
) -> Vec<(usize, Vec<Key>)> {
    let mut promised = keep_promises(stage, classes);
    let mut rooms = Rooms::new(&stage.snapshot, 0..stage.snapshot.len());
    for young in [false, true] {
        let mut first = true;
        loop {
            let before = promised.len();
            let mut progress = false;
            for class in classes.iter_mut() {
                // Who was refused, and for whom it only gets harder, need not be tried again.
                if !first && stage.snapshot.only_gets_harder(class.shape) {
                    continue;
                }
                progress |= place(stage, &mut rooms, class, young, &mut promised);
            }
            first = false;
            // What came may be what others must be near to.
            let again = |class: &Class<'_>| {
                !class.waiting(young).is_empty() && !stage.snapshot.only_gets_harder(class.shape)
            };
            if !progress && promised.len() == before || !classes.iter().any(again) {
                break;
            }
        }
    }
    promised
}

/// Places as many of a class as fit; whether there were any.
fn place(
    stage: &mut Stage<'_>,
    rooms: &mut Rooms,
    class: &mut Class<'_>,
    young: bool,
    promised: &mut Vec<(usize, Vec<Key>)>,
) -> bool {
    let snapshot = &mut stage.snapshot;
    let before = class.waiting(young).len();
    let own = snapshot.shape(class.shape).clone();
    let mut site = 0;
    while !class.waiting(young).is_empty() {
        let Some(next) = rooms.next(snapshot, site, &own.requests) else { break };
        site = next;
        let plain = snapshot.is_plain(class.shape);
        let number = if plain {
            let left = i64::try_from(class.waiting(young).len()).unwrap_or(i64::MAX);
            snapshot.room(class.shape, site, left, 0)
        } else {
            i64::from(snapshot.check(class.shape, site, 0).is_ok())
        };
        if number > 0 {
            snapshot.put(class.shape, site, number, false);
            rooms.touch(snapshot, site);
            if let Some(node) = stage.nodes.get_mut(site) {
                node.expected = true;
            }
            let number = usize::try_from(number).unwrap_or(0);
            let pods = class.waiting(young)[..number].iter().map(|(_, key)| (*key).clone());
            promised.push((site, pods.collect()));
            match young {
                true => class.young_done += number,
                false => class.done += number,
            }
        }
        // Elsewhere may have become better by one that came.
        site = match (number > 0, plain, snapshot.only_gets_harder(class.shape)) {
            (true, false, true) => site,
            (true, false, false) => 0,
            _ => site + 1,
        };
    }
    class.waiting(young).len() < before
}

/// Pods for which a node was asked for go there, if they still fit.
fn keep_promises(stage: &mut Stage<'_>, classes: &mut [Class<'_>]) -> Vec<(usize, Vec<Key>)> {
    let mut promised = Vec::new();
    if stage.upcoming.iter().all(|(_, _, pods)| pods.is_empty()) {
        return promised;
    }
    let mut class_of: HashMap<&Key, usize> = HashMap::new();
    for (number, class) in classes.iter().enumerate() {
        class_of.extend(class.pods.iter().map(|(_, key)| (*key, number)));
    }
    let mut kept: HashSet<&Key> = HashSet::new();
    // What must be spread or near others fits only once those are there: until no more do.
    loop {
        let before = kept.len();
        for (site, _, pods) in &stage.upcoming {
            for key in pods {
                let Some(class) = class_of.get(key) else { continue };
                let shape = classes[*class].shape;
                if !kept.contains(key) && stage.snapshot.check(shape, *site, 0).is_ok() {
                    stage.snapshot.put(shape, *site, 1, false);
                    kept.insert(key);
                    promised.push((*site, vec![key.clone()]));
                }
            }
        }
        if kept.len() == before {
            break;
        }
    }
    for class in classes {
        class.pods.sort_by_key(|(_, key)| !kept.contains(*key));
        class.done = class.pods.partition_point(|(_, key)| kept.contains(*key));
    }
    promised
}
