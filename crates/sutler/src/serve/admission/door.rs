//! Where a cluster's API server finds the webhook.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use http::Uri;
use sutler_admission::webhook::{PATH, Place};

/// A way in, and the name on its certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) place: Place,
    pub(super) host: String,
}

/// The way to what listens on `address`, at `url` where one was given.
pub(super) fn find(url: Option<&str>, address: SocketAddr) -> Result<Door> {
    let Some(text) = url else {
        if address.ip().is_unspecified() {
            bail!(
                "--admission {address} is every address of this machine: say with --admission-url at \
                 which one the API server reaches it"
            );
        }
        let place = Place::Url(format!("https://{address}{PATH}"));
        return Ok(Door { place, host: address.ip().to_string() });
    };
    let uri: Uri =
        text.parse().with_context(|| format!("--admission-url {text:?} is no address"))?;
    if uri.scheme_str() != Some("https") {
        bail!("--admission-url {text:?}: write it as https://HOST:PORT");
    }
    if !matches!(uri.path(), "" | "/" | PATH) {
        bail!("--admission-url {text:?}: leave the path out, it is {PATH}");
    }
    let Some(host) = uri.host() else { bail!("--admission-url {text:?} names no host") };
    let port = uri.port_u16().unwrap_or(443);
    // API servers often cannot look up names of Services, and are told of them otherwise.
    let place = match host.split('.').collect::<Vec<&str>>().as_slice() {
        [name, namespace, "svc"] => {
            Place::Service { namespace: (*namespace).to_owned(), name: (*name).to_owned(), port }
        }
        _ => Place::Url(format!("https://{host}:{port}{PATH}")),
    };
    Ok(Door { place, host: host.trim_matches(['[', ']']).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: Option<&str>, address: &str) -> Result<Door> {
        find(url, address.parse().unwrap())
    }

    #[test]
    fn addresses_and_services() {
        let url = |door: Door| match door.place {
            Place::Url(url) => (url, door.host),
            Place::Service { .. } => unreachable!("{door:?}"),
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let own = at(None, "10.0.0.5:9443").unwrap();
        assert_eq!(url(own), pair("https://10.0.0.5:9443/admission", "10.0.0.5"));
        let named = at(Some("https://sutler.example.org"), "0.0.0.0:9443").unwrap();
        assert_eq!(
            url(named),
            pair("https://sutler.example.org:443/admission", "sutler.example.org")
        );
        let six = at(Some("https://[fd00::5]:9443/admission"), "[::]:9443").unwrap();
        assert_eq!(url(six), pair("https://[fd00::5]:9443/admission", "fd00::5"));
        let service = at(Some("https://sutler.sutler-system.svc"), "0.0.0.0:9443").unwrap();
        let place = Place::Service {
            namespace: "sutler-system".to_owned(),
            name: "sutler".to_owned(),
            port: 443,
        };
        assert_eq!(service, Door { place, host: "sutler.sutler-system.svc".to_owned() });
    }

    #[test]
    fn what_leads_nowhere_says_so() {
        for (url, why) in [
            (None, "--admission-url"),
            (Some("http://x:1"), "https://HOST:PORT"),
            (Some("https://x:1/other"), "leave the path out"),
            (Some("::"), "is no address"),
        ] {
            let error = format!("{:#}", at(url, "0.0.0.0:9443").unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
