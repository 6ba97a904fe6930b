//! Users and their tokens, kept as Secrets of type `sutler.dev/user` in `sutler-system`.
//!
//! Only the SHA-256 of a token is stored. Tokens are random, so a plain hash is as good as a slow
//! one, and looking one up costs one hash.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, SecondsFormat, Utc};
use rand::RngCore;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::impersonate::{self, Check};
use super::{ANONYMOUS, UNAUTHENTICATED, gofmt};

/// The type of a Secret that is a user.
pub const SECRET_TYPE: &str = "sutler.dev/user";
/// The only namespace in which such a Secret is a user.
pub const NAMESPACE: &str = "sutler-system";
/// The label of everything that belongs to a user; see [`label_value`].
pub const LABEL: &str = "sutler.dev/user";
/// More than anybody needs; keeps one Secret from filling the token index.
const MAX_TOKENS: usize = 1000;

/// SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// A bearer token in the clear, at the only moment it exists: when it is made.
pub struct Token(String);

impl Token {
    /// A new token of 256 random bits. The generator must be fit for secrets.
    pub fn generate(rng: &mut impl RngCore) -> Self {
        let mut bits = [0u8; 32];
        rng.fill_bytes(&mut bits);
        Self(format!("sutler_{}", URL_SAFE_NO_PAD.encode(bits)))
    }

    /// What is stored in its place.
    pub fn hash(&self) -> TokenHash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The token itself, to hand to its owner once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(redacted)")
    }
}

/// A user as the Secret holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// The name that bindings refer to.
    pub username: String,
    /// The Secret's UID; empty for a record that is not stored yet.
    pub uid: String,
    /// The groups, without `system:authenticated`, which everybody is in.
    pub groups: Vec<String>,
    /// The tokens by which the user is known.
    pub tokens: Vec<TokenRecord>,
}

/// One token of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Tells the user's tokens apart in lists and logs.
    pub id: String,
    /// The hash of the token.
    pub sha256: TokenHash,
    /// When it was made.
    pub created: DateTime<Utc>,
    /// From when on it is refused; never, when absent.
    pub expires: Option<DateTime<Utc>>,
}

impl TokenRecord {
    /// Makes a token, and what is stored in its place. The generator must be fit for secrets.
    pub fn issue(
        rng: &mut impl RngCore,
        now: DateTime<Utc>,
        expires: Option<DateTime<Utc>>,
    ) -> (Token, Self) {
        let token = Token::generate(rng);
        let mut id = [0u8; 4];
        rng.fill_bytes(&mut id);
        let record = Self { id: hex(&id), sha256: token.hash(), created: now, expires };
        (token, record)
    }

    /// Whether it is refused by now.
    pub fn has_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

impl std::fmt::Debug for TokenRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenRecord")
            .field("id", &self.id)
            .field("created", &self.created)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct WireToken {
    id: String,
    sha256: String,
    created: String,
    #[serde(default)]
    expires: Option<String>,
}

impl UserRecord {
    /// Reads a user Secret; the errors name the keys and never hold their values.
    pub fn from_secret(secret: &Value) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let mut text = |key: &str| match decode(secret, key) {
            Ok(text) => text,
            Err(error) => {
                errors.push(error);
                None
            }
        };
        let (username, groups, tokens) = (text("username"), text("groups"), text("tokens"));
        let username = username.unwrap_or_default();
        if let Some(error) = name_error(&username, ANONYMOUS) {
            errors.push(format!("data.username: {error}"));
        }
        let groups: Vec<String> = groups
            .iter()
            .flat_map(|groups| groups.lines())
            .map(str::trim)
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect();
        for group in &groups {
            if let Some(error) = name_error(group, UNAUTHENTICATED) {
                errors.push(format!("data.groups: {error}"));
            }
        }
        let tokens = parse_tokens(tokens.as_deref().unwrap_or("[]"), &mut errors);
        let uid = secret.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        match errors.is_empty() {
            true => Ok(Self { username, uid: uid.to_owned(), groups, tokens }),
            false => Err(errors),
        }
    }

    /// Writes the user into a Secret, new (`{}`) or read before; the rest of it stays.
    pub fn write_to(&self, secret: &mut Value) {
        let time = |time: &DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let tokens: Vec<Value> = self
            .tokens
            .iter()
            .map(|token| {
                let mut out = json!({
                    "id": token.id,
                    "sha256": hex(&token.sha256),
                    "created": time(&token.created),
                });
                if let Some(expires) = &token.expires {
                    out["expires"] = time(expires).into();
                }
                out
            })
            .collect();
        secret["apiVersion"] = "v1".into();
        secret["kind"] = "Secret".into();
        secret["type"] = SECRET_TYPE.into();
        secret["metadata"]["name"] = secret_name(&self.username).into();
        secret["metadata"]["namespace"] = NAMESPACE.into();
        secret["metadata"]["labels"][LABEL] = label_value(&self.username).into();
        secret["data"]["username"] = STANDARD.encode(&self.username).into();
        secret["data"]["groups"] = STANDARD.encode(self.groups.join("\n")).into();
        secret["data"]["tokens"] = STANDARD.encode(Value::Array(tokens).to_string()).into();
    }

    /// A new Secret that keeps this user.
    pub fn to_secret(&self) -> Value {
        let mut secret = json!({});
        self.write_to(&mut secret);
        secret
    }

    /// What a writer of this user must be allowed to do: impersonate the name and every group.
    /// Whoever can make a token for a user can act as that user.
    pub fn checks(&self) -> Vec<Check> {
        impersonate::user_checks(&self.username, &self.groups)
    }
}

/// Whether a Secret is a user: the type alone is not enough, it must be in the right namespace.
pub fn is_user_secret(secret: &Value) -> bool {
    secret.get("type").and_then(Value::as_str) == Some(SECRET_TYPE)
        && secret.pointer("/metadata/namespace").and_then(Value::as_str) == Some(NAMESPACE)
}

/// What is wrong with a user Secret, for admission; empty when nothing is, or it is no user.
pub fn validate_user_secret(secret: &Value) -> Vec<String> {
    match is_user_secret(secret) {
        true => UserRecord::from_secret(secret).err().unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The checks that a writer of this Secret must pass, all with verb `impersonate`; none when it
/// is no user. Call it after [`validate_user_secret`]: what cannot be read asks for nothing.
pub fn user_secret_checks(secret: &Value) -> Vec<Check> {
    match is_user_secret(secret) {
        true => UserRecord::from_secret(secret).map(|user| user.checks()).unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The name of a user's Secret. User names may hold what object names may not, so where the name
/// has to change, a piece of its hash keeps two users apart.
pub fn secret_name(username: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let plain: String = username.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    if plain == username && plain.len() <= 200 && !plain.is_empty() {
        return format!("user-{plain}");
    }
    let hash = hex(&Sha256::digest(username));
    let short: String = plain.chars().take(200).collect();
    match short.trim_end_matches('-') {
        "" => format!("user.{}", &hash[..10]),
        short => format!("user-{short}.{}", &hash[..10]),
    }
}

/// The value of the label that marks what belongs to a user: the name, where labels allow it.
pub fn label_value(username: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let ends = edge(username.chars().next()) && edge(username.chars().last());
    if username.len() <= 63 && ends && username.chars().all(fits) {
        return username.to_owned();
    }
    hex(&Sha256::digest(username))[..40].to_owned()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<TokenHash> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut out = TokenHash::default();
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(out)
}

fn decode(secret: &Value, key: &str) -> Result<Option<String>, String> {
    let Some(value) = secret.get("data").and_then(|data| data.get(key)) else {
        return Ok(None);
    };
    let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| format!("data.{key}: must be UTF-8 text in base64"))
}

fn name_error(name: &str, reserved: &str) -> Option<String> {
    if name.is_empty() {
        Some("must be set".to_owned())
    } else if name == reserved {
        Some(format!("must not be {}", gofmt::quote(reserved)))
    } else if name.len() > 253 {
        Some("must be no more than 253 bytes".to_owned())
    } else if name.chars().any(char::is_control) || name.trim() != name {
        Some("must not hold control characters or start or end with a blank".to_owned())
    } else {
        None
    }
}

fn parse_tokens(text: &str, errors: &mut Vec<String>) -> Vec<TokenRecord> {
    // Errors of the JSON parser can quote the input, so only their place is passed on.
    let wire: Vec<WireToken> = match serde_json::from_str(text) {
        Ok(wire) => wire,
        Err(error) => {
            errors.push(format!(
                "data.tokens: must be a JSON list of {{id, sha256, created, expires}} \
                 (line {}, column {})",
                error.line(),
                error.column()
            ));
            return Vec::new();
        }
    };
    if wire.len() > MAX_TOKENS {
        errors.push(format!("data.tokens: must have at most {MAX_TOKENS} items"));
        return Vec::new();
    }
    let mut ids = BTreeSet::new();
    let mut tokens = Vec::with_capacity(wire.len());
    for (i, token) in wire.into_iter().enumerate() {
        let mut problem =
            |field: &str, what: &str| errors.push(format!("data.tokens[{i}].{field}: {what}"));
        let time = |text: &str| {
            DateTime::parse_from_rfc3339(text).ok().map(|time| time.with_timezone(&Utc))
        };
        if name_error(&token.id, "").is_some() {
            problem("id", "must be set, to at most 253 bytes without control characters");
        } else if !ids.insert(token.id.clone()) {
            problem("id", "is used twice");
        }
        let sha256 = unhex(&token.sha256);
        if sha256.is_none() {
            problem("sha256", "must be 64 hexadecimal digits");
        }
        let created = time(&token.created);
        if created.is_none() {
            problem("created", "must be an RFC 3339 time");
        }
        let expires = token.expires.as_deref().map(time);
        if expires == Some(None) {
            problem("expires", "must be an RFC 3339 time");
        }
        if let (Some(sha256), Some(created)) = (sha256, created) {
            tokens.push(TokenRecord { id: token.id, sha256, created, expires: expires.flatten() });
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn record() -> UserRecord {
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        UserRecord {
            username: "jane@example.org".into(),
            uid: String::new(),
            groups: vec!["devs".into(), "ops".into()],
            tokens: vec![TokenRecord {
                id: "laptop".into(),
                sha256: Token::generate(&mut rng).hash(),
                created: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
                expires: DateTime::from_timestamp(1_800_000_000, 0),
            }],
        }
    }

    #[test]
    fn a_record_survives_its_secret() {
        let secret = record().to_secret();
        assert!(is_user_secret(&secret));
        assert_eq!(validate_user_secret(&secret), Vec::<String>::new());
        assert_eq!(UserRecord::from_secret(&secret).unwrap(), record());
    }

    #[test]
    fn what_else_a_secret_holds_stays() {
        let mut secret = json!({"metadata": {"resourceVersion": "7", "labels": {"x": "y"}}});
        record().write_to(&mut secret);
        assert_eq!(secret["metadata"]["resourceVersion"], "7");
        assert_eq!(secret["metadata"]["labels"]["x"], "y");
        assert_eq!(secret["metadata"]["labels"][LABEL], label_value("jane@example.org"));
    }

    #[test]
    fn labels_hold_the_name_or_its_hash() {
        assert_eq!(label_value("Jane.D"), "Jane.D");
        for name in ["jane@x", "-jane", "jane-", &"x".repeat(64), "日本"] {
            let value = label_value(name);
            assert!(value.len() == 40 && value.bytes().all(|b| b.is_ascii_hexdigit()), "{value}");
        }
    }

    #[test]
    fn tokens_are_issued_with_an_end() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let (token, record) = TokenRecord::issue(&mut rng, now, None);
        assert_eq!((record.sha256, record.created), (token.hash(), now));
        assert!(!record.has_expired(now));
        let (_, other) = TokenRecord::issue(&mut rng, now, Some(now));
        assert!(other.has_expired(now) && other.id != record.id);
    }

    #[test]
    fn malformed_secrets_name_every_key_and_no_value() {
        let data = |username: &str, groups: &str, tokens: &str| {
            json!({
                "type": SECRET_TYPE,
                "metadata": {"name": "x", "namespace": NAMESPACE},
                "data": {
                    "username": STANDARD.encode(username),
                    "groups": STANDARD.encode(groups),
                    "tokens": STANDARD.encode(tokens),
                },
            })
        };
        let hash = "ab".repeat(32);
        let token = |id: &str, hash: &str, created: &str| {
            format!(r#"{{"id":"{id}","sha256":"{hash}","created":"{created}"}}"#)
        };
        let good = token("a", &hash, "2026-01-01T00:00:00Z");
        for (secret, want) in [
            (data("", "", "[]"), "data.username: must be set"),
            (data("system:anonymous", "", "[]"), "data.username: must not be \"system:anonymous\""),
            (data("a\tb", "", "[]"), "data.username: must not hold control"),
            (data("a", "system:unauthenticated", "[]"), "data.groups: must not be"),
            (data("a", "", "{}"), "data.tokens: must be a JSON list"),
            (data("a", "", "[1]"), "data.tokens: must be a JSON list"),
            (data("a", "", &format!("[{good},{good}]")), "data.tokens[1].id: is used twice"),
            (data("a", "", &format!("[{}]", token("", &hash, "2026-01-01T00:00:00Z"))), "].id:"),
            (data("a", "", &format!("[{}]", token("a", "zz", "2026-01-01T00:00:00Z"))), "sha256:"),
            (data("a", "", &format!("[{}]", token("a", &hash, "monday"))), "].created:"),
            (
                json!({"type": SECRET_TYPE, "metadata": {"namespace": NAMESPACE},
                    "data": {"username": "%"}}),
                "data.username: must be UTF-8 text in base64",
            ),
        ] {
            let errors = validate_user_secret(&secret);
            assert!(errors.iter().any(|e| e.contains(want)), "{want}: {errors:?}");
            assert!(!errors.join(" ").contains(&hash));
        }
        // A Secret elsewhere, or of another type, is nobody's business.
        let mut elsewhere = data("", "", "");
        elsewhere["metadata"]["namespace"] = "default".into();
        assert_eq!(validate_user_secret(&elsewhere), Vec::<String>::new());
        assert!(user_secret_checks(&elsewhere).is_empty());
    }

    #[test]
    fn writing_a_user_asks_for_impersonation() {
        let checks = user_secret_checks(&record().to_secret());
        let asked: Vec<(&str, &str)> =
            checks.iter().map(|c| (c.resource, c.name.as_str())).collect();
        assert_eq!(asked, [("users", "jane@example.org"), ("groups", "devs"), ("groups", "ops")]);
    }

    #[test]
    fn secret_names_are_valid_and_distinct() {
        assert_eq!(secret_name("jane"), "user-jane");
        let names = ["jane", "Jane", "jane@", "jane-", "日本", "", &"x".repeat(300), "a.b", "a-b"];
        let made: BTreeSet<String> = names.iter().map(|name| secret_name(name)).collect();
        assert_eq!(made.len(), names.len());
        assert!(made.iter().all(|name| super::super::is_dns_subdomain(name)), "{made:?}");
    }

    #[test]
    fn tokens_do_not_show() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let token = Token::generate(&mut rng);
        assert!(!format!("{token:?}").contains(token.reveal()));
        assert!(token.reveal().len() > 45);
        assert_ne!(token.reveal(), Token::generate(&mut rng).reveal());
        let shown = format!("{:?}", record());
        assert!(!shown.contains(&hex(&record().tokens[0].sha256)) && !shown.contains("sha256"));
    }
}
