//! What a gate holds a connection to.

use std::time::Duration;

use super::backoff::Backoff;
use crate::capabilities::{Capabilities, Deadlines};

/// What a gate holds a connection to. Where a number is 0, there is no such limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Calls per second in the long run.
    pub qps: f64,
    /// Calls that may be sent at once after a rest; at least 1.
    pub burst: u32,
    /// Calls that may be under way at the same time.
    pub concurrency: usize,
    /// Calls that may be under way at the same time on one template.
    pub per_template: usize,
    /// Calls that may be under way at the same time on one host.
    pub per_host: usize,
    /// How long an answer may take.
    pub deadlines: Deadlines,
    /// When the platform is left alone.
    pub breaker: BreakerLimits,
    /// How often calls that change nothing are sent again.
    pub retry: RetryLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let capabilities = Capabilities::default();
        Self {
            qps: 10.0,
            burst: 20,
            concurrency: capabilities.concurrency,
            per_template: capabilities.per_template,
            per_host: capabilities.per_host,
            deadlines: capabilities.deadlines,
            breaker: BreakerLimits::default(),
            retry: RetryLimits::default(),
        }
    }
}

impl Limits {
    /// The same limits with what the platform says of itself: slots and deadlines.
    pub fn with_capabilities(self, capabilities: &Capabilities) -> Self {
        Self {
            concurrency: capabilities.concurrency,
            per_template: capabilities.per_template,
            per_host: capabilities.per_host,
            deadlines: capabilities.deadlines,
            ..self
        }
    }
}

/// When a platform is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Failures in a row after which it is.
    pub failures: u32,
    /// For how long, until one call may try.
    pub open: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self { failures: 5, open: Duration::from_secs(60) }
    }
}

/// How often, and after which pauses, a call that changes nothing is sent again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryLimits {
    /// How often it is sent in all; at least once.
    pub attempts: u32,
    /// The first pause.
    pub first: Duration,
    /// How much longer each further pause is.
    pub factor: f64,
    /// The longest pause. A platform that wants to be left alone for longer is not asked again.
    pub max: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            attempts: 3,
            first: Duration::from_millis(500),
            factor: 2.0,
            max: Duration::from_secs(10),
        }
    }
}

impl RetryLimits {
    /// The pauses between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff { first: self.first, factor: self.factor, max: self.max }
    }
}
