//! Why a handshake failed, in words that say what to do about it.

use std::{io, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Why our handshake as a client failed. `name` is the one that the server should have.
pub(crate) fn client_side(error: &io::Error, name: &str) -> String {
    match tls_error(error) {
        Some(TlsError::InvalidCertificate(why)) => {
            format!("the provider's certificate {}", certificate(why, Some(name)))
        }
        Some(TlsError::AlertReceived(alert)) => match alert {
            AlertDescription::CertificateRequired => {
                "the provider wants a client certificate, and we have none".to_owned()
            }
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "our certificate is signed by a CA that the provider does not trust".to_owned()
            }
            AlertDescription::CertificateExpired => {
                "our certificate has expired, says the provider".to_owned()
            }
            other => format!("the provider refused our certificate or settings: {other:?}"),
        },
        Some(other) => format!("the TLS handshake failed: {other}"),
        None => format!("the connection broke during the TLS handshake: {error}"),
    }
}

/// Why our handshake as a server failed.
pub(crate) fn server_side(error: &io::Error) -> String {
    match tls_error(error) {
        Some(TlsError::NoCertificatesPresented) => "the client showed no certificate".to_owned(),
        Some(TlsError::InvalidCertificate(why)) => {
            format!("the client's certificate {}", certificate(why, None))
        }
        Some(TlsError::AlertReceived(alert)) => {
            format!("the client refused our certificate or settings: {alert:?}")
        }
        Some(other) => format!("the TLS handshake failed: {other}"),
        None => format!("the connection broke during the TLS handshake: {error}"),
    }
}

fn certificate(why: &CertificateError, name: Option<&str>) -> String {
    match why {
        CertificateError::UnknownIssuer => {
            "is signed by a CA that is not trusted here (wrong CA)".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: is the clock right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("is for another name than {:?} (wrong name)", name.unwrap_or_default())
        }
        CertificateError::BadSignature => {
            "is signed by another CA of the same name as one that is trusted here (wrong CA)"
                .to_owned()
        }
        CertificateError::Revoked => "was revoked".to_owned(),
        other => format!("is refused: {other:?}"),
    }
}

/// The TLS error within an I/O error; it is not among the sources.
fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

/// Takes any server for what it says it is. Only where somebody asked for it.
#[derive(Debug)]
pub(super) struct AnyServer(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
