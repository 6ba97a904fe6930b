//! Errors of libvirt in the words of the contract.

use sutler_provider::{Error, ErrorKind};
use virt::error::{Error as VirtError, ErrorDomain, ErrorNumber, ErrorNumber as N};

/// Why work on libvirt ended early.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether it speaks of something that is not there.
    missing: bool,
    /// Whether it speaks of the connection rather than of what was asked for.
    pub(crate) connection: bool,
}

/// What work on libvirt gives.
pub(crate) type Done<T = ()> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let missing = error.kind() == ErrorKind::NotFound;
        Self { error, missing, connection: false }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

impl From<VirtError> for Fault {
    fn from(error: VirtError) -> Self {
        let kind = kind_of(&error);
        let connection = is_about_connection(&error);
        let kind = if connection { ErrorKind::Unavailable } else { kind };
        let error = Error::new(kind, error.message().trim().to_owned());
        Self { error, missing: kind == ErrorKind::NotFound, connection }
    }
}

impl Fault {
    /// An error of the connection.
    pub(crate) fn of_connection(error: Error) -> Self {
        Self { error, missing: false, connection: true }
    }

    /// The same fault, said of a field.
    pub(crate) fn at(mut self, field: &str) -> Self {
        self.error = self.error.at(field);
        self
    }

    /// The same fault, of another kind: what is not there can be wrong input.
    pub(crate) fn into_invalid(self, field: &str, why: impl Into<String>) -> Self {
        match self.missing {
            true => Error::invalid(field, why.into()).into(),
            false => self,
        }
    }
}

/// What is not there is an answer.
pub(crate) fn if_there<T>(result: Result<T, VirtError>) -> Done<Option<T>> {
    match result.map_err(Fault::from) {
        Ok(found) => Ok(Some(found)),
        Err(fault) if fault.missing => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// What is gone already, or in the wanted state, is done.
pub(crate) fn unless<T: Default>(result: Result<T, VirtError>, fine: &[ErrorKind]) -> Done<T> {
    match result.map_err(Fault::from) {
        Err(fault) if fine.contains(&fault.error.kind()) => Ok(T::default()),
        result => result,
    }
}

/// What is wrong with the credentials, where libvirt says that something is: by text, for its codes do not
/// tell these apart from a host that is not there.
pub(crate) fn refusal(said: &str) -> Option<&'static str> {
    let known = REFUSALS.iter().find(|(words, _)| said.contains(words));
    known.map(|(_, why)| *why)
}

const REFUSALS: [(&str, &str); 6] = [
    ("HOST KEY VERIFICATION FAILED", "its host key is not the one in known_hosts of the Secret"),
    (
        "verify the session host key",
        "its host key is not known: known_hosts of the Secret has none for it",
    ),
    (
        "failed to authenticate",
        "authentication failed: it does not take ssh-privatekey of the Secret",
    ),
    (
        "Our own certificate",
        "tls.crt of the Secret is not signed by its ca.crt, or not for this use",
    ),
    (
        "verify peer's certificate",
        "its certificate is not signed by ca.crt of the Secret, or not for its name",
    ),
    ("read TLS confirmation", "it hung up on the certificate tls.crt of the Secret"),
];

fn is_about_connection(error: &VirtError) -> bool {
    let domain = |wanted| error.domain().is_known_and(|domain| domain == wanted);
    let code = |wanted| error.code().is_known_and(|code| code == wanted);
    code(ErrorNumber::NoConnect)
        || code(ErrorNumber::InvalidConn)
        || code(ErrorNumber::Rpc)
        || code(ErrorNumber::GnutlsError)
        || code(ErrorNumber::UnknownHost)
        || (domain(ErrorDomain::Rpc)
            && (code(ErrorNumber::SystemError) || code(ErrorNumber::InternalError)))
}

fn kind_of(error: &VirtError) -> ErrorKind {
    let text = error.message().to_lowercase();
    if text.contains("no space left") || text.contains("cannot allocate memory") {
        return ErrorKind::Exhausted;
    }
    // A define says so of a name or UUID that is taken, by a code that it has for much else.
    if text.contains("already exists") || text.contains("already defined") {
        return ErrorKind::Conflict;
    }
    let code = error.code();
    let known = KINDS.iter().find(|(codes, _)| code.is_known_and(|code| codes.contains(&code)));
    known.map_or(ErrorKind::Failed, |(_, kind)| *kind)
}

/// What libvirt's codes mean; with any other it tried and failed.
const KINDS: &[(&[ErrorNumber], ErrorKind)] = &[
    (
        &[
            N::NoDomain,
            N::NoNetwork,
            N::NoStoragePool,
            N::NoStorageVolume,
            N::NoDomainSnapshot,
            N::NoInterface,
            N::NoNwfilter,
            N::NoSecret,
            N::DeviceMissing,
        ],
        ErrorKind::NotFound,
    ),
    (
        &[N::AuthFailed, N::AuthCancelled, N::AuthUnavailable, N::AccessDenied, N::OperationDenied],
        ErrorKind::Denied,
    ),
    (
        &[N::NoSupport, N::ArgumentUnsupported, N::ConfigUnsupported, N::OperationUnsupported],
        ErrorKind::Unsupported,
    ),
    (&[N::OperationInvalid, N::DomExist, N::ResourceBusy, N::StorageVolExist], ErrorKind::Conflict),
    (
        &[
            N::InvalidArg,
            N::XmlError,
            N::XmlDetail,
            N::InvalidMac,
            N::ParseFailed,
            N::XmlInvalidSchema,
        ],
        ErrorKind::Invalid,
    ),
    (&[N::OperationTimeout, N::AgentUnresponsive, N::AgentUnsynced], ErrorKind::Unavailable),
    // The agent was there a moment before, and was asked.
    (&[N::AgentCommandTimeout], ErrorKind::Indeterminate),
    (&[N::NoMemory], ErrorKind::Exhausted),
];
