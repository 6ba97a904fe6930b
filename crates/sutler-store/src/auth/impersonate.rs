//! Acting as somebody else: the `Impersonate-*` headers and the rights they take.
//!
//! As in Kubernetes 1.36 there are several modes. The constrained ones take two rights, to take on
//! the identity (`impersonate:<mode>`) and to do this very thing with it
//! (`impersonate-on:<mode>:<verb>`); the old one takes `impersonate` alone. They are tried in
//! order, and the first refusal is the one that is told. The mode `associated-node` is absent:
//! it is for service account tokens bound to a node, which this server does not issue.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::rbac::{Attributes, Policy, forbidden_cause, forbidden_message};
use super::{
    ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User, gofmt, is_dns_subdomain,
    service_account,
};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
/// From this many groups or extra values on, one check for all of them is tried first.
const MANY: usize = 4;
/// How many users' last modes are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Headers that ask for groups, a UID or extra without a user; answered by 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("requested {0} without impersonating a user name")]
pub struct NoUserName(String);

/// An impersonation that the requestor has no right to; answered by 403.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    /// The group of the resource that was refused.
    pub group: String,
    /// The plural name of that resource; empty for a path.
    pub resource: String,
    /// The name of the object; often empty.
    pub name: String,
    /// What stands behind `is forbidden: `.
    pub cause: String,
    /// The whole message.
    pub message: String,
}

impl Denied {
    fn new(attributes: &Attributes<'_>, reason: &str) -> Self {
        Self {
            group: attributes.group.to_owned(),
            resource: attributes.resource.to_owned(),
            name: attributes.name.to_owned(),
            cause: forbidden_cause(attributes, reason),
            message: forbidden_message(attributes, reason),
        }
    }
}

/// One right that an impersonation takes, apart from the verb and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The API group; empty for users, groups and service accounts.
    pub group: &'static str,
    /// `users`, `groups`, `serviceaccounts`, `uids` or `userextras`.
    pub resource: &'static str,
    /// The key of an extra; empty otherwise.
    pub subresource: String,
    /// The namespace of a service account; empty otherwise.
    pub namespace: String,
    /// The name of the user, group, …
    pub name: String,
}

impl Check {
    /// The check as a request by `user`, with the verb `impersonate`.
    pub fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        self.with_verb(user, "impersonate")
    }

    fn new(group: &'static str, resource: &'static str, name: &str) -> Self {
        let (subresource, namespace) = (String::new(), String::new());
        Self { group, resource, subresource, namespace, name: name.to_owned() }
    }

    fn with_verb<'a>(&'a self, user: &'a User, verb: &'a str) -> Attributes<'a> {
        Attributes {
            version: "v1",
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            ..Attributes::resource(user, verb, self.group, self.resource)
        }
    }
}

/// What it takes to act as a user with these groups.
pub(super) fn user_checks(username: &str, groups: &[String]) -> Vec<Check> {
    let groups = groups.iter().map(|group| Check::new("", "groups", group));
    std::iter::once(username_check("", username)).chain(groups).collect()
}

fn username_check(group: &'static str, username: &str) -> Check {
    match service_account(username) {
        Some((namespace, name)) => {
            Check { namespace: namespace.to_owned(), ..Check::new(group, "serviceaccounts", name) }
        }
        None => Check::new(group, "users", username),
    }
}

/// Reads the impersonation headers: `None` when there are none. The user returned is as the
/// headers say, not yet permitted and without implied groups.
pub fn requested(headers: &HeaderMap) -> Result<Option<User>, NoUserName> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut wanted = User {
        name: first(USER),
        uid: first(UID),
        groups: headers.get_all(GROUP).iter().map(text).collect(),
        ..User::default()
    };
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            wanted.extra.entry(unescape(key).into_owned()).or_default().push(text(value));
        }
    }
    let more = !wanted.uid.is_empty() || !wanted.groups.is_empty() || !wanted.extra.is_empty();
    match (wanted.name.is_empty(), more) {
        (false, _) => Ok(Some(wanted)),
        (true, false) => Ok(None),
        (true, true) => Err(NoUserName(describe(&wanted))),
    }
}

/// Takes the impersonation headers off, so that nothing further in acts on them.
pub fn strip(headers: &mut HeaderMap) {
    let extra = headers.keys().filter(|name| name.as_str().starts_with(EXTRA_PREFIX));
    let names: Vec<http::HeaderName> = extra.cloned().collect();
    for name in names {
        headers.remove(name);
    }
    for name in [USER, UID, GROUP] {
        headers.remove(name);
    }
}

/// A malformed escape leaves the key as it is.
fn unescape(key: &str) -> Cow<'_, str> {
    let bytes = key.as_bytes();
    let malformed = bytes.iter().enumerate().any(|(i, byte)| {
        let digits = bytes.get(i + 1..i + 3);
        *byte == b'%' && !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit))
    });
    match malformed {
        true => Cow::Borrowed(key),
        false => percent_decode_str(key).decode_utf8_lossy(),
    }
}

/// The request as the real server's message spells it out.
fn describe(user: &User) -> String {
    let extra = match user.extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => {
            let entry = |(key, values): (&String, &Vec<String>)| {
                format!("{}:{}", gofmt::quote(key), gofmt::go_list(values))
            };
            let entries: Vec<String> = user.extra.iter().map(entry).collect();
            format!("map[string][]string{{{}}}", entries.join(", "))
        }
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:{extra}}}",
        gofmt::quote(&user.name),
        gofmt::quote(&user.uid),
        gofmt::go_list(&user.groups),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 4] = [Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

impl Mode {
    /// The name in the verbs; the old mode has none.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    /// Whether the mode can take on this identity at all.
    fn applies(self, wanted: &User) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.name).is_some();
        let account = service_account(&wanted.name).is_some();
        match self {
            Self::ArbitraryNode => only_name && node,
            Self::ServiceAccount => only_name && account,
            Self::UserInfo => !node && !account,
            Self::Legacy => true,
        }
    }
}

fn node(username: &str) -> Option<&str> {
    username.strip_prefix("system:node:").filter(|name| is_dns_subdomain(name))
}

/// Decides on impersonations, and remembers by which mode each user last succeeded: that one is
/// tried first the next time, and so its refusal is the one that is told.
#[derive(Debug, Default)]
pub struct Impersonator {
    last: Mutex<HashMap<String, Mode>>,
}

impl Impersonator {
    /// The user to go on as, if the policy lets `request.user` be `wanted` for this request.
    pub fn authorize(
        &self,
        policy: &Policy,
        request: &Attributes<'_>,
        wanted: &User,
    ) -> Result<User, Denied> {
        let remembered = self.lock().get(&request.user.name).copied();
        let others = MODES.into_iter().filter(|mode| Some(*mode) != remembered);
        let mut first_refusal = None;
        for mode in remembered.into_iter().chain(others).filter(|mode| mode.applies(wanted)) {
            match attempt(policy, mode, request, wanted) {
                Ok(user) => {
                    if remembered != Some(mode) {
                        self.remember(&request.user.name, mode);
                    }
                    return Ok(user);
                }
                Err(denied) => {
                    first_refusal.get_or_insert(denied);
                }
            }
        }
        // The old mode applies to everybody, so there is a refusal by now.
        Err(*first_refusal.expect("the legacy mode was tried"))
    }

    fn remember(&self, user: &str, mode: Mode) {
        let mut last = self.lock();
        if last.len() >= MAX_REMEMBERED {
            last.clear();
        }
        last.insert(user.to_owned(), mode);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Mode>> {
        // The map is whole after every statement, so a panic elsewhere does not spoil it.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attempt(
    policy: &Policy,
    mode: Mode,
    request: &Attributes<'_>,
    wanted: &User,
) -> Result<User, Box<Denied>> {
    let verb = match mode.name() {
        None => "impersonate".to_owned(),
        Some(name) => {
            let on = format!("impersonate-on:{name}:{}", request.verb);
            check(policy, &Attributes { verb: &on, ..*request })?;
            format!("impersonate:{name}")
        }
    };
    let identity = Identity { policy, user: request.user, verb: &verb, constrained: mode.name() };
    let groups = identity.username(wanted)?;
    if !wanted.uid.is_empty() {
        identity.check(&Check::new(AUTHENTICATION_GROUP, "uids", &wanted.uid))?;
    }
    identity.groups(wanted)?;
    identity.extra(wanted)?;
    let mut user = User { groups, ..wanted.clone() };
    let implied = match () {
        () if user.name == ANONYMOUS => Some(UNAUTHENTICATED),
        () if user.is_in(UNAUTHENTICATED) => None,
        () => Some(AUTHENTICATED),
    };
    if let Some(group) = implied.filter(|group| !user.is_in(group)) {
        user.groups.push(group.to_owned());
    }
    Ok(user)
}

fn check(policy: &Policy, attributes: &Attributes<'_>) -> Result<(), Box<Denied>> {
    let decision = policy.authorize(attributes);
    match decision.allowed {
        true => Ok(()),
        false => Err(Box::new(Denied::new(attributes, &decision.reason))),
    }
}

/// The checks on who is to be impersonated, in one mode.
struct Identity<'a> {
    policy: &'a Policy,
    user: &'a User,
    verb: &'a str,
    /// The name of the constrained mode; `None` in the old one.
    constrained: Option<&'static str>,
}

impl Identity<'_> {
    /// Names and groups are of the core group in the old mode only.
    fn group(&self) -> &'static str {
        match self.constrained {
            Some(_) => AUTHENTICATION_GROUP,
            None => "",
        }
    }

    fn check(&self, wanted: &Check) -> Result<(), Box<Denied>> {
        check(self.policy, &wanted.with_verb(self.user, self.verb))
    }

    fn refuse(&self, wanted: &Check, reason: &str) -> Box<Denied> {
        Box::new(Denied::new(&wanted.with_verb(self.user, self.verb), reason))
    }

    /// Checks the name and returns the groups that go with it.
    fn username(&self, wanted: &User) -> Result<Vec<String>, Box<Denied>> {
        if let (Some(_), Some(node)) = (self.constrained, node(&wanted.name)) {
            self.check(&Check::new(self.group(), "nodes", node))?;
            return Ok(vec!["system:nodes".to_owned()]);
        }
        self.check(&username_check(self.group(), &wanted.name))?;
        match service_account(&wanted.name) {
            Some((namespace, _)) if wanted.groups.is_empty() => Ok(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ]),
            _ => Ok(wanted.groups.clone()),
        }
    }

    fn groups(&self, wanted: &User) -> Result<(), Box<Denied>> {
        let group = |name: &str| Check::new(self.group(), "groups", name);
        if self.constrained.is_some() {
            if wanted.is_in("") {
                let reason = "impersonating the empty string group is not allowed";
                return Err(self.refuse(&group(""), reason));
            }
            if wanted.is_in(MASTERS) {
                let reason = "impersonating the system:masters group is not allowed";
                return Err(self.refuse(&group(MASTERS), reason));
            }
            if wanted.groups.len() >= MANY && self.check(&group("*")).is_ok() {
                return Ok(());
            }
        }
        wanted.groups.iter().try_for_each(|name| self.check(&group(name)))
    }

    fn extra(&self, wanted: &User) -> Result<(), Box<Denied>> {
        let extra = |key: &str, value: &str| Check {
            subresource: key.to_owned(),
            ..Check::new(AUTHENTICATION_GROUP, "userextras", value)
        };
        if self.constrained.is_some() {
            for (key, values) in &wanted.extra {
                if let Some(reason) = extra_error(key, values) {
                    return Err(self.refuse(&extra("", ""), &reason));
                }
            }
            let values: usize = wanted.extra.values().map(Vec::len).sum();
            if values >= MANY && self.check(&extra("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.check(&extra(key, value))?;
            }
        }
        Ok(())
    }
}

fn extra_error(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let domain_prefixed = key
        .split_once('/')
        .is_some_and(|(domain, path)| is_dns_subdomain(domain) && !path.is_empty());
    if !domain_prefixed {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: \
             must be a domain-prefixed path (such as \"acme.io/foo\")",
            gofmt::quote(key)
        ));
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

#[cfg(test)]
mod tests;
