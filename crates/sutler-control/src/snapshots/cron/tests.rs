//! Runs while clocks change, and what cron can say.

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn berlin(cron: &str) -> Schedule {
    Schedule::read(cron, "Europe/Berlin").unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn runs(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let mut now = time(from);
    let mut next = || {
        now = schedule.next(now, START)?;
        Some(now.to_string())
    };
    std::iter::from_fn(&mut next).take(count).collect()
}

#[test]
fn a_time_that_is_left_out_comes_at_the_jump_and_once() {
    // On 29 March 2026 clocks in Berlin go from 02:00 to 03:00, which is 01:00 UTC.
    let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(runs(&berlin("30 2 * * *"), "2026-03-27T12:00:00Z", 3), expected);
    let expected = ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"];
    assert_eq!(runs(&berlin("0 1-4 * * *"), "2026-03-28T22:00:00Z", 3)[..2], expected[..2]);
    assert_eq!(
        runs(&berlin("0,30 2,3 * * *"), "2026-03-29T00:00:00Z", 2),
        ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
    );
}

#[test]
fn a_time_that_comes_twice_has_one_run() {
    // On 25 October 2026 clocks in Berlin go from 03:00 to 02:00, which is 01:00 UTC.
    let expected = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(runs(&berlin("30 2 * * *"), "2026-10-23T12:00:00Z", 3), expected);
    let schedule = berlin("30 2 * * *");
    for now in ["2026-10-25T00:30:00Z", "2026-10-25T01:10:00Z", "2026-10-25T01:45:00Z"] {
        let latest = schedule.latest(time(now), START).unwrap();
        assert_eq!(latest.to_string(), "2026-10-25T00:30:00Z", "{now}");
    }
}

#[test]
fn a_run_for_every_hour_comes_every_hour() {
    for from in ["2026-10-24T20:00:00Z", "2026-03-28T20:00:00Z"] {
        let mut last = time(from);
        for run in runs(&berlin("0 * * * *"), from, 12) {
            let run = time(&run);
            assert_eq!(run.duration_since(last).as_secs(), 3600, "{run}");
            assert_eq!(berlin("0 * * * *").latest(run, START), Some(run));
            last = run;
        }
    }
}

#[test]
fn what_cron_can_say_is_understood() {
    let first = |cron: &str| runs(&Schedule::read(cron, "UTC").unwrap(), "2026-01-01T00:00:00Z", 1);
    for (cron, run) in [
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-02-01T00:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("@daily", "2026-01-02T00:00:00Z"),
        ("@hourly", "2026-01-01T01:00:00Z"),
        ("*/15 * * * *", "2026-01-01T00:15:00Z"),
        ("7/20 3 * * *", "2026-01-01T03:07:00Z"),
        ("0 0 * * 7", "2026-01-04T00:00:00Z"),
        ("0 0 * * mon-fri", "2026-01-02T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-02T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("30 0 0 * * *", "2026-01-01T00:00:30Z"),
        ("0 0 0 1 JAN ? 2030/5", "2030-01-01T00:00:00Z"),
    ] {
        assert_eq!(first(cron), [run], "{cron}");
    }
    let every = Schedule::read("@every 1h30m", "UTC").unwrap();
    let anchor = time("2026-01-01T00:10:00Z");
    let at = |now: &str| (every.latest(time(now), anchor), every.next(time(now), anchor).unwrap());
    assert_eq!(at("2026-01-01T01:00:00Z"), (None, time("2026-01-01T01:40:00Z")));
    let both = (Some(time("2026-01-01T03:10:00Z")), time("2026-01-01T04:40:00Z"));
    assert_eq!(at("2026-01-01T03:10:00Z"), both);
}

#[test]
fn what_makes_no_sense_is_refused_by_its_field() {
    for (cron, zone, part) in [
        ("* * * *", "UTC", "cronSpec"),
        ("60 * * * *", "UTC", "minute"),
        ("5-1 * * * *", "UTC", "backwards"),
        ("*/0 * * * *", "UTC", "step"),
        ("0 0 31 2 *", "UTC", "never"),
        ("@reboot", "UTC", "@reboot"),
        ("@every soon", "UTC", "soon"),
        ("@daily", "Nowhere/City", "timezone"),
        ("", "UTC", "0 fields"),
    ] {
        let error = Schedule::read(cron, zone).unwrap_err();
        assert!(error.contains(part), "{cron}: {error}");
    }
}

fn part(most: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..=most).prop_map(|n| n.to_string()),
        1 => Just("*".to_owned()),
        1 => (1..=most).prop_map(|n| format!("*/{n}")),
        1 => (0..=most, 0..=most).prop_map(|(a, b)| format!("{},{}", a.min(b), a.max(b))),
    ]
}

proptest! {
    /// By minutes that are tried one by one: what a run is, and that none is left out.
    #[test]
    fn runs_are_those_that_a_slow_search_finds(
        minute in part(59), hour in part(23), day in 0i64..400,
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    ) {
        let schedule = Schedule::read(&format!("{minute} {hour} * * *"), zone).unwrap();
        let from = time("2026-01-01T00:00:00Z") + Duration::from_secs(86_400 * day.unsigned_abs());
        let end = from + Duration::from_secs(2 * 86_400);
        let mut now = from;
        let mut found = std::collections::BTreeSet::new();
        while let Some(run) = schedule.next(now, START).filter(|run| *run <= end) {
            prop_assert!(run > now);
            prop_assert_eq!(schedule.latest(run, START), Some(run));
            let between = run.checked_sub(1.second()).unwrap();
            let before = schedule.latest(between, START);
            prop_assert!(before.is_some_and(|before| before <= now || before == run || before > from));
            prop_assert!(before != Some(run));
            found.insert(run);
            now = run;
        }
        let Times::Clock(clock) = &schedule.times else { unreachable!() };
        let mut at = from;
        let mut had = std::collections::BTreeSet::new();
        // A day before, so that what is set back is known to have had its run.
        at = at.checked_sub(24.hours()).unwrap();
        while at <= end {
            let civil = schedule.civil(at);
            let matches = clock.first_time(civil.time()) == Some(civil.time()) && clock.is_day(civil.date());
            let first = had.insert(civil) || clock.every_hour;
            if matches && first && at > from {
                prop_assert!(found.contains(&at), "{at} is left out");
            }
            at += Duration::from_secs(60);
        }
    }
}
