//! Which machine on the platform is the record's, and which others are its too.

use std::sync::Arc;

use jiff::Timestamp;
use sutler_provider::{Machine, Power, Seen, View, raw};

use super::{
    Intent, Platform, Record,
    row::{Row, appeared_after, came},
};
use crate::rules::{Rule, broken};

/// What other records claim on the same platform.
pub trait Claims {
    /// Whether another record than `uid` has this machine: its ID, and made when it was.
    fn claimed(&self, machine: &Machine, uid: &str) -> bool;
    /// Whether another record than `uid` matches this name better than `wanted` does: it is equal,
    /// or longer.
    fn better(&self, name: &str, wanted: &str, uid: &str) -> bool;
    /// Whether another record than `uid` is called just as this machine is, and asked for one before it
    /// was made.
    fn meant(&self, machine: &Machine, uid: &str) -> bool;
    /// Whether another record than `uid` has this machine, and is itself called otherwise.
    fn misclaimed(&self, machine: &Machine, uid: &str) -> bool;
    /// Whether a record that is gone has left this machine in place: it is nobody's to take.
    fn kept(&self, machine: &Machine) -> bool;
    /// The members of a group that nobody has, shared out among all who wait for one of them.
    fn row(&self, group: &Group<'_>) -> Arc<Row>;
}

/// No other record claims anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Claims for Nobody {
    fn claimed(&self, _: &Machine, _: &str) -> bool {
        false
    }

    fn better(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn meant(&self, _: &Machine, _: &str) -> bool {
        false
    }

    fn misclaimed(&self, _: &Machine, _: &str) -> bool {
        false
    }

    fn kept(&self, _: &Machine) -> bool {
        false
    }

    fn row(&self, group: &Group<'_>) -> Arc<Row> {
        let members = group.members().filter(|seen| group.may_be_taken(seen));
        Arc::new(Row::share_out(group.view, members, Vec::new(), group.over))
    }
}

/// A managed group whose members are shared out.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is known of its platform.
    pub view: &'a View,
    /// Whether it is looked at for one that goes: that takes what does not run as well, and none while
    /// there may be another that is rather its own.
    pub going: bool,
    /// Whose machine was asked for until then has had its time.
    pub over: Timestamp,
    /// The record that looks, where that makes a difference: what is called like it is free for it alone.
    pub own: Option<&'a str>,
}

impl<'a> Group<'a> {
    /// All that are in it.
    pub fn members(&self) -> impl Iterator<Item = &'a Seen> {
        self.view.in_group(self.name)
    }

    /// Whether a member is in a state to be anybody's. One that was known before a list that is not complete
    /// stays known when that shows it again: who was to take it would take the next, and so would all others.
    pub fn may_be_taken(&self, seen: &Seen) -> bool {
        let by = |at| seen.as_of <= at || seen.first_seen <= at;
        let known = || self.view.complete_as_of().is_some_and(by);
        if self.going { known() } else { seen.machine.power == Power::On }
    }
}

/// What was found on the platform for a record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// The record's machine.
    pub ours: Option<Seen>,
    /// Machines that are proven to be the record's, beside the one that it has.
    pub extras: Vec<Seen>,
    /// A machine with the record's ID that lost its token: neither ours nor certainly not.
    pub disputed: Option<Seen>,
    /// A machine that has the record's name, while another record has its ID: it is there, and nobody's
    /// to touch until that one has let go.
    pub contested: Option<Seen>,
    /// A machine of an incarnation that the record does not know of: the record is behind, or was
    /// edited.
    pub ahead: Option<u32>,
    /// A machine that has the record's whole name with the hash in it, while the record has another's
    /// ID: it is the record's once that other one is known to be gone.
    pub namesake: Option<Seen>,
}

/// Looks for the record's machine in what is known of the platform.
pub(super) fn find(
    record: &Record,
    name: Option<&str>,
    platform: &Platform<'_>,
    claims: &dyn Claims,
    now: Timestamp,
) -> Search {
    match platform.capabilities.token {
        true => by_token(record, platform),
        false => {
            let mut search = by_name(record, name, platform, claims);
            if search == Search::default() && record.id.is_none() {
                search.ours = by_node(record, platform, claims, now);
            }
            search
        }
    }
}

fn by_token(record: &Record, platform: &Platform<'_>) -> Search {
    let known = record.token().map_or(0, |token| token.incarnation);
    let mut search = Search::default();
    let mut candidates: Vec<&Seen> = Vec::new();
    for seen in platform.view.of_record(&record.uid) {
        let Some(token) = &seen.machine.token else { continue };
        match token.incarnation.cmp(&known) {
            std::cmp::Ordering::Equal => candidates.push(seen),
            std::cmp::Ordering::Less => search.extras.push(seen.clone()),
            std::cmp::Ordering::Greater => {
                search.ahead = search.ahead.max(Some(token.incarnation));
            }
        }
    }
    candidates.sort_by_key(|seen| {
        let recorded = Some(&seen.machine.id) == record.id.as_ref();
        (!recorded, seen.machine.created_at, seen.first_seen, seen.machine.id.clone())
    });
    let mut candidates = candidates.into_iter().cloned();
    search.ours = candidates.next();
    search.extras.extend(candidates);
    if search.ours.is_none() && broken(Rule::DeleteOnlyOurs) {
        search.ours = record.id.as_ref().and_then(|id| platform.view.get(id)).cloned();
    }
    if search.ours.is_none() && search.ahead.is_none() {
        // One that was made at another time, or is called otherwise, has only taken over a dead
        // machine's ID.
        let of_id = record.id.as_ref().and_then(|id| platform.view.get(id));
        let named = |seen: &Seen| {
            record.platform_name.as_ref().is_none_or(|name| is_name_of(name, &seen.machine))
        };
        let lost = |seen: &&Seen| {
            seen.machine.token.is_none() && made_when(record, seen).unwrap_or_else(|| named(seen))
        };
        search.disputed = of_id.filter(lost).cloned();
    }
    search
}

fn by_name(
    record: &Record,
    name: Option<&str>,
    platform: &Platform<'_>,
    claims: &dyn Claims,
) -> Search {
    let mut search = Search::default();
    let name = record.platform_name.as_deref().or(name);
    if let Some(id) = &record.id
        && let Some(seen) = platform.view.get(id)
    {
        let called = &seen.machine.name;
        // A name with another record's hash in it is that one's, which was given the ID within the second;
        // without a hash it is that one's which had been asked for under just this name.
        let named_after_another = || match platform.hashed {
            true => claims.better(called, "", &record.uid),
            false => claims.meant(&seen.machine, &record.uid),
        };
        // A name that only begins like ours, and is not the one that was claimed, proves no more than
        // another.
        let claimed = record.machine_name.as_ref().is_none_or(|claimed| claimed == called);
        let only_alike = !claimed && name.is_some_and(|name| !name.eq_ignore_ascii_case(called));
        let whose = whose(record, name, seen);
        match whose {
            Whose::Ours | Whose::Disputed
                if (only_alike || whose == Whose::Disputed) && named_after_another() => {}
            Whose::Ours => search.ours = Some(seen.clone()),
            Whose::Disputed => search.disputed = Some(seen.clone()),
            Whose::Others => {}
        }
    }
    let (Some(intent), Some(name)) = (&record.intent, name) else { return search };
    // Without a hash in it a name is another's as well.
    let exact = |seen: &Seen| platform.hashed && seen.machine.name == name;
    let mut candidates: Vec<&Seen> = platform
        .view
        .named(name)
        .filter(|seen| !is_on_record(record, seen))
        // The machine of the incarnation before was gone when this one was asked for: who still sees it
        // has not looked since.
        .filter(|seen| intent.token.incarnation == 1 || is_of_now(seen, intent.first_requested_at))
        .filter(|seen| broken(Rule::ExclusiveClaim) || !claims.claimed(&seen.machine, &record.uid))
        // One whose whole name was thought up for this record has only the ID of the one that was kept.
        .filter(|seen| exact(seen) || !claims.kept(&seen.machine))
        .filter(|seen| {
            if broken(Rule::ExclusiveClaim) {
                return true;
            }
            !claims.better(&seen.machine.name, name, &record.uid)
                && seen
                    .machine
                    .hostname
                    .as_ref()
                    .is_none_or(|hostname| !claims.better(hostname, name, &record.uid))
        })
        // Only a platform that tells no IDs may also have changed the name that it was given.
        .filter(|seen| {
            !platform.capabilities.returns_id || seen.machine.name.eq_ignore_ascii_case(name)
        })
        // What is only called like it may be somebody's who has no record any more: it is not
        // destroyed for one that is on its way out.
        .filter(|seen| {
            !record.deleting
                || platform.hashed
                || is_whole_name_of(name, seen)
                || broken(Rule::ExclusiveClaim)
        })
        // Without a hash in it a name proves nothing: what was there before we asked is another's.
        .filter(|seen| platform.hashed || came(seen) >= intent.first_requested_at)
        .collect();
    candidates.sort_by_key(|seen| {
        let exact = seen.machine.name == name;
        (!exact, std::cmp::Reverse(came(seen)), seen.machine.id.clone())
    });
    let mut candidates = candidates.into_iter();
    if search.ours.is_none() && search.disputed.is_none() {
        let mut candidates = candidates.clone();
        search.ours = match &record.id {
            None => candidates
                .find(|seen| seen.machine.name == name || seen.machine.power == Power::On)
                .cloned(),
            // A list that lags may have shown a dead machine of that name, and its ID is on record:
            // one that was made later is the one that was meant.
            Some(_) => candidates.find(|seen| exact(seen) && made_later(record, seen)).cloned(),
        };
    }
    if search.ours.is_none() && search.disputed.is_none() {
        search.namesake = candidates.clone().find(|seen| exact(seen)).cloned();
    }
    // A whole name with a hash in it is ours, and whoever else has the ID had it from a dead machine. So it
    // is without a hash, where it came after we asked and that other one is not called so.
    let anothers = |machine: &Machine| match platform.hashed {
        true => claims.claimed(machine, &record.uid),
        false => claims.misclaimed(machine, &record.uid),
    };
    search.contested = platform
        .view
        .named(name)
        .find(|seen| {
            search.ours.is_none()
                && seen.machine.name == name
                && (platform.hashed || came(seen) >= intent.first_requested_at)
                && anothers(&seen.machine)
        })
        .cloned();
    let ours = search.ours.as_ref().map(|seen| seen.machine.id.clone());
    // Only a whole name with a hash in it proves that a second one is ours as well.
    search.extras = candidates
        .by_ref()
        .filter(|seen| exact(seen))
        .filter(|seen| ours.is_some() && Some(&seen.machine.id) != ours.as_ref())
        .cloned()
        .collect();
    search
}

/// Looks for a machine that is called as its platform pleases: by the ID that somebody else knew, by
/// the address of the node that it is, and at last as one of the members of its group, which are alike.
fn by_node(
    record: &Record,
    platform: &Platform<'_>,
    claims: &dyn Claims,
    now: Timestamp,
) -> Option<Seen> {
    let intent = record.intent.as_ref()?;
    if let Some(said) = &record.said_id {
        let is_it = |seen: &&Seen| {
            seen.machine.id.0 == *said || seen.machine.raw.get(raw::ID).is_some_and(|id| id == said)
        };
        // Somebody wrote down that this is the record's: how it is called is of no matter.
        return platform
            .view
            .iter()
            .find(|seen| is_it(seen) && !claims.claimed(&seen.machine, &record.uid))
            .cloned();
    }
    if platform.capabilities.returns_id {
        return None;
    }
    let over = over(platform, now);
    let row = match &record.group {
        Some(group) => row(record, group, platform, claims, over),
        None if record.addresses.is_empty() => return None,
        None => Arc::new(at_its_address(record, platform, claims, over)),
    };
    let since = since(record, intent);
    let mut new = row
        .left_for(&record.uid)
        .filter(|seen| appeared_after(platform.view, seen, since) || broken(Rule::MembersAreNew))
        // Who last looked before this one was asked for may see one that is gone by now.
        .filter(|seen| {
            seen.as_of >= intent.requested_at
                || appeared_after(platform.view, seen, intent.requested_at)
        });
    let first = new.next()?;
    match is_node(record, first) || !row.may_be_anothers(&record.uid, platform.view, first) {
        true => Some(first.clone()),
        false => Some(new.find(|seen| is_node(record, seen)).unwrap_or(first).clone()),
    }
}

/// Whether members of a record's group that may be its own are still to be taken by those before it. Somebody
/// of them may want none in the end, and then one is left for this record.
pub(super) fn may_be_left_one(
    record: &Record,
    platform: &Platform<'_>,
    claims: &dyn Claims,
    now: Timestamp,
) -> bool {
    let (Some(group), Some(intent)) = (&record.group, &record.intent) else { return false };
    if platform.capabilities.token || platform.capabilities.returns_id || record.said_id.is_some() {
        return false;
    }
    let over = over(platform, now);
    let since = since(record, intent);
    let row = row(record, group, platform, claims, over);
    let mut open = row.to_be_taken_before(&record.uid);
    open.any(|seen| appeared_after(platform.view, seen, since))
}

/// Whose machine was asked for until then has had its time.
fn over(platform: &Platform<'_>, now: Timestamp) -> Timestamp {
    now.saturating_sub(platform.discovery_timeout).unwrap_or(Timestamp::MIN)
}

/// Since when members may be a record's own: another that was asked for before may have taken the one that
/// came for it.
fn since(record: &Record, intent: &Intent) -> Timestamp {
    record.members_since.unwrap_or(intent.first_requested_at)
}

/// Whether a machine has an address of the node that the record's is.
fn is_node(record: &Record, seen: &Seen) -> bool {
    seen.machine.ips.iter().any(|ip| record.addresses.contains(ip))
}

/// The members of a record's group, shared out. All who wait share one row, but for one that something in
/// the group is called like, or that is not known to wait.
fn row(
    record: &Record,
    name: &str,
    platform: &Platform<'_>,
    claims: &dyn Claims,
    over: Timestamp,
) -> Arc<Row> {
    let group = Group { name, view: platform.view, going: record.deleting, over, own: None };
    let own = Group { own: Some(&record.uid), ..group };
    let called = record.platform_name.as_deref().unwrap_or(&record.name);
    let like = |seen: &Seen| seen.machine.group.as_deref() == Some(name);
    if platform.view.named(called).any(like) {
        return claims.row(&own);
    }
    let shared = claims.row(&group);
    if shared.has(&record.uid) { shared } else { claims.row(&own) }
}

/// The machines at the addresses of the node that a record of no group is.
fn at_its_address(
    record: &Record,
    platform: &Platform<'_>,
    claims: &dyn Claims,
    over: Timestamp,
) -> Row {
    let group = Group { name: "", view: platform.view, going: record.deleting, over, own: None };
    let members = platform.view.iter().filter(|seen| {
        is_node(record, seen) && group.may_be_taken(seen) && is_free(claims, seen, &record.uid)
    });
    Row::share_out(platform.view, members, Vec::new(), over)
}

/// Whether a machine is nobody's but perhaps this record's: nobody has it or has left it in place, and it
/// is not called like another.
pub(crate) fn is_free(claims: &(impl Claims + ?Sized), seen: &Seen, uid: &str) -> bool {
    let names = [Some(&seen.machine.name), seen.machine.hostname.as_ref()];
    broken(Rule::ExclusiveClaim)
        || !claims.claimed(&seen.machine, uid)
            && !claims.kept(&seen.machine)
            && !names.into_iter().flatten().any(|name| claims.better(name, "", uid))
}

/// Whose the machine is that has a record's ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    /// The record's, or one that was taken from it: nobody can tell.
    Disputed,
    /// Another's, that was given the ID of a dead one.
    Others,
}

/// Whose the machine is that has the record's ID: by its token where machines carry one.
pub(crate) fn whose_is(record: &Record, tokens: bool, seen: &Seen) -> Whose {
    let name = record.platform_name.as_deref();
    if !tokens {
        return whose(record, name, seen);
    }
    if seen.machine.token.as_ref() == record.token() {
        return Whose::Ours;
    }
    let named = || name.is_none_or(|name| is_name_of(name, &seen.machine));
    match made_when(record, seen).unwrap_or_else(named) {
        true => Whose::Disputed,
        false => Whose::Others,
    }
}

/// Whether the machine that has the record's ID is the one that the record claimed: it has its name
/// and was made when that one was. The time on record is exact to the second.
fn whose(record: &Record, name: Option<&str>, seen: &Seen) -> Whose {
    let kept = record.machine_name.as_ref().is_some_and(|name| *name == seen.machine.name);
    let named = kept || name.is_none_or(|name| is_name_of(name, &seen.machine));
    match (made_when(record, seen), named) {
        (Some(true) | None, true) => Whose::Ours,
        // Renamed, or another that took over its ID within the second.
        (Some(true), false) => Whose::Disputed,
        (Some(false), _) | (None, false) => Whose::Others,
    }
}

/// Whether this is the machine on record: it has its ID, and was not made at another time. Platforms
/// give the ID of a dead machine to the next one, and that may be ours as well.
pub(super) fn is_on_record(record: &Record, seen: &Seen) -> bool {
    record.id.as_ref() == Some(&seen.machine.id) && made_when(record, seen) != Some(false)
}

/// Whether a machine was made when the record's was, as far as that is known.
fn made_when(record: &Record, seen: &Seen) -> Option<bool> {
    Some(record.created_at?.as_second() == seen.machine.created_at?.as_second())
}

/// Whether a machine is known to have been made after the one on record.
fn made_later(record: &Record, seen: &Seen) -> bool {
    let both = record.created_at.zip(seen.machine.created_at);
    both.is_some_and(|(known, seen)| seen.as_second() > known.as_second())
}

pub(crate) fn is_name_of(name: &str, machine: &Machine) -> bool {
    let matches = |found: &str| {
        let (found, name) = (found.to_lowercase(), name.to_lowercase());
        found
            .strip_prefix(&name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    matches(&machine.name) || machine.hostname.as_deref().is_some_and(matches)
}

fn is_whole_name_of(name: &str, seen: &Seen) -> bool {
    let equals = |found: &str| found.eq_ignore_ascii_case(name);
    equals(&seen.machine.name) || seen.machine.hostname.as_deref().is_some_and(equals)
}

/// Whether a machine was made after `asked`, or seen after it.
fn is_of_now(seen: &Seen, asked: Timestamp) -> bool {
    let made = seen.machine.created_at;
    seen.as_of >= asked || made.is_some_and(|made| made.as_second() > asked.as_second())
}
