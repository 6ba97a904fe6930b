//! Any input that the planner may ever be given, sensible or not.

use proptest::{collection::vec, option, prelude::*, sample::select};
use sutler_api::infra::PowerState;
use sutler_provider::{Error, MachineId};

use super::*;

fn machine() -> impl Strategy<Value = Machine> {
    let token = select(vec![
        None,
        Some(Token::new(UID, 1)),
        Some(Token::new(UID, 1)),
        Some(Token::new(UID, 1)),
        Some(Token::new(UID, 2)),
        Some(Token::new(UID, 3)),
        Some(Token::new("u-2", 1)),
    ]);
    let power = select(vec![Power::On, Power::Off, Power::Paused, Power::Unknown]);
    let name = select(vec![NAME, NAME, "web-abcde-2", "web", "other"]);
    let made = option::of(select(vec![1, 30, 150]));
    (select(vec!["1", "2", "3"]), name, token, power, any::<bool>(), made, 1..3u32).prop_map(
        |(id, name, token, power, busy, made, cpu)| Machine {
            token,
            busy,
            created_at: made.map(at),
            cpu: Some(cpu),
            ..Machine::new(id, name, power)
        },
    )
}

pub(super) fn sight() -> impl Strategy<Value = Sight> {
    let when = 0..400i64;
    prop_oneof![
        3 => (vec(machine(), 0..3), when.clone()).prop_map(|(seen, when)| Sight::Whole(seen, when)),
        1 => (vec(machine(), 0..3), when.clone()).prop_map(|(seen, when)| Sight::Part(seen, when)),
        2 => (machine(), when.clone()).prop_map(|(seen, when)| Sight::One(seen, when)),
        1 => (select(vec!["1", "2"]), when).prop_map(|(id, when)| Sight::Gone(id.into(), when)),
    ]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let unique = select(vec![UniqueBy::Token, UniqueBy::Name, UniqueBy::None]);
    let weighted = |chance| proptest::bool::weighted(chance);
    (
        unique,
        weighted(0.7),
        weighted(0.8),
        weighted(0.3),
        weighted(0.8),
        any::<[bool; 4]>(),
        0..9u64,
    )
        .prop_map(|(unique_by, token, list, events, returns_id, can, lag)| Capabilities {
            unique_by: match unique_by {
                UniqueBy::Token if !token => UniqueBy::Name,
                other => other,
            },
            token,
            list,
            list_lag: Duration::from_secs(lag),
            events,
            returns_id,
            addresses: can[0],
            reconfigure: can[1],
            reconfigure_online: can[2],
            graceful_shutdown: can[3],
            ..Case::new().capabilities
        })
}

fn record() -> impl Strategy<Value = Record> {
    let intent = option::weighted(0.85, (select(vec![1, 1, 1, 2, 3]), 0..200i64, 0..100i64));
    let id = option::of(select(vec!["1", "2"]));
    let some = |chance| proptest::bool::weighted(chance);
    let flags = (some(0.5), some(0.9), some(0.1), some(0.05), some(0.3), some(0.5), some(0.5));
    let power = option::of(select(vec![PowerState::On, PowerState::Off]));
    let restart = option::weighted(0.3, Just("r".to_owned()));
    let made = option::of(select(vec![1, 30, 150]));
    let removed = option::weighted(0.2, select(vec![100, 180, 200]));
    let name = option::weighted(0.9, Just(NAME.to_owned()));
    (intent, id, flags, power, restart, made, name, removed).prop_map(
        |(intent, id, flags, power, restart, made, platform_name, removed)| {
            let (deleting, finalizer, paused, forget, retain, provisioned, has_address) = flags;
            Record {
                deleting,
                finalizer,
                paused,
                forget,
                retain,
                provisioned,
                has_address,
                intent: intent.map(|(incarnation, first, later)| Intent {
                    token: Token::new(UID, incarnation),
                    first_requested_at: at(first),
                    requested_at: at(first + later),
                }),
                id: id.map(MachineId::from),
                created_at: made.map(at),
                delete_requested_at: removed.map(at),
                platform_name,
                power,
                restart,
                ..Case::new().record
            }
        },
    )
}

fn error() -> impl Strategy<Value = Error> {
    select(ErrorKind::ALL.to_vec()).prop_map(|kind| Error::new(kind, "no"))
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let id = option::of(select(vec!["1", "2"])).prop_map(|id| id.map(MachineId::from));
    let task = option::weighted(0.3, Just(TaskId::from("t")));
    prop_oneof![
        (id, task, 0..400i64).prop_map(|(id, task, when)| Outcome::Accepted {
            id,
            task,
            at: at(when)
        }),
        error().prop_map(Outcome::Refused),
        (error(), 0..400i64).prop_map(|(error, when)| Outcome::TaskFailed { error, at: at(when) }),
        Just(Outcome::Unknown),
    ]
}

/// What a process remembers; its times are no later than `now`, as memories are.
fn memory(now: i64) -> impl Strategy<Value = Memory> {
    const KINDS: [&str; 8] =
        ["create", "delete", "reap", "power", "reconfigure", "describe", "task", "hook"];
    const DIGESTS: [&str; 6] = ["d", "1", "2", "t", "On", "1 CPUs should be 2"];
    let when = move || option::of((0..=now).prop_map(at));
    let digest = || select(DIGESTS.to_vec()).prop_map(str::to_owned);
    let failure = (select(KINDS.to_vec()), error(), 1..5u32, 0..=now, digest());
    let failure = failure.prop_map(|(what, error, count, when, digest)| {
        (what, Failure { error, count, at: at(when), digest })
    });
    let task = option::weighted(0.2, Just(TaskId::from("t")));
    let accepted = (select(KINDS.to_vec()), 0..=now, task, digest());
    let accepted = accepted
        .prop_map(|(what, when, task, digest)| (what, Accepted { at: at(when), task, digest }));
    let in_flight = option::weighted(0.1, select(KINDS.to_vec()));
    (
        option::weighted(0.7, outcome()),
        (when(), when(), when(), when(), when()),
        vec(failure, 0..3),
        vec(accepted, 0..3),
        in_flight,
        any::<[bool; 2]>(),
        (option::weighted(0.2, select(vec![100, 180, 200])), any::<bool>()),
    )
        .prop_map(|(outcome, times, failures, accepted, in_flight, hooks, (removed, open))| {
            let (id_since, polled_at, described_at, shutdown_since, busy_since) = times;
            Memory {
                attempt: outcome.map(|outcome| Attempt { requested_at: at(0), outcome }),
                id_since,
                polled_at,
                described_at,
                shutdown_since,
                busy_since,
                failures: failures.into_iter().collect(),
                accepted: accepted.into_iter().collect(),
                in_flight,
                removal: Removal {
                    asked_at: removed.map(at),
                    open: removed.filter(|_| open).map(at),
                },
                pre_stopped: hooks[0],
                post_started: hooks[1],
                ..Memory::default()
            }
        })
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let power = select(vec![
        None,
        Some(WantedPower::On),
        Some(WantedPower::Off),
        Some(WantedPower::OffGraceful),
    ]);
    let blocker = (option::of(1..99u64), any::<bool>()).prop_map(|(retry, failed)| Blocker {
        reason: "Why".to_owned(),
        message: "because".to_owned(),
        retry: retry.map(Duration::from_secs),
        failed,
    });
    let unresolved = option::weighted(0.1, blocker.clone());
    let unreachable = option::weighted(0.05, blocker);
    (0..900i64).prop_flat_map(move |now| {
        (
            (record(), capabilities(), vec(sight(), 0..5), memory(now)),
            (power.clone(), any::<[bool; 4]>(), proptest::bool::weighted(0.1)),
            (unresolved.clone(), unreachable.clone()),
        )
            .prop_map(move |(facts, (power, flags, rival), (unresolved, unreachable))| {
                let (record, capabilities, sights, mut memory) = facts;
                // Nothing is remembered of a time before the request.
                let asked = record.intent.as_ref().map(|intent| intent.requested_at);
                let now = asked.map_or(now, |asked| now.max(asked.as_second() - 1_000_000));
                memory.id_since = memory.id_since.max(asked.filter(|_| memory.id_since.is_some()));
                // Mostly the attempt is that of the intent.
                if let (Some(attempt), Some(intent)) = (&mut memory.attempt, &record.intent)
                    && flags[0] | flags[1]
                {
                    attempt.requested_at = intent.requested_at;
                    // No answer comes before its question.
                    match &mut attempt.outcome {
                        Outcome::Accepted { at, .. } | Outcome::TaskFailed { at, .. } => {
                            *at = (*at).max(intent.requested_at);
                        }
                        Outcome::Refused(_) | Outcome::Unknown => {}
                    }
                }
                let desired =
                    Desired { power, post_start: flags[2], pre_stop: flags[3], ..desired() };
                Case {
                    record,
                    desired,
                    unresolved,
                    unreachable,
                    capabilities,
                    sights,
                    memory,
                    hashed: flags[1],
                    list_error: flags[0].then(|| Error::unavailable("no list")),
                    rival,
                    other: None,
                    astray: false,
                    kept: false,
                    ahead: Vec::new(),
                    now,
                }
            })
    })
}
