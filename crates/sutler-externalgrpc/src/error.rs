//! Why a call is answered with an error, and whether it is worth repeating.

use sutler_api::autoscaler::removal::UnreadableRemoving;
use tonic::{Code, Status};

/// Why a call is answered with an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The group is not there, or is not driven from here.
    #[error(
        "there is no node group {0:?} here: its ID is namespace/name of a NodeGroup of this cluster \
         that has the label autoscaler.vpsie.com/managed=true and is not being deleted"
    )]
    NoGroup(String),
    /// The request can never work.
    #[error("{0}")]
    Invalid(String),
    /// The request does not fit what is there now; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// Which nodes leave the group cannot be read.
    #[error(transparent)]
    Unreadable(#[from] UnreadableRemoving),
    /// It is not known, and the caller has to do without it.
    #[error("{0}")]
    Unsupported(String),
    /// Others changed the group each time it was about to be written; nothing was changed.
    #[error("node group {group} was changed by others {attempts} times in a row: try again")]
    Contended {
        /// The group.
        group: String,
        /// How often it was tried.
        attempts: usize,
    },
    /// The API did not answer a read, or refused it; nothing was changed.
    #[error("the Kubernetes API cannot be used to {doing}")]
    Api {
        /// What was about to be done.
        doing: &'static str,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A change was sent and its outcome is not known.
    #[error(
        "whether node group {group} was changed is not known: read its target size before anything \
         else is asked for"
    )]
    Indeterminate {
        /// The group.
        group: String,
    },
    /// What is known is older than what there is.
    #[error("the watch of {0} is not up to date yet: try again")]
    Behind(&'static str),
}

impl Error {
    /// Whether the same call may go better later.
    pub fn retry(&self) -> bool {
        match self {
            Self::Contended { .. } | Self::Behind(_) => true,
            Self::Api { source, .. } => !matches!(&**source, kube::Error::Api(status)
                if (400..500).contains(&status.code) && status.code != 429),
            Self::NoGroup(_)
            | Self::Invalid(_)
            | Self::Refused(_)
            | Self::Unreadable(_)
            | Self::Unsupported(_)
            | Self::Indeterminate { .. } => false,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::NoGroup(_) => Code::NotFound,
            Self::Invalid(_) => Code::InvalidArgument,
            Self::Refused(_) | Self::Unreadable(_) => Code::FailedPrecondition,
            Self::Unsupported(_) => Code::Unimplemented,
            Self::Contended { .. } => Code::Aborted,
            Self::Api { .. } if self.retry() => Code::Unavailable,
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                    Code::PermissionDenied
                }
                _ => Code::FailedPrecondition,
            },
            Self::Indeterminate { .. } => Code::Unknown,
            Self::Behind(_) => Code::Unavailable,
        }
    }

    pub(crate) fn api(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { doing, source: Box::new(source) }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = match &error {
            // The caller's log is where somebody looks for the cause.
            Error::Api { source, .. } => format!("{error}: {source}"),
            _ => error.to_string(),
        };
        Self::new(error.code(), text)
    }
}
