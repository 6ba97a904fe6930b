//! When something that failed is tried again.

use std::time::Duration;

use jiff::Timestamp;
use sutler_provider::ErrorKind;

use super::memory::Failure;

/// How often the platform may fail at the same thing until a person has to look.
const FAILED_ATTEMPTS: u32 = 3;

/// When something that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Then.
    At(Timestamp),
    /// Not before something changes: the record, what it refers to, or the platform.
    OnChange,
}

/// When to try again what failed like this while `digest` is asked for.
pub fn retry(failure: &Failure, digest: &str) -> Retry {
    if failure.digest != digest {
        return Retry::At(Timestamp::MIN);
    }
    let pause = match failure.error.kind() {
        ErrorKind::Invalid | ErrorKind::Unsupported => return Retry::OnChange,
        ErrorKind::Failed if failure.count >= FAILED_ATTEMPTS => return Retry::OnChange,
        ErrorKind::Failed => growing(failure.count, 10, 300),
        ErrorKind::Unavailable | ErrorKind::Indeterminate => growing(failure.count, 1, 60),
        ErrorKind::NotFound | ErrorKind::Conflict => growing(failure.count, 5, 300),
        ErrorKind::Exhausted => growing(failure.count, 30, 600),
        ErrorKind::Denied | ErrorKind::Internal => growing(failure.count, 60, 600),
    };
    let pause = failure.error.pause().unwrap_or_default().max(pause);
    Retry::At(failure.at.saturating_add(pause).unwrap_or(Timestamp::MAX))
}

fn growing(count: u32, first: u64, most: u64) -> Duration {
    Duration::from_secs(first.saturating_mul(1 << count.saturating_sub(1).min(16)).min(most))
}

#[cfg(test)]
mod tests {
    use sutler_provider::Error;

    use super::*;

    fn failure(kind: ErrorKind, count: u32) -> Failure {
        let at = Timestamp::UNIX_EPOCH;
        Failure { error: Error::new(kind, "no"), count, at, digest: "d".into() }
    }

    #[test]
    fn every_kind_has_its_way_on() {
        let seconds = |kind, count| match retry(&failure(kind, count), "d") {
            Retry::At(at) => Some(at.as_second()),
            Retry::OnChange => None,
        };
        for kind in ErrorKind::ALL {
            let first = seconds(kind, 1);
            match kind {
                ErrorKind::Invalid | ErrorKind::Unsupported => assert_eq!(first, None),
                _ => assert!(first.is_some_and(|s| (1..=60).contains(&s)), "{kind}: {first:?}"),
            }
        }
        assert_eq!(seconds(ErrorKind::Unavailable, 3), Some(4));
        assert_eq!(seconds(ErrorKind::Unavailable, 99), Some(60));
        assert_eq!(seconds(ErrorKind::Failed, 3), None);
    }

    #[test]
    fn another_wish_is_tried_at_once() {
        assert_eq!(retry(&failure(ErrorKind::Invalid, 9), "e"), Retry::At(Timestamp::MIN));
    }

    #[test]
    fn the_platform_may_ask_for_a_longer_pause() {
        let mut failure = failure(ErrorKind::Unavailable, 1);
        failure.error = Error::unavailable("busy").retry_after(Duration::from_secs(90));
        assert_eq!(retry(&failure, "d"), Retry::At(Timestamp::from_second(90).unwrap()));
    }
}
