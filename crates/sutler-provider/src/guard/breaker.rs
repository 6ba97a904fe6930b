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
