//! Errors on the wire: our kind travels in a detail of the status, and without it the code says what
//! it can.

use std::{error::Error as _, time::Duration};

use prost::Message as _;
use sutler_provider::{Error, ErrorKind};
use tonic::{Code, Status};

use crate::{client::Refused, pb::extended as pb};

const DETAIL_TYPE: &str = "type.googleapis.com/sutler.provider.v1.ErrorDetail";

/// `google.rpc.Status`, which `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// An error as the status that carries it. `making` says that something new was asked for, where a
/// conflict means that it exists.
pub fn status_of(error: &Error, making: bool) -> Status {
    let code = match error.kind() {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Conflict if making => Code::AlreadyExists,
        ErrorKind::Conflict => Code::FailedPrecondition,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Indeterminate => Code::DeadlineExceeded,
        ErrorKind::Failed | ErrorKind::Internal => Code::Internal,
    };
    let message = match error.field() {
        Some(field) => format!("{field}: {}", error.message()),
        None => error.message().to_owned(),
    };
    let any = prost_types::Any {
        type_url: DETAIL_TYPE.to_owned(),
        value: detail_of(error).encode_to_vec(),
    };
    let details = RpcStatus { code: code.into(), message: message.clone(), details: vec![any] };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// The error that a status stands for. On a call that may have changed something, silence and vague
/// codes leave the outcome open, unless our detail says otherwise or nothing was sent.
pub fn error_of(status: &Status, mutating: bool) -> Error {
    if let Some(refused) = find_refused(status) {
        return refused.to_error();
    }
    if let Some(detail) = detail_in(status) {
        let message = match detail.field.as_str() {
            "" => status.message(),
            field => {
                status.message().strip_prefix(&format!("{field}: ")).unwrap_or(status.message())
            }
        };
        if let Some(error) = error_from(message, &detail) {
            return error;
        }
    }
    let kind = match status.code() {
        // The line broke, and the code is only a guess at what that looks like: it says nothing of
        // the provider, nor of what became of the request.
        _ if status.source().is_some() && mutating => ErrorKind::Indeterminate,
        _ if status.source().is_some() => ErrorKind::Unavailable,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::Invalid,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => ErrorKind::Conflict,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::ResourceExhausted => ErrorKind::Exhausted,
        Code::Ok
        | Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Unknown
        | Code::Internal
        | Code::Cancelled
        | Code::DataLoss
            if mutating =>
        {
            ErrorKind::Indeterminate
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Unavailable,
        // Servers written for VirtRigaud answer most failures so: it says nothing of their health.
        Code::Unknown => ErrorKind::Failed,
        Code::Ok | Code::Internal | Code::DataLoss => ErrorKind::Internal,
    };
    let message = match status.message() {
        "" => format!("the provider answered {:?} and gave no reason", status.code()),
        message => message.to_owned(),
    };
    Error::new(kind, message)
}

/// Whether a call is not there, as opposed to being refused by the provider.
pub(crate) fn is_absent(status: &Status) -> bool {
    status.code() == Code::Unimplemented && detail_in(status).is_none()
}

/// An error as part of an answer.
pub(crate) fn failure_of(error: &Error) -> pb::Failure {
    pb::Failure { message: error.message().to_owned(), detail: Some(detail_of(error)) }
}

/// The error in an answer.
pub(crate) fn error_in(failure: pb::Failure) -> Error {
    let pb::Failure { message, detail } = failure;
    let known = detail.and_then(|detail| error_from(&message, &detail));
    known.unwrap_or_else(|| Error::new(ErrorKind::Failed, message))
}

fn detail_of(error: &Error) -> pb::ErrorDetail {
    pb::ErrorDetail {
        kind: kind_to_wire(error.kind()).into(),
        field: error.field().unwrap_or_default().to_owned(),
        retry_after_ms: error.pause().map_or(0, millis),
    }
}

fn error_from(message: &str, detail: &pb::ErrorDetail) -> Option<Error> {
    let kind = kind_from_wire(detail.kind())?;
    let error = match detail.field.as_str() {
        "" => Error::new(kind, message),
        field => Error::new(kind, message).at(field),
    };
    Some(match detail.retry_after_ms {
        0 => error,
        pause => error.retry_after(Duration::from_millis(pause)),
    })
}

fn detail_in(status: &Status) -> Option<pb::ErrorDetail> {
    if status.details().is_empty() {
        return None;
    }
    let details = RpcStatus::decode(status.details()).ok()?.details;
    let ours = details.into_iter().find(|any| any.type_url == DETAIL_TYPE)?;
    pb::ErrorDetail::decode(ours.value.as_slice()).ok()
}

/// What our connector said when no connection came about, however deep it is wrapped.
fn find_refused(status: &Status) -> Option<&Refused> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused);
        }
        source = error.source();
    }
    None
}

fn kind_to_wire(kind: ErrorKind) -> pb::ErrorKind {
    match kind {
        ErrorKind::Invalid => pb::ErrorKind::Invalid,
        ErrorKind::Denied => pb::ErrorKind::Denied,
        ErrorKind::NotFound => pb::ErrorKind::NotFound,
        ErrorKind::Conflict => pb::ErrorKind::Conflict,
        ErrorKind::Unsupported => pb::ErrorKind::Unsupported,
        ErrorKind::Exhausted => pb::ErrorKind::Exhausted,
        ErrorKind::Unavailable => pb::ErrorKind::Unavailable,
        ErrorKind::Indeterminate => pb::ErrorKind::Indeterminate,
        ErrorKind::Failed => pb::ErrorKind::Failed,
        ErrorKind::Internal => pb::ErrorKind::Internal,
    }
}

fn kind_from_wire(kind: pb::ErrorKind) -> Option<ErrorKind> {
    Some(match kind {
        pb::ErrorKind::Unspecified => return None,
        pb::ErrorKind::Invalid => ErrorKind::Invalid,
        pb::ErrorKind::Denied => ErrorKind::Denied,
        pb::ErrorKind::NotFound => ErrorKind::NotFound,
        pb::ErrorKind::Conflict => ErrorKind::Conflict,
        pb::ErrorKind::Unsupported => ErrorKind::Unsupported,
        pb::ErrorKind::Exhausted => ErrorKind::Exhausted,
        pb::ErrorKind::Unavailable => ErrorKind::Unavailable,
        pb::ErrorKind::Indeterminate => ErrorKind::Indeterminate,
        pb::ErrorKind::Failed => ErrorKind::Failed,
        pb::ErrorKind::Internal => ErrorKind::Internal,
    })
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_as_it_was_sent() {
        for kind in ErrorKind::ALL {
            for mutating in [false, true] {
                let error = Error::new(kind, "no: really")
                    .at("spec.x")
                    .retry_after(Duration::from_millis(1500));
                let back = error_of(&status_of(&error, mutating), mutating);
                assert_eq!(back, error, "{kind}");
                assert_eq!(back.pause(), error.pause());
            }
        }
    }

    #[test]
    fn vague_codes_leave_the_outcome_of_a_change_open() {
        use ErrorKind::*;
        for (code, look, change) in [
            (Code::Unavailable, Unavailable, Indeterminate),
            (Code::DeadlineExceeded, Unavailable, Indeterminate),
            (Code::Unknown, Failed, Indeterminate),
            (Code::Internal, ErrorKind::Internal, Indeterminate),
            (Code::Cancelled, Unavailable, Indeterminate),
            (Code::InvalidArgument, Invalid, Invalid),
            (Code::NotFound, NotFound, NotFound),
            (Code::AlreadyExists, Conflict, Conflict),
            (Code::FailedPrecondition, Conflict, Conflict),
            (Code::Aborted, Conflict, Conflict),
            (Code::PermissionDenied, Denied, Denied),
            (Code::Unauthenticated, Denied, Denied),
            (Code::Unimplemented, Unsupported, Unsupported),
            (Code::ResourceExhausted, Exhausted, Exhausted),
        ] {
            let status = Status::new(code, "words");
            assert_eq!(error_of(&status, false).kind(), look, "{code:?}");
            assert_eq!(error_of(&status, true).kind(), change, "{code:?}");
        }
    }

    #[test]
    fn a_broken_line_is_out_of_reach_whatever_it_looks_like() {
        for code in [h2::Reason::INTERNAL_ERROR, h2::Reason::ENHANCE_YOUR_CALM] {
            let status = Status::from_error(Box::new(h2::Error::from(code)));
            assert_eq!(error_of(&status, false).kind(), ErrorKind::Unavailable, "{status:?}");
            assert_eq!(error_of(&status, true).kind(), ErrorKind::Indeterminate, "{status:?}");
        }
        let broken = std::io::Error::other("broken pipe");
        let status = Status::from_error(Box::new(broken));
        assert_eq!(error_of(&status, false).kind(), ErrorKind::Unavailable, "{status:?}");
    }

    #[test]
    fn details_of_others_are_passed_over() {
        let status = Status::with_details(Code::Unavailable, "x", b"garbage".as_slice().into());
        assert_eq!(error_of(&status, true).kind(), ErrorKind::Indeterminate);
        assert!(is_absent(&Status::unimplemented("")));
        assert!(!is_absent(&status_of(&Error::unsupported("no"), false)));
    }
}
