//! What goes wrong between us and a server, in words that name the cause and the fix.

use std::{error::Error as StdError, fmt, io, sync::Arc};

use kube::core::Status;

/// The server that a request went to, and where we know it from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) server: String,
    /// The kubeconfig (or other source) that named it.
    pub(crate) source: String,
    /// The context in that kubeconfig.
    pub(crate) context: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.context.as_str() {
            "" => write!(f, "{} ({})", self.server, self.source),
            context => write!(f, "{} (context {context} of {})", self.server, self.source),
        }
    }
}

/// Why a request had no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server refused; what it says is rendered with its causes.
    #[error("{}", .status.message)]
    Status {
        /// The answer.
        status: Box<Status>,
        /// Who gave it.
        peer: Arc<Peer>,
    },
    /// There was no answer.
    #[error("cannot reach {peer}: {detail}")]
    Connection {
        /// Who was asked.
        peer: Arc<Peer>,
        /// What kind of failure it was.
        problem: Problem,
        /// The failure in the system's words.
        detail: String,
    },
    /// The answer makes no sense.
    #[error("{peer} gave an answer that is not understood: {detail}")]
    Answer {
        /// Who gave it.
        peer: Arc<Peer>,
        /// What is wrong with it.
        detail: String,
    },
}

/// The kinds of failed connections that people can do something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Nothing listens there.
    Refused,
    /// No answer in time.
    Timeout,
    /// The host name has no address.
    Resolve,
    /// The server's certificate is not trusted.
    Certificate,
    /// The credentials of the kubeconfig cannot be used.
    Credentials,
    /// The connection broke.
    Broken,
}

impl Problem {
    /// What to check.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Refused => {
                "nothing listens there: start the server with `sutler serve`, or pick another context (`sutler config get-contexts`)"
            }
            Self::Timeout => {
                "check the address, the network and firewalls; --request-timeout gives it longer"
            }
            Self::Resolve => "check the host name in the kubeconfig, or give --server",
            Self::Certificate => {
                "the server's certificate does not fit the kubeconfig: was the server set up anew? use the admin.kubeconfig of its data folder"
            }
            Self::Credentials => {
                "check the user entry of the kubeconfig (certificate, key, token, exec plugin)"
            }
            Self::Broken => "the connection broke: check that the server is still running",
        }
    }
}

impl Error {
    /// Sorts out what the HTTP client reports.
    pub(crate) fn from_kube(error: kube::Error, peer: &Arc<Peer>) -> Self {
        let problem = match &error {
            kube::Error::Api(status) => {
                return Self::Status { status: status.clone(), peer: peer.clone() };
            }
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                return Self::Answer { peer: peer.clone(), detail: chain(&error) };
            }
            kube::Error::Auth(_) => Problem::Credentials,
            other => classify(other),
        };
        Self::Connection { peer: peer.clone(), problem, detail: innermost(&error) }
    }

    /// No answer within the time that was given.
    pub(crate) fn timeout(peer: &Arc<Peer>, seconds: u64) -> Self {
        Self::Connection {
            peer: peer.clone(),
            problem: Problem::Timeout,
            detail: format!("no answer within {seconds} s"),
        }
    }

    /// The refusal, where it is one.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            Self::Connection { .. } | Self::Answer { .. } => None,
        }
    }

    /// Whether the object that was asked for does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(|s| s.code == 404)
    }

    /// Whether somebody else wrote first.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409)
    }

    /// Whether the server does not know who we are, or cannot be asked at all.
    pub(crate) fn is_connection(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Status { status, .. } => status.code == 401,
            Self::Answer { .. } => false,
        }
    }
}

fn classify(error: &(dyn StdError + 'static)) -> Problem {
    let mut next = Some(error);
    let mut problem = Problem::Broken;
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Problem::Refused,
                io::ErrorKind::TimedOut => return Problem::Timeout,
                _ if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                    return Problem::Certificate;
                }
                _ => {}
            }
        }
        // Some layers hand their cause on as text only.
        let text = error.to_string();
        if error.is::<rustls::Error>() || text.contains("invalid peer certificate") {
            return Problem::Certificate;
        }
        if text.contains("dns error") {
            problem = Problem::Resolve;
        }
        next = error.source();
    }
    problem
}

/// The text of the last error in the chain: the system's own words, without our wrappers.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// All texts of a chain that say something new.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Arc<Peer> {
        Arc::new(Peer {
            server: "https://127.0.0.1:7443".into(),
            source: "k.yaml".into(),
            context: "c".into(),
        })
    }

    #[test]
    fn a_refused_connection_names_the_address_and_the_fix() {
        let io = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = Error::from_kube(kube::Error::Service(Box::new(io)), &peer());
        let Error::Connection { problem, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*problem, Problem::Refused);
        assert!(error.to_string().contains("https://127.0.0.1:7443 (context c of k.yaml)"));
        assert!(problem.hint().contains("sutler serve"));
    }

    #[test]
    fn a_bad_certificate_is_told_from_a_broken_line() {
        let io = io::Error::other(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer,
        ));
        let error = Error::from_kube(kube::Error::Service(Box::new(io)), &peer());
        assert!(matches!(error, Error::Connection { problem: Problem::Certificate, .. }));
        let io = io::Error::from(io::ErrorKind::ConnectionReset);
        let error = Error::from_kube(kube::Error::Service(Box::new(io)), &peer());
        assert!(matches!(error, Error::Connection { problem: Problem::Broken, .. }));
    }
}
