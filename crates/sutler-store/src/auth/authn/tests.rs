use std::time::Duration;

use chrono::{DateTime, Utc};
use http::HeaderValue;
use rand::SeedableRng;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use super::*;
use crate::auth::AUTHENTICATED;
use crate::auth::users::{Token, TokenRecord};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn bearer(value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    headers
}

fn secret(username: &str, groups: &[&str], tokens: Vec<TokenRecord>) -> Value {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let record = UserRecord { username: username.into(), uid: String::new(), groups, tokens };
    let mut secret = record.to_secret();
    secret["metadata"]["uid"] = format!("uid-{username}").into();
    secret
}

fn token(token: &Token, expires: Option<i64>) -> TokenRecord {
    TokenRecord {
        id: "t".into(),
        sha256: token.hash(),
        created: time(0),
        expires: expires.map(time),
    }
}

fn tokens() -> (Token, Token) {
    let mut rng = rand::rngs::StdRng::seed_from_u64(3);
    (Token::generate(&mut rng), Token::generate(&mut rng))
}

#[test]
fn a_token_names_its_user_until_it_expires() {
    let (first, second) = tokens();
    let authenticator = Authenticator::new();
    let secrets = [
        secret("jane", &["devs"], vec![token(&first, Some(1000))]),
        secret("bob", &[], vec![token(&second, None)]),
    ];
    authenticator.reload(secrets.iter());
    let ask = |token: &str, now| authenticator.authenticate(&bearer(token), None, at(now));
    let header = format!("Bearer {}", first.reveal());
    let user = ask(&header, 999).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "uid-jane"));
    assert_eq!(user.groups, ["devs", AUTHENTICATED]);
    assert!(user.extra.is_empty());
    let expired = AuthnError::ExpiredToken { user: "jane".into(), id: "t".into() };
    assert_eq!(ask(&header, 1000), Err(expired));
    assert_eq!(ask(&format!("Bearer {}", second.reveal()), u32::MAX.into()).unwrap().name, "bob");

    authenticator.reload(secrets[1..].iter());
    assert_eq!(ask(&header, 999), Err(AuthnError::UnknownToken));
}

#[test]
fn only_user_secrets_count_and_bad_ones_stop_nobody() {
    let (first, second) = tokens();
    let mut elsewhere = secret("eve", &["system:masters"], vec![token(&first, None)]);
    elsewhere["metadata"]["namespace"] = "default".into();
    let mut opaque = secret("eve", &["system:masters"], vec![token(&first, None)]);
    opaque["type"] = "Opaque".into();
    let mut broken = secret("eve", &["system:masters"], vec![token(&first, None)]);
    broken["data"]["tokens"] = "!".into();
    let good = secret("bob", &[], vec![token(&second, None)]);
    let authenticator = Authenticator::new();
    authenticator.reload([elsewhere, opaque, broken, json!(null), good].iter());
    let ask = |token: &Token| {
        authenticator.authenticate(&bearer(&format!("Bearer {}", token.reveal())), None, at(0))
    };
    assert_eq!(ask(&first), Err(AuthnError::UnknownToken));
    assert_eq!(ask(&second).unwrap().name, "bob");
}

#[test]
fn headers_are_read_as_the_real_server_reads_them() {
    for (value, want) in [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("  BEARER abc  ", Some("abc")),
        ("Bearer abc def", Some("abc")),
        ("Bearer  abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("abc", None),
        ("", None),
    ] {
        let found = bearer(value);
        assert_eq!(bearer_token(&found), want.map(str::as_bytes), "{value:?}");
    }
    let authenticator = Authenticator::new();
    let nobody = authenticator.authenticate(&HeaderMap::new(), None, at(0));
    assert_eq!(nobody, Err(AuthnError::Missing));
}

fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.not_before = time::OffsetDateTime::from_unix_timestamp(1000).unwrap();
    params.not_after = time::OffsetDateTime::from_unix_timestamp(2000).unwrap();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind.clone(), *value);
    }
    // Something unknown in the certificate is no reason to refuse it.
    let extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    params.custom_extensions = vec![extension];
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

#[test]
fn a_certificate_names_user_and_groups() {
    let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let der = certificate(&[
        (DnType::CommonName, "jane"),
        (DnType::OrganizationName, "system:masters"),
        (uid, "u-1"),
    ]);
    let user = certificate_user(&der, at(1500)).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "u-1"));
    assert_eq!(user.groups, ["system:masters", AUTHENTICATED]);
    let id = format!("X509SHA256={}", users::hex(&Sha256::digest(&der)));
    assert_eq!(user.extra[CREDENTIAL_ID], [id]);
    // It may have run out since the connection was made.
    for when in [999, 2001] {
        assert!(matches!(certificate_user(&der, at(when)), Err(AuthnError::Certificate(_))));
    }
}

#[test]
fn an_unusable_certificate_leaves_the_token() {
    let nameless = certificate(&[(DnType::OrganizationName, "system:masters")]);
    let (first, _) = tokens();
    let authenticator = Authenticator::new();
    authenticator.reload([secret("jane", &[], vec![token(&first, None)])].iter());
    let headers = bearer(&format!("Bearer {}", first.reveal()));
    for der in [nameless.as_slice(), b"garbage"] {
        let alone = authenticator.authenticate(&HeaderMap::new(), Some(der), at(1500));
        assert!(matches!(alone, Err(AuthnError::Certificate(_))));
        let user = authenticator.authenticate(&headers, Some(der), at(1500)).unwrap();
        assert_eq!(user.name, "jane");
    }
    // With both good, the certificate speaks first.
    let der = certificate(&[(DnType::CommonName, "root")]);
    let user = authenticator.authenticate(&headers, Some(&der), at(1500)).unwrap();
    assert_eq!(user.name, "root");
}

#[test]
fn errors_and_debug_output_hold_no_token() {
    let (first, _) = tokens();
    let authenticator = Authenticator::new();
    authenticator.reload([secret("jane", &[], vec![token(&first, Some(1))])].iter());
    let headers = bearer(&format!("Bearer {}", first.reveal()));
    let error = authenticator.authenticate(&headers, None, at(5)).unwrap_err();
    for shown in [error.to_string(), format!("{error:?}"), format!("{authenticator:?}")] {
        assert!(!shown.contains(first.reveal()), "{shown}");
        assert!(!shown.contains(&users::hex(&first.hash())), "{shown}");
    }
}
