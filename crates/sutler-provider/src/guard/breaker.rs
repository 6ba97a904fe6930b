//! The breaker, as a state machine that is told the time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::limits::BreakerLimits;

/// When those who came while the one probe was under way should ask again.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Whether a platform is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// It is.
    Closed,
    /// It failed too often in a row and is left alone.
    Open {
        /// When one call may try.
        until: Timestamp,
    },
    /// One call may try, or is trying; its outcome decides.
    HalfOpen,
}

/// The right to send one call; its outcome is told with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pass {
    epoch: u64,
    /// The number of the probe that it is, where it is one.
    probe: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Open,
    HalfOpen,
}

/// Counts failures in a row. An outcome counts only while the phase lasts in which its call was sent:
/// what was under way when the breaker opened says nothing of the platform's recovery.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Grows when the breaker opens or closes.
    epoch: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { since: Instant, probes: u64, probe: Option<Instant> },
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self { epoch: 0, state: State::Closed { failures: 0 } }
    }

    /// Where it stands.
    pub(super) fn phase(&self, now: Instant, limits: BreakerLimits) -> Phase {
        match self.state {
            State::Closed { .. } => Phase::Closed,
            State::Open { since, .. } if now.saturating_duration_since(since) >= limits.open => {
                Phase::HalfOpen
            }
            State::Open { .. } => Phase::Open,
        }
    }

    /// Whether a call may be sent, or else for how long it should not be tried.
    pub(super) fn check(&self, now: Instant, limits: BreakerLimits) -> Result<(), Duration> {
        let State::Open { since, probe, .. } = self.state else { return Ok(()) };
        let rest = limits.open.saturating_sub(now.saturating_duration_since(since));
        if !rest.is_zero() {
            return Err(rest);
        }
        match probe {
            // A probe that hangs must not keep the platform closed for as long as a transfer may take.
            Some(sent) if now.saturating_duration_since(sent) < limits.open => Err(PROBE_PAUSE),
            _ => Ok(()),
        }
    }

    /// Lets a call through, as the one probe where that is what is due.
    pub(super) fn pass(&mut self, now: Instant, limits: BreakerLimits) -> Result<Pass, Duration> {
        self.check(now, limits)?;
        let probe = match &mut self.state {
            State::Closed { .. } => None,
            State::Open { probes, probe, .. } => {
                *probes += 1;
                *probe = Some(now);
                Some(*probes)
            }
        };
        Ok(Pass { epoch: self.epoch, probe })
    }

    /// The platform answered. Says whether that closed the breaker.
    pub(super) fn answered(&mut self, pass: Pass) -> bool {
        if pass.epoch != self.epoch {
            return false;
        }
        let closed = matches!(self.state, State::Open { .. });
        self.epoch += u64::from(closed);
        self.state = State::Closed { failures: 0 };
        closed
    }

    /// The platform failed. Says whether that opened the breaker.
    pub(super) fn failed(&mut self, pass: Pass, now: Instant, limits: BreakerLimits) -> bool {
        if pass.epoch != self.epoch {
            return false;
        }
        if let State::Closed { failures } = &mut self.state {
            *failures = failures.saturating_add(1);
            if limits.failures == 0 || *failures < limits.failures {
                return false;
            }
        }
        self.epoch += 1;
        self.state = State::Open { since: now, probes: 0, probe: None };
        true
    }

    /// The caller went away before there was an outcome: a probe's place is free again.
    pub(super) fn dropped(&mut self, pass: Pass) {
        if let State::Open { probes, probe, .. } = &mut self.state
            && pass.epoch == self.epoch
            && pass.probe == Some(*probes)
        {
            *probe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: BreakerLimits = BreakerLimits { failures: 3, open: Duration::from_secs(60) };
    const SECOND: Duration = Duration::from_secs(1);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new();
        for last in [false, false, true] {
            let pass = breaker.pass(now, LIMITS).unwrap();
            assert_eq!(breaker.failed(pass, now, LIMITS), last);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.phase(now, LIMITS), Phase::Open);
        assert_eq!(breaker.check(now + SECOND * 18, LIMITS), Err(SECOND * 42));
    }

    #[test]
    fn an_answer_in_between_begins_the_count_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        for _ in 0..10 {
            for _ in 0..2 {
                let pass = breaker.pass(now, LIMITS).unwrap();
                assert!(!breaker.failed(pass, now, LIMITS));
            }
            let pass = breaker.pass(now, LIMITS).unwrap();
            assert!(!breaker.answered(pass), "it was not open");
        }
        assert_eq!(breaker.phase(now, LIMITS), Phase::Closed);
    }

    #[test]
    fn one_probe_decides() {
        let start = Instant::now();
        let now = start + SECOND * 60;
        for well in [true, false] {
            let mut breaker = opened(start);
            assert_eq!(breaker.phase(now, LIMITS), Phase::HalfOpen);
            let probe = breaker.pass(now, LIMITS).unwrap();
            assert_eq!(breaker.pass(now, LIMITS), Err(PROBE_PAUSE));
            if well {
                assert!(breaker.answered(probe));
                assert_eq!(breaker.phase(now, LIMITS), Phase::Closed);
            } else {
                assert!(breaker.failed(probe, now, LIMITS));
                assert_eq!(breaker.check(now, LIMITS), Err(LIMITS.open));
            }
        }
    }

    #[test]
    fn a_probe_that_was_given_up_leaves_its_place_to_the_next() {
        let start = Instant::now();
        let now = start + SECOND * 60;
        let mut breaker = opened(start);
        let given_up = breaker.pass(now, LIMITS).unwrap();
        breaker.dropped(given_up);
        let next = breaker.pass(now, LIMITS).unwrap();
        breaker.dropped(given_up);
        assert_eq!(breaker.pass(now, LIMITS), Err(PROBE_PAUSE), "the place is the next one's");
        assert!(breaker.answered(next));
    }

    #[test]
    fn a_probe_that_hangs_does_not_keep_it_open_for_good() {
        let start = Instant::now();
        let mut breaker = opened(start);
        let hung = breaker.pass(start + SECOND * 60, LIMITS).unwrap();
        assert!(breaker.pass(start + SECOND * 119, LIMITS).is_err());
        let next = breaker.pass(start + SECOND * 120, LIMITS).unwrap();
        assert!(breaker.answered(next));
        assert!(!breaker.failed(hung, start + SECOND * 121, LIMITS), "that is over");
        assert_eq!(breaker.phase(start + SECOND * 121, LIMITS), Phase::Closed);
    }

    #[test]
    fn without_a_number_it_never_opens() {
        let now = Instant::now();
        let limits = BreakerLimits { failures: 0, ..LIMITS };
        let mut breaker = Breaker::new();
        for _ in 0..1000 {
            let pass = breaker.pass(now, limits).unwrap();
            assert!(!breaker.failed(pass, now, limits));
        }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Pass,
        Answered(prop::sample::Index),
        Failed(prop::sample::Index),
        Dropped(prop::sample::Index),
        Advance(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let index = any::<prop::sample::Index>;
        let op = prop_oneof![
            4 => Just(Op::Pass),
            1 => index().prop_map(Op::Answered),
            4 => index().prop_map(Op::Failed),
            1 => index().prop_map(Op::Dropped),
            2 => (0u64..70).prop_map(Op::Advance),
        ];
        prop::collection::vec(op, 0..200)
    }

    proptest! {
        /// Against the rules in plain words: what was sent before the last change of phase counts for
        /// nothing, failures in a row open it, and while it is open at most one call is under way that is
        /// younger than the time for which it opens.
        #[test]
        fn it_keeps_its_rules(ops in ops()) {
            let mut now = Instant::now();
            let mut breaker = Breaker::new();
            // Calls under way: their pass, when they were sent, and before how many changes of phase.
            let mut flying: Vec<(Pass, Instant, u32)> = Vec::new();
            let (mut changes, mut row, mut open_since) = (0, 0, None::<Instant>);
            for op in ops {
                let take = |flying: &mut Vec<_>, index: prop::sample::Index| {
                    (!flying.is_empty()).then(|| flying.remove(index.index(flying.len())))
                };
                match op {
                    Op::Advance(seconds) => now += SECOND * seconds as u32,
                    Op::Pass => {
                        let probing = flying.iter().any(|(_, sent, before)| {
                            *before == changes && now - *sent < LIMITS.open
                        });
                        let allowed = match open_since {
                            None => true,
                            Some(since) => now - since >= LIMITS.open && !probing,
                        };
                        let pass = breaker.pass(now, LIMITS);
                        prop_assert_eq!(pass.is_ok(), allowed);
                        flying.extend(pass.map(|pass| (pass, now, changes)));
                    }
                    Op::Answered(index) => if let Some((pass, _, before)) = take(&mut flying, index) {
                        let closes = before == changes && open_since.is_some();
                        prop_assert_eq!(breaker.answered(pass), closes);
                        if before == changes { row = 0 }
                        if closes { (open_since, changes) = (None, changes + 1) }
                    },
                    Op::Failed(index) => if let Some((pass, _, before)) = take(&mut flying, index) {
                        if before == changes { row += 1 }
                        let opens = before == changes && (open_since.is_some() || row == LIMITS.failures);
                        prop_assert_eq!(breaker.failed(pass, now, LIMITS), opens);
                        if opens { (open_since, changes, row) = (Some(now), changes + 1, 0) }
                    },
                    Op::Dropped(index) => if let Some((pass, ..)) = take(&mut flying, index) {
                        breaker.dropped(pass);
                    },
                }
                let phase = match open_since {
                    None => Phase::Closed,
                    Some(since) if now - since < LIMITS.open => Phase::Open,
                    Some(_) => Phase::HalfOpen,
                };
                prop_assert_eq!(breaker.phase(now, LIMITS), phase);
            }
        }
    }
}
