//! HTTP: what is sent, what comes back, and which of it is an error.

use std::{net::IpAddr, sync::Arc, time::Duration};

use futures::StreamExt as _;
use jiff::Timestamp;
use reqwest::{Method, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sutler_provider::{Clock, Credentials, Error, ErrorKind, Result, Secret};

use super::{
    auth::{ASSUMED, Auth, Grant, Issued},
    fault::{Effect, Ending, Fault},
    retry_after, wire,
};
use crate::settings::Dialect;

/// How long a call may take, from its first byte to the last of its answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long it may take until there is a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const LONGEST: usize = 10 << 20;
/// The most of a server's words that an error shows.
const WORDS: usize = 300;
/// Where VPSie is, where a Provider does not say it.
const VPSIE: &str = "https://api.vpsie.com";
const REQUEST_ID: &str = "x-request-id";

/// What it takes to reach an account.
pub struct Connection {
    /// Where the API is; VPSie's own address when empty.
    pub endpoint: String,
    /// `token`, or `clientId` and `clientSecret`; `ca.crt` for a server that another CA vouches for.
    pub credentials: Credentials,
    /// Whether the server's certificate is not verified.
    pub insecure_skip_verify: bool,
    /// How the API is spoken.
    pub dialect: Dialect,
    /// The project whose machines are listed.
    pub project: Option<String>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.endpoint)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
    effect: Effect,
}

impl Call {
    /// A look at something.
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, effect: Effect::Look }
    }

    /// A change.
    pub(super) fn post(path: impl Into<String>, body: Option<Value>) -> Self {
        Self { method: Method::POST, path: path.into(), body, effect: Effect::Change }
    }

    /// The end of something.
    pub(super) fn delete(path: impl Into<String>, body: Option<Value>) -> Self {
        Self { method: Method::DELETE, path: path.into(), body, effect: Effect::Change }
    }

    fn name(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{} {path}", self.method)
    }
}

/// The way to an account.
pub(super) struct Http {
    client: reqwest::Client,
    base: String,
    auth: Auth,
    dialect: Dialect,
    pub(super) project: Option<String>,
    /// The password that deleting a machine may ask for.
    pub(super) password: Option<Secret>,
    clock: Arc<dyn Clock>,
}

/// An answer, before anything is made of it.
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    pause: Option<Duration>,
    request_id: Option<String>,
}

/// What answers have in common.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Envelope {
    error: Value,
    #[serde(deserialize_with = "wire::text")]
    message: Option<String>,
    #[serde(deserialize_with = "wire::number")]
    code: Option<i64>,
}

impl Http {
    pub(super) fn new(connection: &Connection) -> Result<Self> {
        let auth = Auth::read(&connection.credentials)?;
        let (base, local) = base(connection)?;
        // Another one may be installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .user_agent(concat!("sutler/", env!("CARGO_PKG_VERSION")));
        if local {
            builder = builder.no_proxy();
        }
        if let Some(bundle) = connection.credentials.get("ca.crt") {
            let wrong = |error: reqwest::Error| {
                let why = format!("its key ca.crt holds no certificates in PEM: {error}");
                Error::invalid("spec.credentialSecretRef", why)
            };
            let certificates =
                reqwest::Certificate::from_pem_bundle(bundle.expose()).map_err(wrong)?;
            if certificates.is_empty() {
                let why = "its key ca.crt holds no certificates in PEM";
                return Err(Error::invalid("spec.credentialSecretRef", why));
            }
            builder = builder.tls_certs_only(certificates);
        }
        if connection.insecure_skip_verify {
            tracing::warn!("the certificate of VPSie's API is not verified");
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let client =
            builder.build().map_err(|error| Error::internal(format!("no HTTP client: {error}")))?;
        Ok(Self {
            client,
            base,
            auth,
            dialect: connection.dialect,
            project: connection.project.clone(),
            password: connection.credentials.get("password").cloned(),
            clock: connection.clock.clone(),
        })
    }

    /// Makes a call and reads its answer.
    pub(super) async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let (name, effect) = (call.name(), call.effect);
        let value = self.send(call).await?;
        serde_json::from_value(value).map_err(|error| {
            let message = format!("it is not as expected: {error}");
            self.fault(name, Ending::Unreadable, effect, message).into()
        })
    }

    /// Makes a call of whose answer only that it went well matters.
    pub(super) async fn run(&self, call: Call) -> Result<()> {
        self.send(call).await.map(drop)
    }

    /// Makes a call about something; false where VPSie says that it is not there.
    pub(super) async fn found(&self, call: Call) -> Result<bool> {
        match self.send(call).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a call and reads its answer; none where VPSie says that it is not there.
    pub(super) async fn look<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>> {
        match self.read(call).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, call: Call) -> Result<Value> {
        let grant = self.grant(None).await?;
        let answer = self.exchange(&call, Some(&grant.token)).await?;
        let name = call.name();
        let Auth::Login(_) = &self.auth else { return self.judge(&name, call.effect, answer) };
        let turned_away = answer.status == StatusCode::UNAUTHORIZED;
        let said_so_inside = answer.status.is_success() && call.effect == Effect::Look;
        match self.judge(&name, call.effect, answer) {
            // A status of 401 proves that nothing was done. In the body of an answer that otherwise says
            // that all is well it does not, and only a look is taken again.
            Err(error) if error.kind() == ErrorKind::Denied && (turned_away || said_so_inside) => {
                let fresh = self.grant(Some(grant.number)).await?;
                let answer = self.exchange(&call, Some(&fresh.token)).await?;
                self.judge(&name, call.effect, answer)
            }
            other => other,
        }
    }

    /// A token to call with. One that was turned away is replaced where we can log in.
    async fn grant(&self, stale: Option<u64>) -> Result<Grant> {
        match &self.auth {
            Auth::Static(token) => Ok(Grant { token: token.clone(), number: 0 }),
            Auth::Login(login) => {
                let log_in = || self.log_in(&login.client_id, &login.client_secret);
                login.grant(stale, || self.clock.now(), log_in).await
            }
        }
    }

    async fn log_in(&self, id: &Secret, secret: &Secret) -> Result<Issued> {
        let text = |secret: &Secret| secret.expose_str().unwrap_or_default().to_owned();
        let path = match self.dialect {
            Dialect::Govpsie => "/apps/v2/auth/from/api",
            Dialect::V2 => "/auth/from/api",
        };
        let body = json!({"clientId": text(id), "clientSecret": text(secret)});
        // Logging in twice does no harm.
        let call = Call {
            method: Method::POST,
            path: path.to_owned(),
            body: Some(body),
            effect: Effect::Look,
        };
        let name = call.name();
        let answer = self.exchange(&call, None).await?;
        let value =
            self.judge(&name, Effect::Look, answer).map_err(|error| match error.kind() {
                ErrorKind::Invalid | ErrorKind::Failed | ErrorKind::NotFound => {
                    let why = format!("VPSie does not take clientId and clientSecret: {error}");
                    Error::new(ErrorKind::Denied, why)
                }
                _ => error,
            })?;
        let access = match self.dialect {
            Dialect::Govpsie => value.pointer("/token/access"),
            Dialect::V2 => value.get("accessToken"),
        };
        let field = |key: &str| access.and_then(|access| access.get(key)).and_then(Value::as_str);
        let Some(token) = field("token").filter(|token| !token.is_empty()) else {
            let why = "it holds no access token".to_owned();
            return Err(self.fault(name, Ending::Unreadable, Effect::Look, why).into());
        };
        let expires = field("expires").and_then(wire::read_time);
        let expires = expires.unwrap_or_else(|| self.now_and(ASSUMED));
        Ok(Issued { token: Secret::from(token.as_bytes().to_vec()), expires })
    }

    fn now_and(&self, later: Duration) -> Timestamp {
        self.clock.now().saturating_add(later).unwrap_or(Timestamp::MAX)
    }

    /// Sends a call once, and reads what comes back.
    async fn exchange(&self, call: &Call, token: Option<&Secret>) -> Result<Answer> {
        let url = format!("{}{}", self.base, call.path);
        let mut request = self.client.request(call.method.clone(), &url);
        request = request.header(header::ACCEPT, "application/json");
        if let Some(token) = token.and_then(Secret::expose_str) {
            request = match self.dialect {
                Dialect::Govpsie => request.header("Vpsie-Auth", token),
                Dialect::V2 => request.bearer_auth(token),
            };
        }
        if let Some(body) = &call.body {
            // Only logging in, which goes without a token, is a form, and only in one dialect.
            let (kind, bytes) = match (token, self.dialect) {
                (None, Dialect::V2) => ("application/x-www-form-urlencoded", form(body)),
                _ => ("application/json", body.to_string()),
            };
            request = request.header(header::CONTENT_TYPE, kind).body(bytes);
        }
        let ended = |ending, message| self.fault(call.name(), ending, call.effect, message).into();
        let broken = |error: reqwest::Error| {
            let ending = match error.is_connect() || error.is_builder() {
                true => Ending::NotSent,
                false => Ending::NoAnswer,
            };
            ended(ending, causes(&error.without_url()))
        };
        let whole = async {
            let response = request.send().await.map_err(broken)?;
            let text =
                |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let pause =
                text("retry-after").and_then(|text| retry_after::read(text, self.clock.now()));
            let request_id = text(REQUEST_ID).map(|id| id.chars().take(128).collect());
            let status = response.status();
            let mut body = Vec::new();
            let mut pieces = response.bytes_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(broken)?;
                if body.len() + piece.len() > LONGEST {
                    let why = format!("it is longer than {LONGEST} bytes");
                    return Err(ended(Ending::Unreadable, why));
                }
                body.extend_from_slice(&piece);
            }
            Ok(Answer { status, body, pause, request_id })
        };
        match tokio::time::timeout(DEADLINE, whole).await {
            Ok(answer) => answer,
            Err(_) => Err(ended(Ending::NoAnswer, format!("not within {DEADLINE:?}"))),
        }
    }

    /// Whether an answer is one.
    fn judge(&self, call: &str, effect: Effect, answer: Answer) -> Result<Value> {
        let Answer { status, body, pause, request_id } = answer;
        let said = Said { call, effect, pause, request_id };
        let blank = body.iter().all(u8::is_ascii_whitespace);
        let value: Option<Value> = match blank {
            true => Some(Value::Null),
            false => serde_json::from_slice(&body).ok(),
        };
        let envelope: Envelope = value
            .as_ref()
            .filter(|value| value.is_object())
            .and_then(|value| Deserialize::deserialize(value).ok())
            .unwrap_or_default();
        let message = envelope.message.clone().or_else(|| match &envelope.error {
            Value::String(text) => Some(text.clone()),
            _ => None,
        });
        if !status.is_success() {
            let raw = || String::from_utf8_lossy(&body).into_owned();
            let message = message.unwrap_or_else(raw);
            let ending = match (status, &value) {
                (StatusCode::NOT_FOUND, None) => Ending::Elsewhere,
                (status, _) => Ending::Status(status.as_u16()),
            };
            return Err(self.told(said, ending, message));
        }
        let Some(value) = value else {
            return Err(self.told(said, Ending::Unreadable, "it is no JSON".to_owned()));
        };
        // Some answers say in the body alone that something went wrong.
        let wrong = match &envelope.error {
            Value::Bool(wrong) => *wrong,
            Value::String(text) => !text.is_empty(),
            Value::Number(number) => number.as_i64() != Some(0),
            Value::Object(_) | Value::Array(_) => true,
            Value::Null => false,
        };
        if wrong {
            let code = envelope.code.and_then(|code| u16::try_from(code).ok());
            return Err(self.told(said, Ending::Envelope(code), message.unwrap_or_default()));
        }
        Ok(value)
    }

    fn fault(&self, call: String, ending: Ending, effect: Effect, message: String) -> Fault {
        let message = self.clean(&message);
        Fault { call, ending, effect, message, pause: None, request_id: None }
    }

    fn told(&self, said: Said<'_>, ending: Ending, message: String) -> Error {
        let Said { call, effect, pause, request_id } = said;
        let fault = self.fault(call.to_owned(), ending, effect, message);
        Fault { pause, request_id, ..fault }.into()
    }

    /// What a server says, on one line, not too long, and without our secrets.
    fn clean(&self, message: &str) -> String {
        let mut text: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let secrets = self.auth.secrets().into_iter().chain(&self.password);
        for secret in secrets.filter_map(Secret::expose_str).filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "[redacted]");
        }
        match text.char_indices().nth(WORDS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// What is known of a call whose answer is an error.
struct Said<'a> {
    call: &'a str,
    effect: Effect,
    pause: Option<Duration>,
    request_id: Option<String>,
}

/// Where the API begins, and whether that is on this host. Nothing goes over a network in the clear.
fn base(connection: &Connection) -> Result<(String, bool)> {
    let in_secret = connection.credentials.get("url").and_then(Secret::expose_str).map(str::trim);
    let given = match connection.endpoint.trim() {
        "" => in_secret.filter(|url| !url.is_empty()).unwrap_or(VPSIE),
        endpoint => endpoint,
    };
    let wrong = |why: String| Error::invalid("spec.endpoint", why);
    let url: reqwest::Url =
        given.parse().map_err(|error| wrong(format!("it is no address: {error}")))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(wrong("it holds more than an address: write https://HOST".to_owned()));
    }
    if url.scheme() != "https" && !(url.scheme() == "http" && local) {
        return Err(wrong(format!("{given:?}: only https is spoken, except on this host")));
    }
    let path = url.path().trim_end_matches('/');
    let origin = url.origin().ascii_serialization();
    match connection.dialect {
        Dialect::Govpsie if ["", "/apps/v2", "/api/v2"].contains(&path) => Ok((origin, local)),
        Dialect::Govpsie => {
            Err(wrong(format!("{given:?} has a path, which the dialect govpsie does not take")))
        }
        Dialect::V2 if path.is_empty() => Ok((format!("{origin}/v2"), local)),
        Dialect::V2 => Ok((format!("{origin}{path}"), local)),
    }
}

fn form(body: &Value) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = body.as_object().into_iter().flatten();
    let pair = |(key, value): (&String, &Value)| {
        format!("{}={}", encode(key), encode(value.as_str().unwrap_or_default()))
    };
    pairs.map(pair).collect::<Vec<_>>().join("&")
}

/// An error with all its causes, of which the last one tells most.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use sutler_provider::SystemClock;

    use super::*;

    fn connection(endpoint: &str, dialect: Dialect) -> Connection {
        Connection {
            endpoint: endpoint.to_owned(),
            credentials: [("token", b"t".to_vec())].into_iter().collect(),
            insecure_skip_verify: false,
            dialect,
            project: None,
            clock: Arc::new(SystemClock),
        }
    }

    #[test]
    fn addresses_are_taken_or_refused() {
        use Dialect::{Govpsie, V2};
        let read = |endpoint: &str, dialect| base(&connection(endpoint, dialect));
        for (endpoint, dialect, want) in [
            ("", Govpsie, "https://api.vpsie.com"),
            ("", V2, "https://api.vpsie.com/v2"),
            ("https://api.vpsie.com/apps/v2", Govpsie, "https://api.vpsie.com"),
            ("https://api.vpsie.com/v2/", V2, "https://api.vpsie.com/v2"),
            ("http://127.0.0.1:8080", Govpsie, "http://127.0.0.1:8080"),
            ("http://[::1]:8080", V2, "http://[::1]:8080/v2"),
            ("http://localhost", V2, "http://localhost/v2"),
        ] {
            assert_eq!(read(endpoint, dialect).unwrap().0, want, "{endpoint}");
        }
        for endpoint in [
            "http://api.vpsie.com",
            "http://10.0.0.1",
            "http://localhost.example",
            "ftp://localhost",
            "https://me:secret@api.vpsie.com",
            "http://me:secret@api.vpsie.com",
            "https://api.vpsie.com?x=1",
            "vpsie",
        ] {
            let error = read(endpoint, Govpsie).unwrap_err();
            assert_eq!(error.field(), Some("spec.endpoint"), "{endpoint}");
            assert!(!error.message().contains("secret"), "{error}");
        }
        assert!(read("https://api.vpsie.com/v2", Govpsie).is_err());
    }

    #[test]
    fn a_secrets_url_counts_where_the_provider_names_none() {
        let mut given = connection("", Dialect::V2);
        given.credentials = [("url", b"https://other.example/v2\n".to_vec())].into_iter().collect();
        assert_eq!(base(&given).unwrap().0, "https://other.example/v2");
    }

    #[test]
    fn texts_hold_no_secrets_and_are_not_too_long() {
        let mut given = connection("", Dialect::V2);
        given.credentials = [("token", b"hunter2".to_vec())].into_iter().collect();
        let http = Http::new(&given).unwrap();
        assert_eq!(http.clean("no hunter2\n here"), "no [redacted] here");
        assert_eq!(http.clean(&"x".repeat(1000)).chars().count(), WORDS + 1);
        assert!(!format!("{given:?}").contains("hunter2"));
    }
}
