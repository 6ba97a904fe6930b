//! What a schedule does now: pure functions of its times and of the snapshots that it made.
//!
//! A run that was missed is made up for once: however many were missed, the last of them is taken.
//! A run is known by its time, which is in the name of its snapshot, so no crash makes a second one.

use jiff::Timestamp;
use sutler_api::infra::ConcurrencyPolicy;

use super::cron::Schedule;
use crate::rules::{Rule, broken};

/// A snapshot that a schedule may have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: String,
    /// The schedule whose mark it carries.
    pub(crate) schedule: String,
    /// The run whose mark it carries.
    pub(crate) run: Option<Timestamp>,
    pub(crate) state: State,
    /// A person wants to keep it.
    pub(crate) pinned: bool,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    UnderWay,
    Good,
    Bad,
    /// It is on its way out.
    Leaving,
}

/// What a schedule looks at.
pub(crate) struct Inputs<'a> {
    pub(crate) schedule: &'a Schedule,
    /// When it was made.
    pub(crate) anchor: Timestamp,
    /// The run that it took last.
    pub(crate) last: Option<Timestamp>,
    pub(crate) suspended: bool,
    pub(crate) policy: ConcurrencyPolicy,
    /// Runs of it that are under way.
    pub(crate) under_way: &'a [&'a Child],
    pub(crate) now: Timestamp,
}

/// What a schedule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Takes this run instead of those of the names given here.
    Take(Timestamp, Vec<String>),
    /// Waits for a run that is under way: this one is made up for afterwards.
    Hold(Timestamp),
    /// Waits for its next time, if there is one.
    Wait(Option<Timestamp>),
}

/// Decides what a schedule does.
pub(crate) fn decide(inputs: &Inputs<'_>) -> Decision {
    let next = inputs.schedule.next(inputs.now, inputs.anchor);
    if inputs.suspended {
        return Decision::Wait(None);
    }
    let since = inputs.last.unwrap_or(Timestamp::MIN).max(inputs.anchor);
    let due = inputs.schedule.latest(inputs.now, inputs.anchor).filter(|due| *due > since);
    let Some(due) = due else { return Decision::Wait(next) };
    match (inputs.policy, inputs.under_way) {
        (_, []) | (ConcurrencyPolicy::Allow, _) => Decision::Take(due, Vec::new()),
        (ConcurrencyPolicy::Forbid, _) => Decision::Hold(due),
        (ConcurrencyPolicy::Replace, others) => {
            Decision::Take(due, others.iter().map(|child| child.name.clone()).collect())
        }
    }
}

/// The name of a run's snapshot: the schedule's, and the time of the run.
pub(crate) fn run_name(schedule: &str, run: Timestamp) -> String {
    let time = run.as_second();
    let room = 253 - 12;
    let cut: String = schedule.chars().take(room).collect();
    format!("{}-{time}", cut.trim_end_matches(['-', '.']))
}

/// How many of its snapshots a schedule keeps; none keeps all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) good: Option<usize>,
    pub(crate) bad: usize,
    pub(crate) keep_pinned: bool,
}

/// Whether a snapshot was made by this schedule: its marks and its name say so.
pub(crate) fn is_own(child: &Child, schedule: &str, uid: &str) -> bool {
    child.schedule == uid && child.run.is_some_and(|run| run_name(schedule, run) == child.name)
}

/// The names of those that are one too many, the oldest first. Only what this schedule made counts
/// and goes; what is under way, and what a person wants to keep, stays.
pub(crate) fn surplus(
    children: &[Child],
    schedule: &str,
    uid: &str,
    limits: Limits,
) -> Vec<String> {
    let own = |child: &&Child| broken(Rule::RetentionOnlyOwn) || is_own(child, schedule, uid);
    let stays = |child: &Child| child.pinned && limits.keep_pinned;
    let of = |state: State, most: usize| {
        let mut all: Vec<&Child> = children
            .iter()
            .filter(own)
            .filter(|child| child.state == state && !stays(child))
            .collect();
        all.sort_by_key(|child| (child.run, &child.name));
        let surplus = all.len().saturating_sub(most);
        all.into_iter().take(surplus).map(|child| child.name.clone()).collect::<Vec<_>>()
    };
    let mut gone = limits.good.map(|most| of(State::Good, most)).unwrap_or_default();
    gone.extend(of(State::Bad, limits.bad));
    gone
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn nightly() -> Schedule {
        Schedule::read("30 2 * * *", "Europe/Berlin").unwrap()
    }

    fn child(name: &str, uid: &str, run: i64, state: State, pinned: bool) -> Child {
        let run = Some(Timestamp::from_second(run).unwrap());
        Child { name: name.to_owned(), schedule: uid.to_owned(), run, state, pinned }
    }

    /// Looks at a schedule as often as given while time passes, and tells the runs that it took.
    fn live(from: &str, days: i64, looks: &[i64]) -> Vec<String> {
        let schedule = nightly();
        let anchor = time(from);
        let (mut last, mut taken) = (None, Vec::new());
        for hours in looks.iter().copied().filter(|hours| *hours <= days * 24) {
            let now = anchor.checked_add(hours.hours()).unwrap();
            let decision = decide(&Inputs {
                schedule: &schedule,
                anchor,
                last,
                suspended: false,
                policy: ConcurrencyPolicy::Forbid,
                under_way: &[],
                now,
            });
            if let Decision::Take(run, _) = decision {
                taken.push(run.to_string());
                last = Some(run);
            }
        }
        taken
    }

    #[test]
    fn every_night_has_one_run_while_clocks_change() {
        let hourly: Vec<i64> = (0..24 * 5).collect();
        assert_eq!(
            live("2026-03-27T12:00:00Z", 4, &hourly),
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z",
                "2026-03-31T00:30:00Z"
            ]
        );
        assert_eq!(
            live("2026-10-23T12:00:00Z", 4, &hourly),
            [
                "2026-10-24T00:30:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-26T01:30:00Z",
                "2026-10-27T01:30:00Z"
            ]
        );
    }

    #[test]
    fn missed_runs_are_made_up_for_once() {
        // Nobody looks for a week.
        let taken = live("2026-05-01T12:00:00Z", 9, &[1, 170, 171, 172, 173, 200]);
        assert_eq!(taken, ["2026-05-08T00:30:00Z", "2026-05-09T00:30:00Z"]);
    }

    #[test]
    fn what_is_under_way_is_respected() {
        let schedule = nightly();
        let running = child("n-1", "u", 1, State::UnderWay, false);
        let at = |policy, under_way: &[&Child], suspended| {
            decide(&Inputs {
                schedule: &schedule,
                anchor: time("2026-05-01T12:00:00Z"),
                last: None,
                suspended,
                policy,
                under_way,
                now: time("2026-05-02T00:31:00Z"),
            })
        };
        let run = time("2026-05-02T00:30:00Z");
        assert_eq!(at(ConcurrencyPolicy::Forbid, &[&running], false), Decision::Hold(run));
        assert_eq!(at(ConcurrencyPolicy::Allow, &[&running], false), Decision::Take(run, vec![]));
        let replaced = Decision::Take(run, vec!["n-1".to_owned()]);
        assert_eq!(at(ConcurrencyPolicy::Replace, &[&running], false), replaced);
        assert_eq!(at(ConcurrencyPolicy::Forbid, &[], true), Decision::Wait(None));
    }

    fn any_child() -> impl Strategy<Value = Child> {
        let states = vec![State::UnderWay, State::Good, State::Bad, State::Leaving];
        let fields =
            (any::<bool>(), any::<bool>(), 0i64..50, prop::sample::select(states), any::<bool>());
        fields.prop_map(|(ours, named, run, state, pinned)| {
            let at = Timestamp::from_second(run).unwrap();
            let name = if named { run_name("nightly", at) } else { format!("other-{run}") };
            child(&name, if ours { "u" } else { "v" }, run, state, pinned)
        })
    }

    fn check(children: &[Child], limits: Limits) -> Result<(), String> {
        let gone = surplus(children, "nightly", "u", limits);
        let of = |name: &String| children.iter().find(|child| child.name == *name).unwrap();
        for name in &gone {
            let child = of(name);
            if !is_own(child, "nightly", "u") || child.pinned && limits.keep_pinned {
                return Err(format!("{child:?} is not to be deleted"));
            }
        }
        for (state, most) in [(State::Good, limits.good), (State::Bad, Some(limits.bad))] {
            let Some(most) = most else { continue };
            let own = |child: &&Child| {
                is_own(child, "nightly", "u")
                    && child.state == state
                    && !(child.pinned && limits.keep_pinned)
            };
            let stays: Vec<&Child> =
                children.iter().filter(own).filter(|child| !gone.contains(&child.name)).collect();
            let all = children.iter().filter(own).count();
            if stays.len() != all.min(most) {
                return Err(format!("{} of {all} stay, {most} may", stays.len()));
            }
            let newest_gone = gone.iter().map(of).filter(|c| c.state == state).map(|c| c.run).max();
            if stays.iter().any(|child| newest_gone.is_some_and(|gone| child.run < gone)) {
                return Err("an older one stays".to_owned());
            }
        }
        Ok(())
    }

    fn unique(mut children: Vec<Child>) -> Vec<Child> {
        children.sort_by(|a, b| a.name.cmp(&b.name));
        children.dedup_by(|a, b| a.name == b.name);
        children
    }

    proptest! {
        #[test]
        fn only_the_oldest_of_its_own_go(
            children in prop::collection::vec(any_child(), 0..30).prop_map(unique),
            good in prop::option::of(0usize..6), bad in 0usize..4, keep_pinned in any::<bool>(),
        ) {
            check(&children, Limits { good, bad, keep_pinned }).unwrap();
        }
    }

    /// The check notices a retention that deletes what is not the schedule's.
    #[cfg(feature = "mutations")]
    #[test]
    fn a_broken_rule_shows() {
        use crate::rules::break_rule;
        let children = [child("mine", "v", 1, State::Good, false)];
        let limits = Limits { good: Some(0), bad: 0, keep_pinned: true };
        assert_eq!(check(&children, limits), Ok(()));
        break_rule(Some(Rule::RetentionOnlyOwn));
        let caught = check(&children, limits);
        break_rule(None);
        assert!(caught.is_err());
    }
}
