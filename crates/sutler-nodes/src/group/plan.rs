//! How many records a group has and should have, as a pure function.

use std::collections::{BTreeMap, BTreeSet};

pub use sutler_api::autoscaler::records::{MOST, name_of};

/// Failed records that are replaced before a group stops.
pub const REPLACED: usize = 3;

/// What is known of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it failed and waits for a person.
    pub failed: bool,
    /// Whether its node takes pods.
    pub ready: bool,
    /// Whether a node has joined for it.
    pub joined: bool,
    /// What became of its being sent away.
    pub leave: Leave,
    /// When it was made, as a number that only orders.
    pub made: i64,
}

/// What became of a record's being sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It was not, or its pods are leaving.
    Open,
    /// Nothing is on it any more.
    Drained,
    /// Its pods did not leave.
    GivenUp,
}

/// What is wanted of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// How many nodes.
    pub size: usize,
    /// How many at most.
    pub most: usize,
    /// The records that are to leave.
    pub removing: BTreeSet<String>,
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Records to make, by name.
    pub make: Vec<String>,
    /// Records to delete.
    pub delete: Vec<String>,
    /// The records that are to leave, where the list is to be another one.
    pub removing: Option<BTreeSet<String>>,
    /// How many nodes are wanted from now on, where that is to be another number.
    pub size: Option<usize>,
    /// Records that stay because their pods did not leave.
    pub given_up: Vec<String>,
    /// Whether more would be made if fewer had failed.
    pub too_many_failures: bool,
}

/// The names that records of a group would have that are made next.
pub fn free_names<'a>(
    group: &'a str,
    members: &'a BTreeMap<String, Member>,
) -> impl Iterator<Item = String> + 'a {
    let names = (1..=MOST).map(move |number| name_of(group, number));
    names.filter(|name| !members.contains_key(name))
}

/// Decides what is to be done for a group whose records are `members`.
pub fn plan(wanted: &Wanted, members: &BTreeMap<String, Member>) -> Plan {
    let mut plan = Plan::default();
    let live: BTreeMap<&String, &Member> =
        members.iter().filter(|(_, member)| !member.deleting).collect();
    // What is gone or going needs no place on the list.
    let mut removing: BTreeSet<String> =
        wanted.removing.iter().filter(|name| live.contains_key(name)).cloned().collect();
    let mut size = wanted.size;
    for name in removing.clone() {
        match live.get(&name).map(|member| member.leave) {
            Some(Leave::Drained) => plan.delete.push(name),
            Some(Leave::GivenUp) => {
                removing.remove(&name);
                size = (size + 1).min(wanted.most);
                plan.given_up.push(name);
            }
            Some(Leave::Open) | None => {}
        }
    }
    let staying: Vec<(&String, &Member)> =
        live.iter().filter(|(name, _)| !removing.contains(**name)).map(|(n, m)| (*n, *m)).collect();
    let failed = staying.iter().filter(|(_, member)| member.failed).count();
    let well = staying.len() - failed;
    if well > size {
        let mut order: Vec<&(&String, &Member)> =
            staying.iter().filter(|(_, member)| !member.failed).collect();
        // Those that nobody uses yet go first, and of these the youngest.
        order.sort_by_key(|(name, member)| {
            (member.joined, member.ready, std::cmp::Reverse(member.made), std::cmp::Reverse(*name))
        });
        removing.extend(order.iter().take(well - size).map(|(name, _)| (*name).clone()));
    } else {
        let records = size + failed.min(REPLACED);
        let lacking = records.saturating_sub(staying.len());
        plan.too_many_failures = failed > REPLACED && well < size;
        plan.make = free_names(&wanted.name, members).take(lacking).collect();
    }
    if removing != wanted.removing {
        plan.removing = Some(removing);
    }
    if size != wanted.size {
        plan.size = Some(size);
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member() -> Member {
        Member {
            deleting: false,
            failed: false,
            ready: true,
            joined: true,
            leave: Leave::Open,
            made: 0,
        }
    }

    fn wanted(size: usize) -> Wanted {
        Wanted { name: "g".to_owned(), size, most: 20, removing: BTreeSet::new() }
    }

    fn members(all: &[(u32, Member)]) -> BTreeMap<String, Member> {
        all.iter().map(|(number, member)| (name_of("g", *number), member.clone())).collect()
    }

    fn names(numbers: &[u32]) -> Vec<String> {
        numbers.iter().map(|number| name_of("g", *number)).collect()
    }

    #[test]
    fn names_have_one_width_and_none_begins_another() {
        assert_eq!(name_of("g", 1), "g-0001");
        assert!(!name_of("g", 10).starts_with(&name_of("g", 1)));
    }

    #[test]
    fn defect_06_the_lowest_free_names_are_made_so_that_a_stale_view_makes_none_twice() {
        let all = members(&[(1, member()), (3, member())]);
        assert_eq!(plan(&wanted(4), &all).make, names(&[2, 4]));
        // A name that is on its way out is not free.
        let going = Member { deleting: true, ..member() };
        let all = members(&[(1, going), (2, member())]);
        assert_eq!(plan(&wanted(2), &all).make, names(&[3]));
    }

    #[test]
    fn defect_10_failed_records_are_replaced_three_times_and_then_no_more() {
        let bad = || Member { failed: true, ready: false, ..member() };
        let all = members(&[(1, bad())]);
        assert_eq!(plan(&wanted(1), &all).make, names(&[2]));
        let all = members(&[(1, bad()), (2, bad()), (3, bad())]);
        assert_eq!(plan(&wanted(1), &all).make, names(&[4]));
        let all = members(&[(1, bad()), (2, bad()), (3, bad()), (4, bad())]);
        let stopped = plan(&wanted(1), &all);
        assert!(stopped.make.is_empty() && stopped.too_many_failures);
        // They wait for a person: nothing removes them.
        assert!(stopped.delete.is_empty() && stopped.removing.is_none());
    }

    #[test]
    fn those_without_a_node_go_first_and_the_youngest_of_them() {
        let fresh = |made| Member { joined: false, ready: false, made, ..member() };
        let all = members(&[(1, member()), (2, fresh(5)), (3, fresh(9)), (4, member())]);
        let next = plan(&wanted(3), &all);
        assert_eq!(next.removing, Some(names(&[3]).into_iter().collect()));
        assert!(next.delete.is_empty(), "its pods leave first");
    }

    #[test]
    fn defect_23_a_record_is_deleted_when_it_is_drained_and_counts_again_when_that_is_given_up() {
        let mut wish = wanted(1);
        wish.removing = names(&[2]).into_iter().collect();
        let drained = Member { leave: Leave::Drained, ..member() };
        let next = plan(&wish, &members(&[(1, member()), (2, drained)]));
        assert_eq!(next.delete, names(&[2]));
        let kept = Member { leave: Leave::GivenUp, ..member() };
        let next = plan(&wish, &members(&[(1, member()), (2, kept)]));
        assert_eq!((next.size, next.removing), (Some(2), Some(BTreeSet::new())));
        assert_eq!(next.given_up, names(&[2]));
        assert!(next.make.is_empty() && next.delete.is_empty());
        // A name whose record is gone leaves the list.
        let next = plan(&wish, &members(&[(1, member())]));
        assert_eq!(next.removing, Some(BTreeSet::new()));
        assert!(next.make.is_empty(), "its going was asked for with the smaller size");
    }

    fn any_member() -> impl Strategy<Value = Member> {
        (any::<[bool; 4]>(), 0..3u8, 0..50i64).prop_map(|(flags, leave, made)| Member {
            deleting: flags[0],
            failed: flags[1],
            ready: flags[2] && flags[3],
            joined: flags[3],
            leave: [Leave::Open, Leave::Drained, Leave::GivenUp][usize::from(leave)],
            made,
        })
    }

    proptest! {
        #[test]
        fn never_too_many_and_nothing_to_do_once_it_is_done(
            all in prop::collection::btree_map(1..30u32, any_member(), 0..20),
            size in 0..12usize,
            listed in prop::collection::btree_set(1..30u32, 0..5),
        ) {
            let mut members: BTreeMap<String, Member> =
                all.into_iter().map(|(n, m)| (name_of("g", n), m)).collect();
            let mut wish = wanted(size);
            wish.most = 12;
            wish.removing = listed.into_iter().map(|n| name_of("g", n)).collect();
            for _ in 0..50 {
                let next = plan(&wish, &members);
                for name in &next.make {
                    prop_assert!(!members.contains_key(name));
                }
                let staying = members
                    .iter()
                    .filter(|(name, m)| !m.deleting && !wish.removing.contains(*name))
                    .count();
                let end = next.size.unwrap_or(wish.size);
                prop_assert!(end <= wish.most);
                prop_assert!(
                    next.make.is_empty() || staying + next.make.len() <= end + REPLACED + next.given_up.len()
                );
                let rest = Plan { too_many_failures: next.too_many_failures, ..Plan::default() };
                if next == rest {
                    let live: Vec<_> = members.iter().filter(|(_, m)| !m.deleting).collect();
                    let well = live
                        .iter()
                        .filter(|(n, m)| !m.failed && !wish.removing.contains(*n))
                        .count();
                    prop_assert!(well == wish.size || next.too_many_failures);
                    return Ok(());
                }
                for name in &next.delete {
                    members.remove(name);
                }
                for name in &next.given_up {
                    if let Some(member) = members.get_mut(name) {
                        member.leave = Leave::Open;
                    }
                }
                for name in next.make {
                    members.insert(name, Member { made: 99, ..member() });
                }
                if let Some(removing) = next.removing {
                    for name in &removing {
                        if let Some(member) = members.get_mut(name) {
                            member.leave = Leave::Drained;
                        }
                    }
                    wish.removing = removing;
                }
                wish.size = next.size.unwrap_or(wish.size);
            }
            prop_assert!(false, "it never comes to rest");
        }
    }
}
