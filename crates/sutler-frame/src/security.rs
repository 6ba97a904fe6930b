//! How the server is protected: by certificates, or not at all when somebody asked for that.

use std::time::Duration;

use sutler_rpc::{PemFiles, Security, ServerSecurity, Store, tls::Watch};

use crate::{args::ServeArgs, pod::is_true, run::FrameError};

/// How often the certificates' files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// VirtRigaud's word for serving without protection.
pub(crate) const INSECURE: &str = "VIRTRIGAUD_PROVIDER_INSECURE";

/// Protection, and what keeps it up to date.
pub(crate) struct Protection {
    pub(crate) server: ServerSecurity,
    pub(crate) security: Security,
    pub(crate) _watch: Option<Watch>,
}

/// Which files there are, if any; certificates go before a wish for plaintext that came by
/// environment.
pub(crate) fn protect(
    args: &ServeArgs,
    local: bool,
    asked: Option<&str>,
) -> Result<Protection, FrameError> {
    let named = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(cert), Some(key), Some(ca)) => {
            Some(PemFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone() })
        }
        _ => None,
    };
    let mounted = || {
        let files = PemFiles::in_folder(&args.tls_folder);
        files.cert.exists().then_some(files)
    };
    let files = match args.insecure {
        true => None,
        false => named.or_else(mounted),
    };
    if let Some(files) = files {
        let store = Store::open(&files)?;
        let watch = store.watch(files, LOOK);
        let allowed_names = args.allowed_names.clone();
        return Ok(Protection {
            server: ServerSecurity::Tls { store, allowed_names },
            security: Security::MutualTls,
            _watch: Some(watch),
        });
    }
    let security = match (local, args.insecure || asked.is_some_and(is_true)) {
        (true, _) => Security::Local,
        (false, true) => Security::Plaintext,
        (false, false) => return Err(FrameError::Unprotected { folder: args.tls_folder.clone() }),
    };
    Ok(Protection { server: ServerSecurity::Plaintext, security, _watch: None })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn decide(args: &[&str], local: bool, asked: Option<&str>) -> Option<Security> {
        let all = ["x", "--tls-folder", "/nowhere"].into_iter().chain(args.iter().copied());
        let args = Cli::parse_from(all).args;
        protect(&args, local, asked).ok().map(|protection| protection.security)
    }

    #[test]
    fn plaintext_is_served_only_where_it_was_asked_for() {
        assert_eq!(decide(&[], false, None), None);
        assert_eq!(decide(&[], false, Some("false")), None);
        assert_eq!(decide(&[], false, Some("true")), Some(Security::Plaintext));
        assert_eq!(decide(&["--insecure"], false, None), Some(Security::Plaintext));
        assert_eq!(decide(&[], true, None), Some(Security::Local));
        let files = ["--tls-cert", "/no", "--tls-key", "/no", "--tls-ca", "/no"];
        assert_eq!(decide(&files, false, Some("true")), None, "named files must be there");
    }
}
