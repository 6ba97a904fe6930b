//! When the runs of a schedule are: cron as people write it, in a time zone.
//!
//! Where clocks jump ahead, a run whose time is left out comes at the jump; where they are set back, a
//! run comes at the first of the two. A schedule for every hour goes by hours that pass instead: there
//! the hour that comes twice has its runs twice. No two runs are ever at the same instant.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{
    Timestamp, ToSpan as _,
    civil::{Date, DateTime, Time},
    tz::{AmbiguousOffset, Offset, TimeZone},
};

/// Days that are looked through: a 29 February is at most eight years away.
const HORIZON: u32 = 366 * 9;

/// How much later than the clock shows a civil time can be that has passed.
const SET_BACK: i64 = 25;

/// When runs are.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Times {
    /// By the clock on the wall.
    Clock(Box<Clock>),
    /// By time that passes, from when the schedule was made.
    Every(Duration),
}

/// Which times of the clock are meant: bit n stands for n.
#[derive(Debug, Clone)]
struct Clock {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    years: Option<Vec<(i16, i16, i16)>>,
    every_hour: bool,
    every_day: bool,
    every_weekday: bool,
}

impl Schedule {
    /// Reads what stands in `cronSpec` and `timezone`; an error names the field.
    pub(crate) fn read(cron: &str, zone: &str) -> Result<Self, String> {
        let zone = TimeZone::get(zone)
            .map_err(|_| format!("spec.schedule.timezone: {zone:?} is no time zone"))?;
        let times = times(cron.trim()).map_err(|why| format!("spec.schedule.cronSpec: {why}"))?;
        let schedule = Self { times, zone };
        if let Times::Clock(clock) = &schedule.times
            && clock.years.is_none()
            && clock.next(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).is_none()
        {
            return Err(format!("spec.schedule.cronSpec: {cron:?} never comes"));
        }
        Ok(schedule)
    }

    /// The first run after `now`. Those by time that passes count from `anchor`.
    pub(crate) fn next(&self, now: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Every(pause) => {
                let passed = passed(anchor, now, *pause)?;
                anchor.checked_add(pause.checked_mul(passed + 1)?).ok()
            }
            Times::Clock(clock) if clock.every_hour => self.next_hourly(clock, now),
            Times::Clock(clock) => {
                let mut civil = self.civil(now);
                loop {
                    civil = clock.next(civil)?;
                    // A time that was there already when clocks were set back had its run.
                    let run = self.instant(civil)?;
                    if run > now {
                        return Some(run);
                    }
                }
            }
        }
    }

    /// The last run that is not after `now`.
    pub(crate) fn latest(&self, now: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Every(pause) => match passed(anchor, now, *pause)? {
                0 => None,
                passed => anchor.checked_add(pause.checked_mul(passed)?).ok(),
            },
            Times::Clock(clock) if clock.every_hour => self.latest_hourly(clock, now),
            Times::Clock(clock) => {
                let mut civil = self.civil(now).checked_add(SET_BACK.hours()).ok()?;
                loop {
                    civil = clock.last(civil)?;
                    let run = self.instant(civil)?;
                    if run <= now {
                        return Some(run);
                    }
                    civil = civil.checked_sub(1.second()).ok()?;
                }
            }
        }
    }

    fn civil(&self, at: Timestamp) -> DateTime {
        whole(self.zone.to_offset(at).to_datetime(at))
    }

    /// The one instant that stands for a time on the wall.
    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let late = before.to_timestamp(civil).ok()?;
                let jump = self.zone.preceding(late.checked_add(1.second()).ok()?).next()?;
                Some(jump.timestamp())
            }
        }
    }

    /// Between two changes of the clock, civil time passes as time does.
    fn next_hourly(&self, clock: &Clock, now: Timestamp) -> Option<Timestamp> {
        let mut changes = self.zone.following(now);
        let (mut low, mut offset) = (now, self.zone.to_offset(now));
        loop {
            let run = at(offset, clock.next(whole(offset.to_datetime(low)))?)?;
            match changes.next() {
                Some(change) if run >= change.timestamp() => {
                    low = change.timestamp().checked_sub(1.second()).ok()?;
                    offset = change.offset();
                }
                _ => return Some(run),
            }
        }
    }

    fn latest_hourly(&self, clock: &Clock, now: Timestamp) -> Option<Timestamp> {
        let mut changes = self.zone.preceding(now.checked_add(1.nanosecond()).ok()?);
        let mut high = now;
        loop {
            let offset = self.zone.to_offset(high);
            let run = at(offset, clock.last(whole(offset.to_datetime(high)))?)?;
            match changes.next() {
                Some(change) if run < change.timestamp() => {
                    high = change.timestamp().checked_sub(1.second()).ok()?;
                }
                _ => return Some(run),
            }
        }
    }
}

fn at(offset: Offset, civil: DateTime) -> Option<Timestamp> {
    offset.to_timestamp(civil).ok()
}

fn whole(civil: DateTime) -> DateTime {
    civil.with().subsec_nanosecond(0).build().unwrap_or(civil)
}

/// How many whole pauses have passed.
fn passed(from: Timestamp, now: Timestamp, pause: Duration) -> Option<u32> {
    let since = Duration::try_from(now.duration_since(from)).unwrap_or_default();
    u32::try_from(since.as_nanos() / pause.as_nanos().max(1)).ok()
}

impl Clock {
    fn is_day(&self, date: Date) -> bool {
        let in_years = self.years.as_ref().is_none_or(|years| {
            let fits = |(from, to, step): &(i16, i16, i16)| {
                (*from..=*to).contains(&date.year()) && (date.year() - from) % step == 0
            };
            years.iter().any(fits)
        });
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        // Where both are said, either will do.
        let today = match self.every_day || self.every_weekday {
            true => day && weekday,
            false => day || weekday,
        };
        in_years && has(self.months, date.month()) && today
    }

    /// The first time after this one.
    fn next(&self, after: DateTime) -> Option<DateTime> {
        let mut date = after.date();
        let mut from = after.time().checked_add(1.second()).ok();
        for _ in 0..HORIZON {
            if self.is_day(date)
                && let Some(time) = from.and_then(|from| self.first_time(from))
            {
                return Some(date.to_datetime(time));
            }
            date = date.tomorrow().ok()?;
            from = Some(Time::midnight());
        }
        None
    }

    /// The last time that is not after this one.
    fn last(&self, until: DateTime) -> Option<DateTime> {
        let mut date = until.date();
        let mut to = until.time();
        for _ in 0..HORIZON {
            if self.is_day(date)
                && let Some(time) = self.last_time(to)
            {
                return Some(date.to_datetime(time));
            }
            date = date.yesterday().ok()?;
            to = Time::constant(23, 59, 59, 0);
        }
        None
    }

    fn first_time(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = from_bit(self.seconds, second)
            {
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = from_bit(self.minutes, minute + 1) {
                return Time::new(hour, minute, from_bit(self.seconds, 0)?, 0).ok();
            }
        }
        let hour = from_bit(self.hours, hour + 1)?;
        Time::new(hour, from_bit(self.minutes, 0)?, from_bit(self.seconds, 0)?, 0).ok()
    }

    fn last_time(&self, to: Time) -> Option<Time> {
        let (hour, minute, second) = (to.hour(), to.minute(), to.second());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = to_bit(self.seconds, second)
            {
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = to_bit(self.minutes, minute - 1) {
                return Time::new(hour, minute, to_bit(self.seconds, 59)?, 0).ok();
            }
        }
        let hour = to_bit(self.hours, hour - 1)?;
        Time::new(hour, to_bit(self.minutes, 59)?, to_bit(self.seconds, 59)?, 0).ok()
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set >> number & 1 == 1)
}

/// The smallest number of the set from this one on.
fn from_bit(set: u64, number: i8) -> Option<i8> {
    let rest = set >> u32::try_from(number).ok()? << u32::try_from(number).ok()?;
    (rest != 0).then(|| i8::try_from(rest.trailing_zeros()).ok()).flatten()
}

/// The largest number of the set up to this one.
fn to_bit(set: u64, number: i8) -> Option<i8> {
    let mask = u64::MAX >> (63 - u32::try_from(number).ok()?);
    let rest = set & mask;
    (rest != 0).then(|| i8::try_from(63 - rest.leading_zeros()).ok()).flatten()
}

fn times(cron: &str) -> Result<Times, String> {
    let fields = match cron {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@reboot" => return Err("@reboot has no meaning here: say at which times".to_owned()),
        other => match other.strip_prefix("@every ") {
            Some(pause) => {
                let pause = sutler_api::duration::Duration::from(pause.trim()).to_std();
                let pause = pause.map_err(|error| error.to_string())?;
                if pause < Duration::from_secs(1) {
                    return Err("@every takes one second at least".to_owned());
                }
                return Ok(Times::Every(pause));
            }
            None => other,
        },
    };
    let mut parts: Vec<&str> = fields.split_whitespace().collect();
    let years = if parts.len() == 7 { parts.pop() } else { None };
    if parts.len() == 5 {
        parts.insert(0, "0");
    }
    let [second, minute, hour, day, month, weekday] = parts[..] else {
        return Err(format!(
            "{cron:?} has {} fields: minute, hour, day, month and weekday are five, with the second \
             before them and the year behind them seven",
            fields.split_whitespace().count()
        ));
    };
    let every = |field: &str| matches!(field, "*" | "?");
    let weekdays = set(weekday, "weekday", 0, 7, &WEEKDAYS)?;
    Ok(Times::Clock(Box::new(Clock {
        seconds: set(second, "second", 0, 59, &[])?,
        minutes: set(minute, "minute", 0, 59, &[])?,
        hours: set(hour, "hour", 0, 23, &[])?,
        days: set(day, "day", 1, 31, &[])?,
        months: set(month, "month", 1, 12, &MONTHS)?,
        // Sunday is 0 and 7.
        weekdays: (weekdays | weekdays >> 7) & 0x7f,
        years: match years {
            None | Some("*" | "?") => None,
            Some(years) => Some(ranges(years, "year", 1970, 2199, &[])?),
        },
        every_hour: set(hour, "hour", 0, 23, &[])? == (1 << 24) - 1,
        every_day: every(day),
        every_weekday: every(weekday),
    })))
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

fn set(field: &str, name: &str, least: i16, most: i16, words: &[&str]) -> Result<u64, String> {
    let mut set = 0;
    for (from, to, step) in ranges(field, name, least, most, words)? {
        let mut number = from;
        while number <= to {
            set |= 1 << number;
            number += step;
        }
    }
    Ok(set)
}

/// Numbers from, to, and in which steps.
fn ranges(
    field: &str,
    name: &str,
    least: i16,
    most: i16,
    words: &[&str],
) -> Result<Vec<(i16, i16, i16)>, String> {
    let number = |text: &str| -> Result<i16, String> {
        let text = text.to_lowercase();
        let word = words.iter().position(|word| *word == text);
        let number = match word {
            Some(place) => i16::try_from(place).unwrap_or(0) + least,
            None => text.parse().map_err(|_| format!("{text:?} is no {name}"))?,
        };
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => Err(format!("{number} is no {name}: it is from {least} to {most}")),
        }
    };
    field
        .split(',')
        .map(|part| {
            let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
            let step_by = match step {
                None => 1,
                Some(text) => {
                    let step = text.parse().ok().filter(|step| (1..=most.max(1)).contains(step));
                    step.ok_or_else(|| format!("{text:?} is no step of a {name}"))?
                }
            };
            let (from, to) = match range.split_once('-') {
                Some((from, to)) => (number(from)?, number(to)?),
                None if matches!(range, "*" | "?") => (least, most),
                None if step.is_some() => (number(range)?, most),
                None => (number(range)?, number(range)?),
            };
            match from <= to {
                true => Ok((from, to, step_by)),
                false => Err(format!("{range:?} runs backwards")),
            }
        })
        .collect()
}
