//! What is done next for a set, as a pure function of what is wanted, what is seen of its machines
//! and what time it is.
//!
//! Machines are numbered, and a number is a name: whatever crashes and however old a view is, making
//! one again is no second one. What an update removes is on record before it goes (`replacing`), so a
//! view that is behind never takes a machine for available that is on its way out.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::rules::{Rule, broken};

/// What a set should be like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// How many machines.
    pub(crate) replicas: u32,
    /// The number of the first one.
    pub(crate) start: u32,
    /// How machines of an old revision are replaced.
    pub(crate) update: Update,
    /// Whether machines come and go one after the other.
    pub(crate) ordered: bool,
    /// How long a machine must be ready to count as available.
    pub(crate) min_ready: Duration,
    /// The revision that machines should have.
    pub(crate) revision: String,
    /// The revision before, which those below the partition keep.
    pub(crate) current: String,
    /// Whether nothing is to be changed.
    pub(crate) paused: bool,
}

impl Wanted {
    /// The numbers of the machines that there should be.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        self.start..self.start.saturating_add(self.replicas)
    }
}

/// How machines of an old revision are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    /// A few at a time, the highest number first.
    Rolling {
        /// How many may be missing.
        max_unavailable: u32,
        /// How many more than wanted there may be.
        max_surge: u32,
        /// How many of the lowest numbers keep what they have.
        partition: u32,
    },
    /// When somebody else deletes them.
    OnDelete,
    /// All at once.
    Recreate,
}

/// A machine of the set, as it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The UID of its record.
    pub(crate) uid: String,
    /// The revision that it was made from.
    pub(crate) revision: Option<String>,
    /// How it is.
    pub(crate) state: State,
}

/// How a machine of a set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Ready since then.
    Ready(Timestamp),
    /// On its way to be ready for the first time.
    Coming,
    /// Made, and not known to be well: it may be, where its platform cannot be asked.
    Unsure,
    /// Waiting for a person.
    Failed,
    /// Its record is being deleted.
    Leaving,
}

/// Members by number.
pub(crate) type Members = BTreeMap<u32, Member>;

/// The UIDs of members that an update removes, by number.
pub(crate) type Replacing = BTreeMap<u32, String>;

/// Why a member goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// There are more than wanted.
    Scale,
    /// It is of an old revision, or stood in for one that was.
    Update,
    /// The same, and it serves nobody: it goes only if it is still as it was seen.
    Useless,
}

/// What is to be done, in any order within a list; what is replaced is written down first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Numbers to make, and the revision of each.
    pub(crate) create: Vec<(u32, String)>,
    /// Members to remove: number, UID and why.
    pub(crate) remove: Vec<(u32, String, Why)>,
    /// What is to be on record as being replaced before anything is removed.
    pub(crate) replacing: Replacing,
    /// What is on record as being replaced, seems to be there and can no longer be spared. Where a
    /// look at the record itself shows that nobody deleted it, it need not be on record.
    pub(crate) unsent: Vec<(u32, String)>,
    /// When something changes by itself.
    pub(crate) next: Option<Timestamp>,
    /// The member that others wait for.
    pub(crate) waits_for: Option<u32>,
    /// How things stand.
    pub(crate) counts: Counts,
}

/// How many members there are of which kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All, those that are leaving included.
    pub(crate) all: u32,
    /// Those that are ready.
    pub(crate) ready: u32,
    /// Those that are ready for long enough.
    pub(crate) available: u32,
    /// Those of the wanted revision.
    pub(crate) updated: u32,
    /// Those of the revision before.
    pub(crate) current: u32,
    /// Those that an update has yet to replace.
    pub(crate) outdated: u32,
}

impl Update {
    fn surge(self) -> u32 {
        match self {
            Self::Rolling { max_surge, .. } => max_surge,
            Self::OnDelete | Self::Recreate => 0,
        }
    }

    fn partition(self) -> u32 {
        match self {
            Self::Rolling { partition, .. } => partition,
            Self::OnDelete | Self::Recreate => 0,
        }
    }
}

impl Wanted {
    /// The number after the last one that is wanted.
    fn end(&self) -> u32 {
        self.start.saturating_add(self.replicas)
    }

    /// Whether a number is among those that are wanted.
    pub(crate) fn wants(&self, number: u32) -> bool {
        (self.start..self.end()).contains(&number)
    }

    /// The number after the last one that there may be for a while.
    fn surge_end(&self) -> u32 {
        self.end().saturating_add(self.update.surge())
    }

    /// The revision that a member of this number is made from.
    fn revision_of(&self, number: u32) -> &str {
        let kept = self.start.saturating_add(self.update.partition());
        if number < kept && number < self.end() { &self.current } else { &self.revision }
    }

    /// Whether an update has to replace this member.
    fn outdated(&self, number: u32, member: &Member) -> bool {
        let kept = self.start.saturating_add(self.update.partition());
        (kept..self.end()).contains(&number)
            && member.revision.as_deref() != Some(self.revision.as_str())
    }

    fn available(&self, member: &Member, now: Timestamp) -> bool {
        matches!(member.state, State::Ready(since) if later(since, self.min_ready) <= now)
    }
}

/// Decides what to do next.
pub(crate) fn plan(
    wanted: &Wanted,
    members: &Members,
    replacing: &Replacing,
    now: Timestamp,
) -> Plan {
    let view = View { wanted, members, replacing, now };
    let mut plan = Plan {
        replacing: view.still_replacing(),
        next: view.next(),
        counts: view.counts(),
        ..Plan::default()
    };
    if wanted.paused {
        return plan;
    }
    view.create(&mut plan);
    view.shrink(&mut plan);
    match wanted.update {
        Update::Rolling { max_unavailable, .. } => {
            let spare = view.spare(max_unavailable);
            view.remove_again(&mut plan, spare >= 0);
            view.roll(&mut plan, max_unavailable, spare);
        }
        Update::Recreate => {
            view.remove_again(&mut plan, true);
            view.remove_outdated(&mut plan);
        }
        Update::OnDelete => view.remove_again(&mut plan, false),
    }
    plan
}

/// What a set whose record is being deleted removes next: all, or the highest number first.
pub(crate) fn drain(members: &Members, ordered: bool) -> Vec<(u32, String)> {
    let all = members.iter().rev();
    let next: Vec<_> = if ordered { all.take(1).collect() } else { all.collect() };
    next.into_iter()
        .filter(|(_, member)| member.state != State::Leaving)
        .map(|(number, member)| (*number, member.uid.clone()))
        .collect()
}

struct View<'a> {
    wanted: &'a Wanted,
    members: &'a Members,
    replacing: &'a Replacing,
    now: Timestamp,
}

impl View<'_> {
    fn leaving(&self, number: u32, member: &Member) -> bool {
        member.state == State::Leaving || self.replacing.get(&number) == Some(&member.uid)
    }

    fn available(&self, number: u32, member: &Member) -> bool {
        !self.leaving(number, member) && self.wanted.available(member, self.now)
    }

    fn ready(&self, number: u32, member: &Member) -> bool {
        !self.leaving(number, member) && matches!(member.state, State::Ready(_))
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (&number, member) in self.members {
            let revision = member.revision.as_deref();
            counts.all += 1;
            counts.ready += u32::from(self.ready(number, member));
            counts.available += u32::from(self.available(number, member));
            counts.updated += u32::from(revision == Some(self.wanted.revision.as_str()));
            counts.current += u32::from(revision == Some(self.wanted.current.as_str()));
            counts.outdated += u32::from(self.wanted.outdated(number, member));
        }
        counts
    }

    /// What is being replaced and not yet there again. It stays on record until the machine in its
    /// place is available: a view that is behind still shows the old one, and must not count it.
    fn still_replacing(&self) -> Replacing {
        let wanted = self.wanted.start..self.wanted.end();
        let still = |(number, uid): &(&u32, &String)| match self.members.get(number) {
            None => wanted.contains(number),
            Some(member) if member.uid == **uid => true,
            Some(member) => wanted.contains(number) && !self.available(**number, member),
        };
        let still = self.replacing.iter().filter(still);
        still.map(|(number, uid)| (*number, uid.clone())).collect()
    }

    /// When the next member becomes available by waiting alone.
    fn next(&self) -> Option<Timestamp> {
        let due = self.members.values().filter_map(|member| match member.state {
            State::Ready(since) => Some(later(since, self.wanted.min_ready)),
            _ => None,
        });
        due.filter(|due| *due > self.now).min()
    }

    fn create(&self, plan: &mut Plan) {
        let wanted = self.wanted;
        let recreating = wanted.update == Update::Recreate
            && self.members.iter().any(|(number, member)| wanted.outdated(*number, member));
        let mut blocked = recreating;
        for number in wanted.start..wanted.end() {
            match self.members.get(&number) {
                // One that is to be replaced later is as good as any for those that follow it.
                Some(member) if wanted.ordered && !matches!(member.state, State::Ready(_)) => {
                    if !blocked {
                        plan.waits_for = Some(number);
                    }
                    blocked = true;
                }
                Some(_) => {}
                // What an update took away comes back whatever else is amiss: nothing that waits
                // for a neighbour may keep an update from giving back what it took.
                None if self.replacing.contains_key(&number) && !recreating => {
                    plan.create.push((number, wanted.revision_of(number).to_owned()));
                }
                None if !blocked => {
                    plan.create.push((number, wanted.revision_of(number).to_owned()));
                    if wanted.ordered {
                        plan.waits_for = Some(number);
                        blocked = true;
                    }
                }
                None => {}
            }
        }
        for number in wanted.end()..wanted.end().saturating_add(self.surge_wanted()) {
            if !self.members.contains_key(&number) {
                plan.create.push((number, wanted.revision.clone()));
            }
        }
        if broken(Rule::SetNeverOvershoots) {
            // Numbers that count upwards, as if a name that is not seen had never been given.
            let above = self.members.keys().next_back().map_or(wanted.start, |last| last + 1);
            for (place, (number, _)) in (0..).zip(&mut plan.create) {
                *number = above + place;
            }
        }
    }

    /// How many stand-ins an update needs: while machines of an old revision are left, and no more
    /// than there are of them.
    fn surge_wanted(&self) -> u32 {
        let outdated =
            self.members.iter().filter(|(number, member)| self.wanted.outdated(**number, member));
        let outdated = u32::try_from(outdated.count()).unwrap_or(u32::MAX);
        self.wanted.update.surge().min(outdated)
    }

    /// Removes what is beyond the wanted number, whatever that does to the rest: somebody asked.
    fn shrink(&self, plan: &mut Plan) {
        let outside = |number: &u32| {
            !(self.wanted.start..self.wanted.surge_end().max(self.wanted.end())).contains(number)
        };
        for (&number, member) in self.members.iter().rev() {
            if !outside(&number) {
                continue;
            }
            if !self.leaving(number, member) {
                // On record as well: a set that grows again must not count what it let go.
                self.replace(plan, number, member, Why::Scale);
            }
            if self.wanted.ordered {
                // The next one follows when this one is gone.
                return;
            }
        }
    }

    fn remove_outdated(&self, plan: &mut Plan) {
        for (&number, member) in self.members {
            if self.wanted.outdated(number, member) && !self.leaving(number, member) {
                self.replace(plan, number, member, Why::Update);
            }
        }
    }

    fn replace(&self, plan: &mut Plan, number: u32, member: &Member, why: Why) {
        plan.replacing.insert(number, member.uid.clone());
        plan.remove.push((number, member.uid.clone(), why));
    }

    /// How many more are available than there must be.
    fn spare(&self, max_unavailable: u32) -> i64 {
        let inside = self.members.range(self.wanted.start..self.wanted.surge_end());
        let available = inside.filter(|(number, member)| self.available(**number, member));
        let floor = i64::from(self.wanted.replicas) - i64::from(max_unavailable);
        match broken(Rule::UpdateKeepsFloor) {
            true => i64::MAX,
            false => i64::try_from(available.count()).unwrap_or(i64::MAX) - floor,
        }
    }

    /// Removes what is on record as being replaced and still there: the request may not have been
    /// sent. Where others have failed since, what may be serving waits for them.
    fn remove_again(&self, plan: &mut Plan, can_spare: bool) {
        for (number, uid) in self.replacing {
            let Some(member) = self.members.get(number).filter(|member| member.uid == *uid) else {
                continue;
            };
            let wanted = self.wanted;
            let needless = wanted.wants(*number) && !wanted.outdated(*number, member);
            let why = match member.state {
                State::Leaving => continue,
                _ if !(wanted.start..wanted.surge_end()).contains(number) => Why::Scale,
                State::Failed | State::Coming if !needless => Why::Useless,
                _ => Why::Update,
            };
            match why != Why::Update || (can_spare && !needless) {
                true => plan.remove.push((*number, uid.clone(), why)),
                false => plan.unsent.push((*number, uid.clone())),
            }
        }
    }

    /// Replaces what is of an old revision, the highest number first, and never so many that fewer
    /// than the floor are available.
    fn roll(&self, plan: &mut Plan, max_unavailable: u32, mut spare: i64) {
        let wanted = self.wanted;
        let inside = || self.members.range(wanted.start..wanted.surge_end());
        let cap = max_unavailable.saturating_add(wanted.update.surge()).max(1);
        let mut under_way = self.under_way();
        let outdated: Vec<(u32, &Member)> = inside()
            .rev()
            .map(|(number, member)| (*number, member))
            .filter(|(number, member)| {
                wanted.outdated(*number, member) && !self.leaving(*number, member)
            })
            .collect();
        // Those that serve nobody cost nothing. They go first, and not all at once: a whole set that
        // fails together may have a cause that comes back with the new machines.
        for &(number, member) in &outdated {
            let why = match member.state {
                State::Failed | State::Coming => Some(Why::Useless),
                // It may well be serving: it counts as if it did.
                State::Unsure => (spare >= 0).then_some(Why::Update),
                State::Ready(_) => {
                    (!self.available(number, member) && spare >= 0).then_some(Why::Update)
                }
                State::Leaving => None,
            };
            if let Some(why) = why.filter(|_| under_way < cap) {
                under_way += 1;
                self.replace(plan, number, member, why);
            }
        }
        for &(number, member) in &outdated {
            if self.available(number, member) && spare > 0 {
                spare -= 1;
                self.replace(plan, number, member, Why::Update);
            }
        }
        self.dismiss(plan, spare);
    }

    /// Members that are being replaced, or came in place of one and are not available yet.
    fn under_way(&self) -> u32 {
        let wanted = self.wanted;
        let busy = (wanted.start..wanted.end()).filter(|number| match self.members.get(number) {
            None => true,
            Some(member) if self.leaving(*number, member) => true,
            Some(member) => !wanted.outdated(*number, member) && !self.available(*number, member),
        });
        u32::try_from(busy.count()).unwrap_or(u32::MAX)
    }

    /// Lets stand-ins go that are not needed any more.
    fn dismiss(&self, plan: &mut Plan, mut spare: i64) {
        let from = self.wanted.end().saturating_add(self.surge_wanted());
        if from >= self.wanted.surge_end() {
            return;
        }
        let updating = self.surge_wanted() > 0
            || plan.replacing.range(self.wanted.start..self.wanted.end()).next().is_some();
        if !updating {
            // Nobody has to be stood in for: what is left is more than wanted, and goes.
            spare = i64::MAX;
        }
        for (&number, member) in self.members.range(from..self.wanted.surge_end()).rev() {
            if self.leaving(number, member) {
                if self.wanted.ordered {
                    return;
                }
                continue;
            }
            let why = match member.state {
                State::Failed | State::Coming => Why::Useless,
                _ if spare > 0 => Why::Update,
                _ => continue,
            };
            if why == Why::Update {
                spare -= 1;
            }
            self.replace(plan, number, member, why);
            if self.wanted.ordered {
                return;
            }
        }
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
