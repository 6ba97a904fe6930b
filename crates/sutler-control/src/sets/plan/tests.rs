//! Single decisions, and whole updates with failures, crashes and views that are behind.

mod rollout;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn wanted(replicas: u32, update: Update) -> Wanted {
    Wanted {
        replicas,
        start: 0,
        update,
        ordered: false,
        min_ready: Duration::ZERO,
        revision: "new".to_owned(),
        current: "old".to_owned(),
        paused: false,
    }
}

fn rolling(max_unavailable: u32, max_surge: u32) -> Update {
    Update::Rolling { max_unavailable, max_surge, partition: 0 }
}

/// Members in words: `O` and `N` are ready and of the old or new revision; small letters are of the
/// same revision and coming, `f`/`F` failed, `u`/`U` unsure (new in capitals), `x` leaving, `.` absent.
fn members(text: &str) -> Members {
    let member = |(number, letter): (u32, char)| {
        let (revision, state) = match letter {
            'O' => ("old", State::Ready(at(0))),
            'N' => ("new", State::Ready(at(0))),
            'o' => ("old", State::Coming),
            'n' => ("new", State::Coming),
            'f' => ("old", State::Failed),
            'F' => ("new", State::Failed),
            'u' => ("old", State::Unsure),
            'U' => ("new", State::Unsure),
            'x' => ("old", State::Leaving),
            _ => return None,
        };
        let uid = format!("{number}{letter}");
        Some((number, Member { uid, revision: Some(revision.to_owned()), state }))
    };
    (0..).zip(text.chars()).filter_map(member).collect()
}

/// A plan in words: numbers made (with `o` or `n`), then numbers removed.
fn text(plan: &Plan) -> String {
    let made = plan.create.iter().map(|(number, revision)| format!("+{number}{}", &revision[..1]));
    let mut gone: Vec<_> = plan.remove.iter().map(|(number, ..)| *number).collect();
    gone.dedup();
    made.chain(gone.into_iter().map(|number| format!("-{number}"))).collect::<Vec<_>>().join(" ")
}

fn decide(wanted: &Wanted, seen: &str) -> String {
    text(&plan(wanted, &members(seen), &Replacing::new(), at(100)))
}

#[test]
fn machines_come_and_go_in_order_or_together() {
    let parallel = wanted(3, rolling(1, 0));
    let ordered = Wanted { ordered: true, ..parallel.clone() };
    for (seen, together, in_order) in [
        ("", "+0n +1n +2n", "+0n"),
        ("n", "+1n +2n", ""),
        ("N", "+1n +2n", "+1n"),
        ("N.N", "+1n", "+1n"),
        ("NNN", "", ""),
        ("NFN", "", ""),
        ("NNNNN", "-4 -3", "-4"),
        ("NNNNx", "-3", ""),
        ("NNNx", "", ""),
    ] {
        assert_eq!(decide(&parallel, seen), together, "{seen} together");
        assert_eq!(decide(&ordered, seen), in_order, "{seen} in order");
    }
    assert_eq!(decide(&Wanted { paused: true, ..parallel.clone() }, "N"), "");
    let later = Wanted { start: 2, ..parallel };
    assert_eq!(decide(&later, "NNN"), "+3n +4n -1 -0");
}

#[test]
fn updates_keep_to_their_bounds() {
    for (replicas, update, seen, decision) in [
        (4, rolling(1, 0), "OOOO", "-3"),
        (4, rolling(2, 0), "OOOO", "-3 -2"),
        (4, rolling(1, 0), "OOOx", ""),
        (4, rolling(1, 0), "OOOn", ""),
        (4, rolling(1, 0), "OOON", "-2"),
        // A stand-in comes first where nothing may be missing.
        (4, rolling(0, 1), "OOOO", "+4n"),
        (4, rolling(0, 1), "OOOOn", ""),
        (4, rolling(0, 1), "OOOON", "-3"),
        (4, rolling(0, 1), "NNNNN", "-4"),
        (4, rolling(1, 1), "NNNnN", "-4"),
        // One that serves nobody goes whatever the floor says, and its neighbours wait.
        (4, rolling(1, 0), "OfOO", "-1"),
        (4, rolling(1, 0), "Offf", "-3"),
        (4, rolling(2, 0), "Offf", "-3 -2"),
        (4, rolling(1, 0), "OfFN", ""),
        // What nobody can be asked about may be well.
        (4, rolling(1, 0), "uuuu", ""),
        (4, rolling(1, 0), "OOuN", "-2"),
        (4, Update::OnDelete, "OOxO", ""),
        (4, Update::OnDelete, "OO.O", "+2n"),
        (4, Update::Recreate, "OONO", "-0 -1 -3"),
        (4, Update::Recreate, "..Nx", ""),
        (4, Update::Recreate, "..N", "+0n +1n +3n"),
    ] {
        let wanted = wanted(replicas, update);
        assert_eq!(decide(&wanted, seen), decision, "{update:?} {seen}");
    }
}

#[test]
fn below_the_partition_the_old_revision_stays() {
    let update = Update::Rolling { max_unavailable: 2, max_surge: 0, partition: 2 };
    let wanted = wanted(4, update);
    assert_eq!(decide(&wanted, "OOOO"), "-3 -2");
    assert_eq!(decide(&wanted, "OONN"), "");
    assert_eq!(decide(&wanted, "O.NN"), "+1o");
}

#[test]
fn a_machine_counts_when_it_was_ready_long_enough() {
    let mut wanted = wanted(2, rolling(1, 0));
    wanted.min_ready = Duration::from_secs(150);
    let plan = plan(&wanted, &members("ON"), &Replacing::new(), at(100));
    assert_eq!((text(&plan).as_str(), plan.next), ("", Some(at(150))));
    assert_eq!((plan.counts.ready, plan.counts.available), (2, 0));
}

#[test]
fn what_is_on_record_as_leaving_counts_as_gone() {
    let wanted = wanted(4, rolling(1, 0));
    let seen = members("OOOO");
    let replacing = Replacing::from([(3, seen[&3].uid.clone())]);
    let next = plan(&wanted, &seen, &replacing, at(100));
    // It is asked for again, should the first request be lost, and nothing else is.
    assert_eq!(text(&next), "-3");
    assert_eq!(next.replacing, replacing);
    let back = plan(&wanted, &members("OOON"), &replacing, at(100));
    assert_eq!(back.replacing.keys().collect::<Vec<_>>(), [&2]);
}

#[test]
fn a_set_that_goes_lets_the_highest_number_go_first() {
    let numbers = |seen: &str, ordered| -> Vec<u32> {
        drain(&members(seen), ordered).into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers("NNN", true), [2]);
    assert_eq!(numbers("NNx", true), [0_u32; 0]);
    assert_eq!(numbers("NNx", false), [1, 0]);
}
