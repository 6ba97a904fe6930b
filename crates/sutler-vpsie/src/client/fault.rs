//! What every end of a call means, as one table.
//!
//! The question that matters is whether a change may have been made. Only what proves that it was not is
//! told as such; all else leaves it open, and somebody has to look.

use std::time::Duration;

use sutler_provider::{Error, ErrorKind};

/// Whether a call only looks, or may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Look,
    /// It may change something.
    Change,
}

/// How a call ended that did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was never sent: no connection came about.
    NotSent,
    /// It was sent, or may have been, and no whole answer came: the line broke, or time was up.
    NoAnswer,
    /// The answer said that it went well, and cannot be read or is too long.
    Unreadable,
    /// A page that is not VPSie's says that there is nothing: another server answered, or a path is wrong.
    Elsewhere,
    /// The server answered with this status.
    Status(u16),
    /// The server answered that it went well, and in the body that it did not, with this code of its own.
    Envelope(Option<u16>),
}

/// Words in which VPSie says that capacity or quota is used up, in small letters.
const CAPACITY: [&str; 6] = [
    "exceeds the allowed limit",
    "quota exceeded",
    "plan does not allow",
    "maximum number of",
    "limit reached",
    "subscription does not allow",
];

/// Words in which VPSie says that a cluster has a group of this size already.
const SAME_SIZE: &str = "has same selected size";

/// What the end of a call means.
pub fn kind(ending: &Ending, effect: Effect, message: &str) -> ErrorKind {
    let open = match effect {
        Effect::Look => ErrorKind::Unavailable,
        Effect::Change => ErrorKind::Indeterminate,
    };
    match ending {
        Ending::NotSent => ErrorKind::Unavailable,
        Ending::NoAnswer | Ending::Elsewhere => open,
        Ending::Unreadable => match effect {
            Effect::Look => ErrorKind::Internal,
            Effect::Change => ErrorKind::Indeterminate,
        },
        Ending::Status(_) | Ending::Envelope(_) if says(message, &CAPACITY) => ErrorKind::Exhausted,
        Ending::Status(_) | Ending::Envelope(_) if says(message, &[SAME_SIZE]) => {
            ErrorKind::Conflict
        }
        Ending::Status(status) => of_status(*status, open),
        Ending::Envelope(Some(code @ 400..=599)) => of_status(*code, open),
        // It tried, and says no more than that it failed.
        Ending::Envelope(_) => ErrorKind::Failed,
    }
}

fn of_status(status: u16, open: ErrorKind) -> ErrorKind {
    match status {
        401 | 402 | 403 | 407 => ErrorKind::Denied,
        404 | 410 => ErrorKind::NotFound,
        405 | 501 => ErrorKind::Unsupported,
        409 | 412 | 423 => ErrorKind::Conflict,
        // It was turned away before anything was done.
        429 => ErrorKind::Unavailable,
        // Somebody in between gave up; the server may not have.
        408 | 499 => open,
        400..=499 => ErrorKind::Invalid,
        500..=599 => open,
        // Neither an answer nor an error: another kind of server is there.
        _ => ErrorKind::Internal,
    }
}

fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}

/// A call that did not end well, with all that was said about it.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What was asked, such as `POST /api/v2/vm`.
    pub call: String,
    /// How it ended.
    pub ending: Ending,
    /// Whether it may have changed something.
    pub effect: Effect,
    /// What the server or the connection said; holds no secret.
    pub message: String,
    /// How long the server wants to be left alone.
    pub pause: Option<Duration>,
    /// The server's own ID of the request.
    pub request_id: Option<String>,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let kind = kind(&fault.ending, fault.effect, &fault.message);
        let what = match &fault.ending {
            Ending::NotSent => "VPSie was not reached".to_owned(),
            Ending::NoAnswer => "VPSie did not answer".to_owned(),
            Ending::Unreadable => "VPSie's answer cannot be read".to_owned(),
            Ending::Elsewhere => "what answers 404 is not VPSie: check spec.endpoint".to_owned(),
            Ending::Status(status) => format!("VPSie answers {status}"),
            Ending::Envelope(Some(code)) => format!("VPSie answers with an error, code {code}"),
            Ending::Envelope(None) => "VPSie answers with an error".to_owned(),
        };
        let mut text = format!("{}: {what}", fault.call);
        if !fault.message.is_empty() {
            text.push_str(&format!(": {}", fault.message));
        }
        if let Some(id) = &fault.request_id {
            text.push_str(&format!(" (request ID {id})"));
        }
        let error = Error::new(kind, text);
        match fault.pause {
            Some(pause) => error.retry_after(pause),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row: what happened, what it means for a look, and for a change.
    const TABLE: &[(Ending, ErrorKind, ErrorKind)] = {
        use Ending::{Elsewhere, Envelope, NoAnswer, NotSent, Status, Unreadable};
        use ErrorKind::*;
        &[
            (NotSent, Unavailable, Unavailable),
            (NoAnswer, Unavailable, Indeterminate),
            (Unreadable, Internal, Indeterminate),
            (Elsewhere, Unavailable, Indeterminate),
            (Status(301), Internal, Internal),
            (Status(400), Invalid, Invalid),
            (Status(401), Denied, Denied),
            (Status(402), Denied, Denied),
            (Status(403), Denied, Denied),
            (Status(404), NotFound, NotFound),
            (Status(405), Unsupported, Unsupported),
            (Status(408), Unavailable, Indeterminate),
            (Status(409), Conflict, Conflict),
            (Status(410), NotFound, NotFound),
            (Status(422), Invalid, Invalid),
            (Status(423), Conflict, Conflict),
            (Status(429), Unavailable, Unavailable),
            (Status(499), Unavailable, Indeterminate),
            (Status(500), Unavailable, Indeterminate),
            (Status(501), Unsupported, Unsupported),
            (Status(502), Unavailable, Indeterminate),
            (Status(503), Unavailable, Indeterminate),
            (Status(504), Unavailable, Indeterminate),
            (Envelope(None), Failed, Failed),
            (Envelope(Some(200)), Failed, Failed),
            (Envelope(Some(401)), Denied, Denied),
            (Envelope(Some(404)), NotFound, NotFound),
            (Envelope(Some(500)), Unavailable, Indeterminate),
        ]
    };

    #[test]
    fn every_ending_has_its_kind() {
        for (ending, look, change) in TABLE {
            assert_eq!(kind(ending, Effect::Look, "x"), *look, "{ending:?}, a look");
            assert_eq!(kind(ending, Effect::Change, "x"), *change, "{ending:?}, a change");
        }
    }

    #[test]
    fn no_status_of_a_change_is_taken_for_not_applied_without_proof() {
        for status in 100..=599 {
            let kind = kind(&Ending::Status(status), Effect::Change, "");
            let refused = (400..500).contains(&status) && ![408, 499].contains(&status);
            let unknown = matches!(kind, ErrorKind::Indeterminate | ErrorKind::Internal);
            assert!(refused || unknown || status == 501, "{status} is {kind}");
        }
    }

    #[test]
    fn capacity_is_known_by_its_words() {
        for words in CAPACITY {
            let said = format!("Sorry: {} for you", words.to_uppercase());
            for ending in [Ending::Status(400), Ending::Status(500), Ending::Envelope(None)] {
                assert_eq!(kind(&ending, Effect::Change, &said), ErrorKind::Exhausted, "{said}");
            }
        }
        // Of a line that broke nothing is known, whatever was said before.
        let said = "limit reached";
        assert_eq!(kind(&Ending::NoAnswer, Effect::Change, said), ErrorKind::Indeterminate);
        let said = "Group a has same selected Size";
        assert_eq!(kind(&Ending::Envelope(None), Effect::Change, said), ErrorKind::Conflict);
    }

    #[test]
    fn an_error_names_the_call_the_request_and_the_pause() {
        let error = Error::from(Fault {
            call: "GET /vm".to_owned(),
            ending: Ending::Status(429),
            effect: Effect::Look,
            message: "slow down".to_owned(),
            pause: Some(Duration::from_secs(7)),
            request_id: Some("r-1".to_owned()),
        });
        assert_eq!(error.pause(), Some(Duration::from_secs(7)));
        assert_eq!(error.message(), "GET /vm: VPSie answers 429: slow down (request ID r-1)");
    }
}
