//! A user as the Secret that keeps it, and the tokens by which it is known.
//!
//! The server reads the same form: a Secret of type `sutler.dev/user` in `sutler-system` with the
//! keys `username`, `groups` (one a line) and `tokens` (a JSON list of id, SHA-256, time of
//! creation and of expiry). A token itself exists only when it is made.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use chrono::{DateTime, Utc};
use rand::RngCore;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock;

/// Where users are kept.
pub(crate) const NAMESPACE: &str = "sutler-system";
/// The type of their Secrets.
pub(crate) const SECRET_TYPE: &str = "sutler.dev/user";
/// The label of everything that belongs to a user.
pub(crate) const LABEL: &str = "sutler.dev/user";

/// A user with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// The name that bindings refer to.
    pub(crate) username: String,
    /// Its groups.
    pub(crate) groups: Vec<String>,
    /// What is known of its tokens.
    pub(crate) tokens: Vec<TokenRecord>,
}

/// What is stored of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    /// Tells a user's tokens apart.
    pub(crate) id: String,
    /// SHA-256 of the token, in hexadecimal digits.
    pub(crate) sha256: String,
    /// When it was made.
    pub(crate) created: String,
    /// From when on it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
}

/// A token in the clear, and what is stored in its place.
pub(crate) struct NewToken {
    /// To hand to its owner, once.
    pub(crate) secret: String,
    /// To store.
    pub(crate) record: TokenRecord,
}

/// Makes a token of 256 random bits. The generator must be fit for secrets.
pub(crate) fn new_token(
    rng: &mut impl RngCore,
    now: DateTime<Utc>,
    expires: Option<DateTime<Utc>>,
) -> NewToken {
    let mut bits = [0u8; 32];
    rng.fill_bytes(&mut bits);
    let secret = format!("sutler_{}", URL_SAFE_NO_PAD.encode(bits));
    let mut id = [0u8; 4];
    rng.fill_bytes(&mut id);
    let record = TokenRecord {
        id: hex(&id),
        sha256: hex(&Sha256::digest(secret.as_bytes())),
        created: clock::rfc3339(now),
        expires: expires.map(clock::rfc3339),
    };
    NewToken { secret, record }
}

impl TokenRecord {
    /// Whether it is refused by now.
    pub(crate) fn has_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires.as_deref().and_then(clock::parse).is_some_and(|at| at <= now)
    }
}

/// A Secret that should be a user and is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("Secret {NAMESPACE}/{secret} is no user: data.{key} {problem}")]
pub(crate) struct Malformed {
    secret: String,
    key: &'static str,
    problem: &'static str,
}

impl User {
    /// Reads a user's Secret.
    pub(crate) fn from_secret(secret: &Value) -> Result<Self, Malformed> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let malformed = |key, problem| Malformed { secret: name.to_owned(), key, problem };
        let text = |key: &'static str| match secret["data"].get(key) {
            None => Ok(String::new()),
            Some(value) => value
                .as_str()
                .and_then(|text| STANDARD.decode(text).ok())
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| malformed(key, "is no text in base64")),
        };
        let username = text("username")?;
        if username.is_empty() {
            return Err(malformed("username", "is missing"));
        }
        let tokens = match text("tokens")?.as_str() {
            "" => Vec::new(),
            tokens => serde_json::from_str(tokens)
                .map_err(|_| malformed("tokens", "is no list of tokens"))?,
        };
        let groups = text("groups")?
            .lines()
            .map(|g| g.trim().to_owned())
            .filter(|g| !g.is_empty())
            .collect();
        Ok(Self { username, groups, tokens })
    }

    /// Writes the user into a Secret, new or read before; the rest of it stays.
    pub(crate) fn write_to(&self, secret: &mut Value) {
        let tokens = json!(self.tokens).to_string();
        secret["apiVersion"] = "v1".into();
        secret["kind"] = "Secret".into();
        secret["type"] = SECRET_TYPE.into();
        secret["metadata"]["name"] = secret_name(&self.username).into();
        secret["metadata"]["namespace"] = NAMESPACE.into();
        secret["metadata"]["labels"][LABEL] = label_value(&self.username).into();
        secret["data"]["username"] = STANDARD.encode(&self.username).into();
        secret["data"]["groups"] = STANDARD.encode(self.groups.join("\n")).into();
        secret["data"]["tokens"] = STANDARD.encode(tokens).into();
    }
}

/// Why a name or group cannot be given to a user.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("must not be empty")
    } else if name.len() > 253 {
        Some("must have at most 253 bytes")
    } else if name.trim() != name || name.chars().any(char::is_control) {
        Some("must not hold control characters, or begin or end with a blank")
    } else if name.starts_with("system:") {
        Some("must not begin with system:, which is for the server itself; give rights with --role")
    } else {
        None
    }
}

/// The name of a user's Secret. Where a user's name cannot be an object's, a piece of its hash
/// keeps two users apart.
pub(crate) fn secret_name(username: &str) -> String {
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
pub(crate) fn label_value(username: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let ends = edge(username.chars().next()) && edge(username.chars().last());
    if username.len() <= 63 && ends && username.chars().all(fits) {
        return username.to_owned();
    }
    hex(&Sha256::digest(username))[..40].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    fn user() -> User {
        let now = clock::parse("2026-01-01T00:00:00Z").unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        User {
            username: "jane@example.org".into(),
            groups: vec!["devs".into(), "ops".into()],
            tokens: vec![new_token(&mut rng, now, Some(now)).record],
        }
    }

    #[test]
    fn a_user_survives_its_secret_and_other_keys_stay() {
        let mut secret = json!({"metadata": {"resourceVersion": "7", "labels": {"x": "y"}}});
        user().write_to(&mut secret);
        assert_eq!(User::from_secret(&secret).unwrap(), user());
        assert_eq!(secret["metadata"]["resourceVersion"], "7");
        assert_eq!(secret["metadata"]["labels"]["x"], "y");
        assert_eq!(secret["type"], SECRET_TYPE);
        assert_eq!(secret["metadata"]["namespace"], NAMESPACE);
    }

    #[test]
    fn tokens_are_random_long_and_stored_as_hashes() {
        let now = clock::parse("2026-01-01T00:00:00Z").unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let (a, b) = (new_token(&mut rng, now, None), new_token(&mut rng, now, None));
        assert_ne!(a.secret, b.secret);
        assert!(a.secret.starts_with("sutler_") && a.secret.len() == 7 + 43, "{}", a.secret);
        assert_eq!(a.record.sha256, hex(&Sha256::digest(a.secret.as_bytes())));
        assert!(!json!(a.record).to_string().contains(&a.secret[7..]));
        assert!(!a.record.has_expired(now));
        assert!(new_token(&mut rng, now, Some(now)).record.has_expired(now));
    }

    #[test]
    fn names_are_distinct_and_valid() {
        assert_eq!(secret_name("jane"), "user-jane");
        let names = ["jane", "Jane", "jane@", "jane-", "日本", "a.b", "a-b"];
        let mut secrets: Vec<String> = names.iter().map(|n| secret_name(n)).collect();
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), names.len());
        assert_eq!(label_value("Jane.D"), "Jane.D");
        assert_eq!(label_value("jane@x").len(), 40);
        assert!(name_problem("system:masters").is_some() && name_problem("jane@x").is_none());
    }

    #[test]
    fn broken_secrets_name_the_key_and_no_value() {
        let secret = json!({"metadata": {"name": "s"}, "data": {
            "username": STANDARD.encode("a"), "tokens": STANDARD.encode("{\"sha256\": \"abc\"}")}});
        let error = User::from_secret(&secret).unwrap_err().to_string();
        assert!(error.contains("data.tokens") && !error.contains("abc"), "{error}");
        let error = User::from_secret(&json!({"metadata": {"name": "s"}})).unwrap_err();
        assert!(error.to_string().contains("data.username is missing"));
    }
}
