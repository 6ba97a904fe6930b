//! Which group a worker is a member of. VPSie does not tell it of every worker, but it has one group of a
//! size at most in a cluster, and tells how many nodes each has.

use crate::client::{Node, NodeGroup, Vm};

/// A worker, with its row in the list of all machines, where it has one.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) node: Node,
    pub(super) vm: Option<Vm>,
}

impl Worker {
    fn size(&self) -> Option<i64> {
        self.node.boxsize_id.or_else(|| self.vm.as_ref()?.boxsize_id)
    }

    fn shape(&self) -> Option<(i64, i64, i64)> {
        let vm = self.vm.as_ref();
        let cpu = self.node.cpu.or_else(|| vm?.cpu)?;
        let ram = self.node.ram.or_else(|| vm?.ram)?;
        Some((cpu, ram, self.node.disk.or_else(|| vm?.ssd)?))
    }
}

/// The group of each of a cluster's workers, in order; none where that cannot be told for certain.
pub(super) fn of_all<'a>(
    workers: &[Worker],
    groups: &'a [NodeGroup],
) -> Vec<Option<&'a NodeGroup>> {
    let live: Vec<&NodeGroup> = groups.iter().filter(|group| is_live(group)).collect();
    let told: Vec<Option<&NodeGroup>> = workers.iter().map(|worker| guess(worker, &live)).collect();
    let one = match live.as_slice() {
        // All of a cluster's workers are in its one group, if that has as many.
        [one] if one.nodes_count == i64::try_from(workers.len()).ok() => Some(*one),
        _ => None,
    };
    let sound = |group: &NodeGroup| {
        // More workers of a size than the group has: some are in no group, and nobody knows which.
        let found = told.iter().flatten().filter(|other| other.id == group.id).count();
        group.nodes_count.is_none_or(|count| i64::try_from(found).is_ok_and(|found| found <= count))
    };
    let decide = |(worker, told): (&Worker, &Option<&'a NodeGroup>)| match told {
        Some(group) if worker.node.group_id.is_some() || sound(group) => Some(*group),
        Some(_) => None,
        None => one,
    };
    workers.iter().zip(&told).map(decide).collect()
}

/// Whether a group is there, and not a row of history.
pub(super) fn is_live(group: &NodeGroup) -> bool {
    group.is_deleted != Some(true) && group.id.is_some()
}

fn guess<'a>(worker: &Worker, live: &[&'a NodeGroup]) -> Option<&'a NodeGroup> {
    let only = |fits: &dyn Fn(&NodeGroup) -> bool| {
        let mut fitting = live.iter().filter(|group| fits(group));
        fitting.next().filter(|_| fitting.next().is_none()).copied()
    };
    if let Some(id) = worker.node.group_id {
        return only(&|group| group.id == Some(id));
    }
    if let Some(size) = worker.size() {
        return only(&|group| group.boxsize_id == Some(size));
    }
    let shape = worker.shape()?;
    only(&|group| group.cpu.zip(group.ram).zip(group.ssd) == Some(((shape.0, shape.1), shape.2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: i64, size: i64, nodes_count: i64) -> NodeGroup {
        NodeGroup {
            id: Some(id),
            boxsize_id: Some(size),
            nodes_count: Some(nodes_count),
            cpu: Some(size),
            ram: Some(1024),
            ssd: Some(20),
            ..NodeGroup::default()
        }
    }

    fn worker(change: impl FnOnce(&mut Node)) -> Worker {
        let mut node = Node::default();
        change(&mut node);
        Worker { node, vm: None }
    }

    fn ids(workers: &[Worker], groups: &[NodeGroup]) -> Vec<Option<i64>> {
        of_all(workers, groups).into_iter().map(|group| group.and_then(|group| group.id)).collect()
    }

    #[test]
    fn a_group_is_known_by_number_size_or_shape() {
        let groups = [group(7, 1, 5), group(8, 2, 5)];
        let workers = [
            worker(|node| node.group_id = Some(8)),
            worker(|node| node.boxsize_id = Some(1)),
            worker(|node| (node.cpu, node.ram, node.disk) = (Some(2), Some(1024), Some(20))),
            worker(|node| node.boxsize_id = Some(3)),
            worker(|_| ()),
        ];
        assert_eq!(ids(&workers, &groups), [Some(8), Some(7), Some(8), None, None]);
        let mut of_vm = worker(|_| ());
        of_vm.vm = Some(Vm { boxsize_id: Some(2), ..Vm::default() });
        assert_eq!(ids(&[of_vm], &groups), [Some(8)]);
    }

    #[test]
    fn the_only_group_has_all_workers_if_it_has_as_many() {
        let two = [worker(|_| ()), worker(|_| ())];
        assert_eq!(ids(&two, &[group(7, 1, 2)]), [Some(7), Some(7)]);
        assert_eq!(ids(&two, &[group(7, 1, 1)]), [None, None]);
        let dead = NodeGroup { is_deleted: Some(true), ..group(8, 1, 2) };
        assert_eq!(ids(&two, &[group(7, 1, 2), dead]), [Some(7), Some(7)]);
    }

    #[test]
    fn more_workers_of_a_size_than_its_group_has_are_in_none() {
        let sized = || worker(|node| node.boxsize_id = Some(1));
        assert_eq!(ids(&[sized(), sized()], &[group(7, 1, 1)]), [None, None]);
        assert_eq!(ids(&[sized()], &[group(7, 1, 2)]), [Some(7)]);
    }
}
