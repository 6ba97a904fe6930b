//! How members of managed groups are shared out among the records that wait for them: computed once and
//! kept, for as long as records only take what it gives them.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use sutler_provider::Machine;

use super::{Entry, Index, Reference};
use crate::{
    fleet::Key,
    plan::{Claims, Group, Row, Waiter, is_free},
};

/// A row, and what it was made from.
#[derive(Debug)]
pub(super) struct Shared {
    /// The version of what was known of the platform.
    view: u64,
    /// Who was asked for until then had had its time.
    over: Timestamp,
    /// When the next has.
    until: Option<Timestamp>,
    row: Arc<Row>,
}

/// What records claim on one Provider.
struct Claimed<'a> {
    index: &'a Index,
    provider: &'a Key,
}

impl Claims for Claimed<'_> {
    fn claimed(&self, machine: &Machine, uid: &str) -> bool {
        self.index.claimed(self.provider, machine, uid)
    }

    fn better(&self, name: &str, wanted: &str, uid: &str) -> bool {
        self.index.better(self.provider, name, wanted, uid)
    }

    fn meant(&self, machine: &Machine, uid: &str) -> bool {
        self.index.meant(self.provider, machine, uid)
    }

    fn misclaimed(&self, machine: &Machine, uid: &str) -> bool {
        self.index.misclaimed(self.provider, machine, uid)
    }

    fn kept(&self, machine: &Machine) -> bool {
        self.index.kept(self.provider, machine)
    }

    fn row(&self, group: &Group<'_>) -> Arc<Row> {
        let waiting = self.index.waiting(self.provider, group.name);
        Arc::new(self.index.share_out(self.provider, group, waiting))
    }
}

impl Index {
    /// Those who wait for a member of a managed group.
    pub(crate) fn waiting(&self, provider: &Key, group: &str) -> Vec<Waiter> {
        let waits = Reference::Waits(provider.clone(), group.to_owned());
        let entries = self.using(&waits).filter_map(|key| self.references.get(key));
        let waiter = |entry: &Entry| Waiter {
            uid: entry.uid.clone(),
            asked: entry.asked.unwrap_or(Timestamp::MAX),
            since: entry.since.unwrap_or(Timestamp::MAX),
            deleting: entry.deleting,
        };
        entries.map(waiter).collect()
    }

    /// Whether a newer index has nobody before the record with this UID among those who wait that this one
    /// does not know of, and everybody whom this one has there.
    pub(crate) fn agrees(&self, newer: &Self, provider: &Key, group: &str, uid: &str) -> bool {
        let ahead = |index: &Self| -> BTreeMap<String, Timestamp> {
            let mut waiting = index.waiting(provider, group);
            waiting.sort_by(|a, b| a.turn(Timestamp::MIN).cmp(&b.turn(Timestamp::MIN)));
            let ahead = waiting.into_iter().take_while(|one| one.uid != uid);
            ahead.map(|one| (one.uid, one.since)).collect()
        };
        let (here, there) = (ahead(self), ahead(newer));
        here.iter().all(|(uid, since)| there.get(uid) == Some(since))
            && there.keys().all(|uid| here.contains_key(uid) || self.has_machine(provider, uid))
    }

    /// Whether the record with this UID has a machine on this Provider.
    fn has_machine(&self, provider: &Key, uid: &str) -> bool {
        let entry = self.of_uid(uid).and_then(|key| self.references.get(&key));
        let has =
            |one: &Arc<Reference>| matches!(&**one, Reference::Machine(at, _) if at == provider);
        entry.is_some_and(|entry| entry.references.iter().any(has))
    }

    /// The members of a group that nobody has, shared out among all who wait for one of them. That is done
    /// anew when something has changed of which it is made.
    pub fn row(&mut self, provider: &Key, group: &Group<'_>) -> Arc<Row> {
        if group.own.is_some() {
            let waiting = self.waiting(provider, group.name);
            return Arc::new(self.share_out(provider, group, waiting));
        }
        let place = (provider.clone(), group.name.to_owned(), group.going);
        if let Some(known) = self.rows.get(&place)
            && known.view == group.view.version()
            && known.over <= group.over
            && known.until.is_none_or(|until| group.over < until)
        {
            return known.row.clone();
        }
        // The next of them whose time is over comes after all others from then on.
        let waiting = self.waiting(provider, group.name);
        let until = waiting.iter().map(|one| one.asked).filter(|asked| *asked > group.over).min();
        let row = Arc::new(self.share_out(provider, group, waiting));
        let (view, over) = (group.view.version(), group.over);
        self.rows.insert(place, Shared { view, over, until, row: row.clone() });
        row
    }

    fn share_out(&self, provider: &Key, group: &Group<'_>, waiting: Vec<Waiter>) -> Row {
        let claims = Claimed { index: self, provider };
        let uid = group.own.unwrap_or_default();
        let members =
            group.members().filter(|seen| group.may_be_taken(seen) && is_free(&claims, seen, uid));
        Row::share_out(group.view, members, waiting, group.over)
    }

    /// Forgets the rows that a change matters to: not those in which a record has only got what it was to
    /// take.
    pub(super) fn review_rows(
        &mut self,
        key: &Key,
        entry: &Entry,
        gone: &[Arc<Reference>],
        come: &[Arc<Reference>],
    ) {
        if self.rows.is_empty() {
            return;
        }
        let turned = self.references.get(key).is_some_and(|old| {
            let turn = |entry: &Entry| (entry.asked, entry.since, entry.deleting);
            let had = |entry: &Entry| entry.made.filter(|_| come.is_empty());
            old.uid != entry.uid || turn(old) != turn(entry) || had(old) != had(entry)
        });
        let settled = match come {
            [one] if !turned => match &**one {
                Reference::Machine(provider, id) => Some((provider, id)),
                _ => None,
            },
            _ => None,
        };
        self.rows.retain(|(provider, group, _), shared| {
            let changed = gone.iter().chain(come).filter(|changed| changed.claims_on(provider));
            let waited = |gone: &Reference| match gone {
                Reference::Waits(at, of) => at == provider && of == group,
                _ => false,
            };
            match settled {
                Some((at, id)) if at == provider && changed.clone().count() == 2 => {
                    gone.iter().any(|gone| waited(gone))
                        && Arc::make_mut(&mut shared.row).settle(&entry.uid, id)
                }
                _ if turned => !entry.references.iter().any(|one| one.claims_on(provider)),
                _ => changed.count() == 0,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use sutler_api::{infra::VirtualMachine, names::annotations};
    use sutler_provider::{Listing, MachineId, Power, View};

    use super::*;

    /// A record of the group `pool`, whose machine was asked for then.
    fn waiter(number: usize, asked: i64, deleting: bool, id: Option<usize>) -> VirtualMachine {
        let (name, at) = (format!("r-{number}"), at(asked).to_string());
        let deleted = deleting.then(|| at.clone());
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": "ns", "uid": name, "deletionTimestamp": deleted,
                "annotations": { (annotations::TOKEN): format!("{name}-1"),
                    (annotations::FIRST_REQUESTED_AT): at, (annotations::PLATFORM_NAME): name } },
            "spec": { "providerRef": { "name": "p" },
                "managedNode": { "cluster": "c", "group": "pool" } },
            "status": { "id": id.map(|id| format!("vm-{id}")) },
        }))
        .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn members(made: &[i64], listed: i64) -> View {
        let member = |(number, made): (usize, &i64)| {
            let mut machine = Machine::new(format!("vm-{number}"), format!("w{number}"), Power::On);
            machine.group = Some("pool".to_owned());
            machine.created_at = Some(at(*made));
            machine
        };
        let mut view = View::default();
        let machines = made.iter().enumerate().map(member).collect();
        view.take_list(Listing { machines, complete: true }, at(listed));
        view
    }

    #[test]
    fn a_cache_agrees_with_a_list_unless_it_lacks_somebody_who_comes_first() {
        let of = |records: &[&VirtualMachine]| {
            let mut index = Index::default();
            for record in records {
                index.put(record);
            }
            index
        };
        let provider = Key::new("ns", "p");
        let agree = |cache: &[&VirtualMachine], list: &[&VirtualMachine]| {
            of(cache).agrees(&of(list), &provider, "pool", "r-2")
        };
        let (first, own) = (&waiter(1, 10, false, None), &waiter(2, 20, false, None));
        assert!(agree(&[first, own], &[first, own]));
        assert!(!agree(&[own], &[first, own]), "the cache lacks one");
        assert!(!agree(&[first, own], &[own]), "one is gone since");
        let has = &waiter(1, 10, false, Some(7));
        assert!(agree(&[has, own], &[first, own]), "it took its own since");
        let later = &waiter(3, 30, false, None);
        assert!(agree(&[own], &[own, later]), "who comes later is of no matter");
    }

    proptest! {
        /// Whatever happens to records and whenever somebody looks: what is kept says the same as what
        /// would be computed anew.
        #[test]
        fn a_row_that_is_kept_is_the_one_that_would_be_made(
            mut made in prop::collection::vec(0..40i64, 0..8),
            steps in prop::collection::vec((0..8usize, 0..6u8, 0..40i64, any::<bool>()), 1..40),
        ) {
            let (mut index, provider) = (Index::default(), Key::new("ns", "p"));
            let mut view = members(&made, 50);
            let mut now = 50;
            for (number, what, asked, going) in steps {
                let group = |view| Group { name: "pool", view, going, over: at(now - 30), own: None };
                match what {
                    0 => { index.put(&waiter(number, asked, false, None)); }
                    1 => { index.put(&waiter(number, asked, true, None)); }
                    2 => { index.remove(&Key::new("ns", format!("r-{number}"))); }
                    // It takes what it is to take, or something else.
                    3 => {
                        let uid = format!("r-{number}");
                        let row = index.row(&provider, &group(&view));
                        let waits = index.waiting(&provider, "pool").into_iter().find(|one| one.uid == uid);
                        if let Some(one) = waits {
                            let own = row.left_for(&uid).next().map(|seen| seen.machine.id.clone());
                            let id = own.and_then(|id| id.0.strip_prefix("vm-")?.parse().ok());
                            let id = id.filter(|_| asked % 4 != 0).unwrap_or(number);
                            let second = one.asked.as_second() - at(0).as_second();
                            index.put(&waiter(number, second, one.deleting, Some(id)));
                        }
                    }
                    4 => now += asked,
                    _ => {
                        made.push(asked);
                        view = members(&made, now);
                    }
                }
                let group = |view| Group { name: "pool", view, going, over: at(now - 30), own: None };
                let kept = index.row(&provider, &group(&view));
                let waiting = index.waiting(&provider, "pool");
                let anew = index.share_out(&provider, &group(&view), waiting);
                for one in index.waiting(&provider, "pool") {
                    let left = |row: &Row| -> Vec<MachineId> {
                        row.left_for(&one.uid).map(|seen| seen.machine.id.clone()).collect()
                    };
                    prop_assert_eq!(left(&kept), left(&anew), "{}", one.uid);
                }
            }
        }
    }
}
