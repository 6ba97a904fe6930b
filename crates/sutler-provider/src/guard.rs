//! Guards in front of a provider: one [`Gate`] per connection, and every call goes through it.
//!
//! A gate keeps a platform from being overrun and us from being held up by it: breaker, slots, rate,
//! deadline, and retries where they are harmless. A call passes in this order:
//!
//! 1. An open breaker refuses it at once, with how long the platform is left alone.
//! 2. It waits for a slot of its template and its host, then for one of the connection, first come
//!    first served.
//! 3. It waits for a token of the bucket.
//! 4. It is sent, unless it is too late for that: [`Call::not_after`] is looked at last of all.
//! 5. Without an answer in time it ends as [`Unavailable`](crate::ErrorKind::Unavailable) where it
//!    only looked, and as [`Indeterminate`](crate::ErrorKind::Indeterminate) where it may have changed
//!    something.
//!
//! Whoever stops waiting gives back what they hold, and counts for nothing. No task runs in the
//! background, and no lock is held while somebody waits.

mod backoff;
mod breaker;
mod bucket;
mod calls;
mod gate;
mod limits;
mod slots;
mod stats;
#[cfg(test)]
mod testing;

pub use backoff::{Backoff, Jitter};
pub use breaker::BreakerState;
pub use calls::{Call, CallClass, Terms};
pub use gate::Gate;
pub use limits::{BreakerLimits, Limits, RetryLimits};
pub use stats::{CallStats, Outcome, Stats, Tally};
