//! How busy something was over time, in a ring of bounded size.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// How many steps a window is kept in.
const STEPS: i64 = 128;
/// Readings that are kept: the window, and a quarter more.
const KEPT: usize = 160;
/// Readings further apart than this leave a gap, unless steps are longer.
const GAP: i64 = 180;
/// Share of the readings, in percent, that must agree.
const SHARE: usize = 80;

/// One reading: shares of CPU and memory in use, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Of the CPU.
    pub cpu: u32,
    /// Of the memory.
    pub memory: u32,
}

impl Load {
    /// Shares of `whole` that `used` is. A resource that there is none of is not in use.
    pub fn of(used: &super::Resources, whole: &super::Resources) -> Self {
        let share = |used: i64, whole: i64| {
            if whole <= 0 {
                return 0;
            }
            let share = i128::from(used.max(0)) * 1000 / i128::from(whole);
            u32::try_from(share).unwrap_or(u32::MAX)
        };
        Self { cpu: share(used.cpu, whole.cpu), memory: share(used.memory, whole.memory) }
    }
}

/// The lowest and highest readings of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    first: Timestamp,
    last: Timestamp,
    low: Load,
    high: Load,
}

/// Readings over a window of time. Those that come faster than a 128th of the window are gathered
/// into one step with their lowest and highest, so that memory is bounded and no peak is lost.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Window {
    span: i64,
    steps: VecDeque<Step>,
}

/// What readings say about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It held: over the whole window, without a gap, in four of five readings or more.
    Held,
    /// There is no reading, or a single one.
    TooFew,
    /// Readings do not cover the window yet; with no gap from now on they will at this time.
    TooShort {
        /// When.
        until: Timestamp,
    },
    /// Too long a time passed without a reading.
    Gap {
        /// From when.
        from: Timestamp,
    },
    /// Too few readings agree.
    Broken {
        /// How many of a hundred do.
        share: u32,
    },
}

impl Window {
    /// An empty one that can answer for this many seconds.
    pub fn new(seconds: i64) -> Self {
        Self { span: seconds.max(0), steps: VecDeque::new() }
    }

    /// The seconds that it can answer for.
    pub fn seconds(&self) -> i64 {
        self.span
    }

    /// Adds a reading; one that is older than the last is not taken, and `false` says so.
    pub fn push(&mut self, at: Timestamp, load: Load) -> bool {
        let step = (self.span / STEPS).max(1);
        if let Some(last) = self.steps.back_mut() {
            if at < last.last {
                return false;
            }
            if seconds_between(last.first, at) < step {
                last.last = at;
                last.low.cpu = last.low.cpu.min(load.cpu);
                last.low.memory = last.low.memory.min(load.memory);
                last.high.cpu = last.high.cpu.max(load.cpu);
                last.high.memory = last.high.memory.max(load.memory);
                return true;
            }
        }
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(Step { first: at, last: at, low: load, high: load });
        true
    }

    /// Whether both were below these shares, in percent, for this long.
    pub fn below(&self, cpu: u32, memory: u32, seconds: i64, now: Timestamp) -> Judgement {
        self.judge(seconds, now, |step| {
            step.high.cpu < cpu.saturating_mul(10) && step.high.memory < memory.saturating_mul(10)
        })
    }

    /// Whether one of them was above these shares, in percent, for this long.
    pub fn above(&self, cpu: u32, memory: u32, seconds: i64, now: Timestamp) -> Judgement {
        self.judge(seconds, now, |step| {
            step.low.cpu > cpu.saturating_mul(10) || step.low.memory > memory.saturating_mul(10)
        })
    }

    /// The last reading, if it is no older than a gap may be.
    pub fn latest(&self, now: Timestamp) -> Option<Load> {
        let last = self.steps.back()?;
        (seconds_between(last.last, now) <= self.gap()).then_some(last.high)
    }

    /// The highest readings that are kept.
    pub fn peak(&self) -> Option<Load> {
        let first = self.steps.front()?.high;
        Some(self.steps.iter().fold(first, |peak, step| Load {
            cpu: peak.cpu.max(step.high.cpu),
            memory: peak.memory.max(step.high.memory),
        }))
    }

    fn gap(&self) -> i64 {
        GAP.max(3 * self.span / STEPS)
    }

    fn judge(&self, seconds: i64, now: Timestamp, agrees: impl Fn(&Step) -> bool) -> Judgement {
        let seconds = seconds.max(0);
        let later = |from: Timestamp| {
            from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
        };
        let begin = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        let Some(first) = self.steps.front() else { return Judgement::TooFew };
        // The reading before the window says what held when it began. Where readings are further apart
        // than the window is long, the last two count.
        let least = if seconds > 0 { 2 } else { 1 };
        let from = self.steps.partition_point(|step| step.last <= begin).saturating_sub(1);
        let from = from.min(self.steps.len().saturating_sub(least));
        let mut before: Option<Timestamp> = None;
        let (mut all, mut good) = (0usize, 0usize);
        for step in self.steps.iter().skip(from) {
            if step.first > now {
                break;
            }
            if before.is_some_and(|before| seconds_between(before, step.first) > self.gap()) {
                return Judgement::Gap { from: before.unwrap_or(begin) };
            }
            before = Some(step.last);
            all += 1;
            good += usize::from(agrees(step));
        }
        let Some(last) = before else { return Judgement::TooShort { until: later(first.first) } };
        if seconds_between(last, now) > self.gap() {
            return Judgement::Gap { from: last };
        }
        if first.first > begin {
            return Judgement::TooShort { until: later(first.first) };
        }
        if all < least {
            return Judgement::TooFew;
        }
        if good * 100 < all * SHARE {
            return Judgement::Broken { share: u32::try_from(good * 100 / all).unwrap_or(0) };
        }
        Judgement::Held
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn load(percent: u32) -> Load {
        Load { cpu: percent * 10, memory: percent * 10 }
    }

    fn minutes(readings: impl IntoIterator<Item = u32>) -> Window {
        let mut window = Window::new(600);
        for (minute, percent) in (0..).zip(readings) {
            assert!(window.push(at(minute * 60), load(percent)));
        }
        window
    }

    #[test]
    fn one_reading_is_not_enough() {
        let window = minutes([10]);
        assert_eq!(window.below(50, 50, 600, at(0)), Judgement::TooShort { until: at(600) });
        assert_eq!(window.below(50, 50, 0, at(0)), Judgement::Held);
        assert_eq!(Window::new(600).below(50, 50, 600, at(0)), Judgement::TooFew);
    }

    #[test]
    fn readings_that_are_further_apart_than_the_window_is_long_count_two_by_two() {
        let mut window = Window::new(5);
        window.push(at(0), load(10));
        assert_eq!(window.below(50, 50, 5, at(20)), Judgement::TooFew);
        window.push(at(15), load(10));
        assert_eq!(window.below(50, 50, 5, at(20)), Judgement::Held);
        window.push(at(30), load(90));
        assert_eq!(window.below(50, 50, 5, at(36)), Judgement::Broken { share: 50 });
        assert_eq!(window.above(50, 50, 5, at(36)), Judgement::Broken { share: 50 });
    }

    #[test]
    fn four_of_five_must_agree() {
        let window = minutes([10; 11]);
        assert_eq!(window.below(50, 50, 600, at(600)), Judgement::Held);
        assert_eq!(window.above(5, 50, 600, at(600)), Judgement::Held);
        let window = minutes([10, 10, 90, 10, 10, 90, 10, 10, 10, 10, 10]);
        assert_eq!(window.below(50, 50, 600, at(600)), Judgement::Held);
        let window = minutes([10, 10, 90, 10, 10, 90, 10, 90, 10, 10, 10]);
        assert_eq!(window.below(50, 50, 600, at(600)), Judgement::Broken { share: 72 });
        let equal = minutes([50; 11]);
        assert_eq!(equal.below(50, 50, 600, at(600)), Judgement::Broken { share: 0 });
    }

    #[test]
    fn gaps_are_not_idleness() {
        let mut window = minutes([10; 4]);
        window.push(at(180 + 181), load(10));
        window.push(at(520), load(10));
        window.push(at(700), load(10));
        assert_eq!(window.below(50, 50, 600, at(700)), Judgement::Gap { from: at(180) });
        let window = minutes([10; 11]);
        assert_eq!(window.below(50, 50, 600, at(800)), Judgement::Gap { from: at(600) });
        assert_eq!(window.latest(at(780)), Some(load(10)));
        assert_eq!(window.latest(at(781)), None);
    }

    #[test]
    fn fast_readings_neither_overflow_nor_hide_a_peak() {
        let mut window = Window::new(6000);
        for second in 0..=6000 {
            window.push(at(second), load(if second % 40 == 7 { 90 } else { 10 }));
        }
        assert!(window.steps.len() <= KEPT);
        assert!(matches!(window.below(50, 50, 6000, at(6000)), Judgement::Broken { .. }));
        assert_eq!(window.peak(), Some(load(90)));
        assert!(!window.push(at(5), load(1)), "a reading from before is not taken");
    }
}
