//! Whether every pod of some nodes finds another place.

use std::collections::{BTreeMap, HashMap};

use super::plan::{Move, Reason};
use crate::snapshot::{No, Rooms};
use crate::stage::Stage;

/// Puts the pods of a node elsewhere, onto the first of `targets` that takes each with so many
/// percent of it left over; largest first. What was done stays done: take it back on an error.
pub(crate) fn move_pods(
    stage: &mut Stage<'_>,
    site: usize,
    targets: &[usize],
    spare: i64,
) -> Result<Vec<(Move, usize)>, Reason> {
    let mut pods: Vec<_> = stage.nodes[site]
        .pods
        .iter()
        .copied()
        .filter(|entry| !entry.pod.owner.goes_with_node())
        .collect();
    pods.sort_by(|a, b| {
        let rank = |shape: &crate::world::Shape| (shape.priority, shape.requests.weight());
        rank(&b.pod.shape).cmp(&rank(&a.pod.shape)).then_with(|| a.pod.key.cmp(&b.pod.key))
    });
    stage.snapshot.close(site);
    for entry in &pods {
        stage.snapshot.put(entry.shape, site, -1, false);
    }
    let rooms = Rooms::new(&stage.snapshot, targets.iter().copied());
    let mut search = Search { targets, rooms, spare, from: HashMap::new() };
    let mut moves = Vec::new();
    for entry in pods {
        match search.place(stage, entry.shape) {
            Ok(to) => {
                let name = stage.snapshot.name(to).to_owned();
                moves.push((Move { pod: entry.pod.key.clone(), to: name }, to));
            }
            Err(because) => {
                let pod = entry.pod.key.clone();
                let tried = targets.iter().filter(|target| **target != site).count();
                return Err(Reason::NoPlace { pod, tried, because });
            }
        }
    }
    moves.sort();
    Ok(moves)
}

struct Search<'t> {
    targets: &'t [usize],
    rooms: Rooms,
    spare: i64,
    /// By shape: all targets before this one refused it, and refuse it still.
    from: HashMap<usize, usize>,
}

impl Search<'_> {
    fn place(
        &mut self,
        stage: &mut Stage<'_>,
        shape: usize,
    ) -> Result<usize, Option<crate::filters::Refusal>> {
        stage.snapshot.prepare(shape);
        let steady = stage.snapshot.only_gets_harder(shape);
        let from = if steady { self.from.get(&shape).copied().unwrap_or(0) } else { 0 };
        let own = stage.snapshot.shape(shape).clone();
        let mut at = from;
        while let Some(next) = self.rooms.next(&stage.snapshot, at, &own.requests) {
            let site = self.rooms.site(next);
            if stage.snapshot.check(shape, site, self.spare).is_ok() {
                stage.snapshot.put(shape, site, 1, false);
                self.rooms.touch(&stage.snapshot, next);
                self.from.insert(shape, next);
                return Ok(site);
            }
            at = next + 1;
        }
        Err(self.because(stage, shape))
    }

    /// What speaks against most targets; what says nothing of the pod (the node itself) is left out.
    fn because(&self, stage: &Stage<'_>, shape: usize) -> Option<crate::filters::Refusal> {
        let mut kinds: BTreeMap<u8, (usize, usize, No)> = BTreeMap::new();
        for site in self.targets {
            if let Err(no) = stage.snapshot.check(shape, *site, self.spare)
                && no != No::Closed
            {
                kinds.entry(no.kind()).or_insert((0, *site, no)).0 += 1;
            }
        }
        let most =
            kinds.values().max_by_key(|(number, site, _)| (*number, std::cmp::Reverse(*site)));
        most.map(|(_, site, no)| stage.snapshot.explain(shape, *site, *no, self.spare))
    }
}
