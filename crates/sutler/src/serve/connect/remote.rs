//! Providers that run elsewhere and are dialled.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sutler_api::duration::Duration as DurationText;
use sutler_control::fleet::{Certificates, Dial, Key, Target};
use sutler_provider::{Credentials, Deadlines, Error, Provider, Result, UniqueBy};
use sutler_rpc::{Address, ClientSecurity, Pem, Remote, RemoteOptions, Store};

use crate::client::errors::chain;

/// Dials providers: one connection for each, which stays when only its certificates change.
#[derive(Default)]
pub(super) struct Remotes(Mutex<BTreeMap<Key, Known>>);

struct Known {
    like: Like,
    provider: Arc<dyn Provider>,
    store: Option<Store>,
}

/// What makes two connections the same: everything but the certificates.
#[derive(Debug, Clone, PartialEq)]
struct Like {
    address: Address,
    encrypted: Option<bool>,
    timeout: Option<Duration>,
    options: Map<String, Value>,
}

impl Remotes {
    /// The provider at the other end.
    pub(super) fn connect(&self, target: &Target, dial: &Dial) -> Result<Arc<dyn Provider>> {
        let address = dial
            .address
            .parse()
            .map_err(|error| Error::invalid("spec.runtime.endpoint", format!("{error}")))?;
        let like = Like {
            address,
            encrypted: dial.certificates.as_ref().map(|shown| shown.skip_verify),
            timeout: dial.timeout,
            options: target.options.clone(),
        };
        let wishes = Wishes::read(&target.options, dial.deployed)?;
        let pem = dial.certificates.as_ref().map(|shown| pem(&shown.pem));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&target.key).filter(|known| known.like == like) {
            if let Some((store, pem)) = known.store.as_ref().zip(pem)
                && store.replace(pem).map_err(unusable)?
            {
                tracing::info!(provider = %target.key, "the certificates were replaced");
            }
            return Ok(known.provider.clone());
        }
        let store = pem.map(Store::new).transpose().map_err(unusable)?;
        let security = match (&store, &dial.certificates) {
            (Some(store), Some(Certificates { skip_verify, .. })) => {
                ClientSecurity::Tls { store: store.clone(), skip_verify: *skip_verify }
            }
            _ => ClientSecurity::Plaintext,
        };
        let mut options = RemoteOptions::new(security);
        options.dial_timeout = dial.timeout.unwrap_or(options.dial_timeout);
        options.extensions = wishes.extensions.unwrap_or(true);
        // Of a provider that cannot say it, nothing is taken for granted.
        options.unique_by = wishes.unique_by.unwrap_or(UniqueBy::None);
        options.server_name = wishes.server_name;
        options.deadlines = wishes.deadlines;
        let remote = Remote::new(like.address.clone(), options)?;
        if let Some(warning) = remote.security().warning() {
            let security = remote.security();
            tracing::warn!(provider = %target.key, address = %like.address, %security, "{warning}");
        }
        let provider: Arc<dyn Provider> = Arc::new(remote);
        known.insert(target.key.clone(), Known { like, provider: provider.clone(), store });
        Ok(provider)
    }

    /// Forgets a Provider, so that its connection closes when the last call on it ends.
    pub(super) fn release(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn pem(secret: &Credentials) -> Pem {
    let of = |key| secret.get(key).map(|value| value.expose().to_vec()).unwrap_or_default();
    Pem { cert: of("tls.crt"), key: of("tls.key"), ca: of("ca.crt") }
}

fn unusable(error: sutler_rpc::tls::TlsError) -> Error {
    Error::invalid("spec.runtime.service.tls.secretRef", chain(&error))
}

/// The options that are for this end of the connection.
#[derive(Debug, Default, PartialEq)]
struct Wishes {
    /// Whether the Extensions are used where they are there.
    extensions: Option<bool>,
    /// What is unique on the platform of a provider without the Extensions.
    unique_by: Option<UniqueBy>,
    /// The name in the provider's certificate, where that is not the endpoint's host.
    server_name: Option<String>,
    /// How long calls may take where the provider, without the Extensions, cannot say it.
    deadlines: Deadlines,
}

const WISHES: [&str; 4] = ["extensions", "uniqueBy", "serverName", "deadlines"];

impl Wishes {
    /// A provider that was deployed finds all options in its environment, and checks its own there.
    fn read(options: &Map<String, Value>, deployed: bool) -> Result<Self> {
        let mut wishes = Self::default();
        for (key, value) in options {
            match key.as_str() {
                "extensions" => wishes.extensions = Some(one(key, value)?),
                "uniqueBy" => wishes.unique_by = Some(one(key, value)?),
                "serverName" => wishes.server_name = Some(one(key, value)?),
                "deadlines" => wishes.deadlines = deadlines(value)?,
                _ if deployed => {}
                other => {
                    return Err(Error::invalid(
                        field(other),
                        format!(
                            "a provider that runs already has its options from whoever started \
                             it; for this end there are {}",
                            WISHES.join(", ")
                        ),
                    ));
                }
            }
        }
        Ok(wishes)
    }
}

fn field(key: &str) -> String {
    format!("spec.options.{key}")
}

fn one<T: DeserializeOwned>(key: &str, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| Error::invalid(field(key), error.to_string()))
}

fn deadlines(value: &Value) -> Result<Deadlines> {
    let mut deadlines = Deadlines::default();
    let texts: BTreeMap<String, DurationText> = one("deadlines", value)?;
    for (key, text) in texts {
        let place = match key.as_str() {
            "look" => &mut deadlines.look,
            "list" => &mut deadlines.list,
            "make" => &mut deadlines.make,
            "change" => &mut deadlines.change,
            "transfer" => &mut deadlines.transfer,
            _ => {
                let known = "there are look, list, make, change and transfer";
                return Err(Error::invalid(field(&format!("deadlines.{key}")), known));
            }
        };
        let wrong = |why: String| Error::invalid(field(&format!("deadlines.{key}")), why);
        *place = text.to_std().map_err(|error| wrong(error.to_string()))?;
        if place.is_zero() {
            return Err(wrong("a call takes some time".to_owned()));
        }
    }
    Ok(deadlines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: Value, deployed: bool) -> Result<Wishes> {
        Wishes::read(options.as_object().unwrap(), deployed)
    }

    #[test]
    fn options_are_for_this_end_or_refused_by_name() {
        let wishes = read(
            json!({"uniqueBy": "Name", "extensions": false, "serverName": "lab.test",
                "deadlines": {"make": "3s"}}),
            false,
        )
        .unwrap();
        assert_eq!(wishes.unique_by, Some(UniqueBy::Name));
        assert_eq!(wishes.extensions, Some(false));
        assert_eq!(wishes.server_name.as_deref(), Some("lab.test"));
        assert_eq!(wishes.deadlines.make, Duration::from_secs(3));
        assert_eq!(wishes.deadlines.look, Deadlines::default().look);
        for (options, want) in [
            (json!({"seed": 7}), "spec.options.seed"),
            (json!({"uniqueBy": "Serial"}), "spec.options.uniqueBy"),
            (json!({"deadlines": {"make": "soon"}}), "spec.options.deadlines.make"),
        ] {
            let error = read(options, false).unwrap_err();
            assert_eq!(error.field(), Some(want), "{error}");
        }
        assert_eq!(read(json!({"seed": 7}), true).unwrap(), Wishes::default());
    }
}
