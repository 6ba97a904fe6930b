//! What ends a command, and with which exit code.

use std::{io, process::ExitCode};

use crate::{
    client::{discovery::UnknownKind, errors, jsonpath, kubeconfig, manifests, target},
    output::status,
};

/// Exit codes, as `--help` documents them.
pub(crate) mod code {
    /// Something was refused, not found, or failed.
    pub(crate) const FAILED: u8 = 1;
    /// The command line makes no sense.
    pub(crate) const USAGE: u8 = 2;
    /// The server cannot be reached, or does not know us.
    pub(crate) const UNREACHABLE: u8 = 3;
    /// What was waited for did not happen in time.
    pub(crate) const TIMEOUT: u8 = 4;
}

/// Why a command ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// No answer, or a refusal.
    #[error(transparent)]
    Api(#[from] errors::Error),
    /// There is no usable kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    /// The server has no such kind.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// A manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] manifests::Error),
    /// A file cannot be used.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Output cannot be written.
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    /// What was waited for did not happen in time.
    #[error("{0}")]
    Timeout(String),
    /// Something else that the message explains.
    #[error("{0}")]
    Failed(String),
    /// Everything has been reported already.
    #[error("failed")]
    Reported,
}

impl From<target::Error> for Error {
    fn from(error: target::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<jsonpath::Error> for Error {
    fn from(error: jsonpath::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl Error {
    /// The whole message, with what to do about it.
    pub(crate) fn render(&self) -> String {
        match self {
            Self::Api(error) => status::explain(error, None),
            other => other.to_string(),
        }
    }

    /// Whether nothing is left to say.
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self, Self::Reported)
    }

    /// Whether the reader of our output went away, as `head` does.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => code::USAGE,
            Self::Api(error) if error.is_connection() => code::UNREACHABLE,
            Self::Kubeconfig(_) => code::UNREACHABLE,
            Self::Timeout(_) => code::TIMEOUT,
            Self::Api(_)
            | Self::UnknownKind(_)
            | Self::Manifest(_)
            | Self::File { .. }
            | Self::Output(_)
            | Self::Failed(_)
            | Self::Reported => code::FAILED,
        })
    }
}
