//! What a request asks for: path and query, taken apart once.

use http::Method;
use percent_encoding::percent_decode_str;
use sutler_schema::selector::FieldSelector;

use crate::status::ApiError;

/// A request's target in the terms of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the
    /// lower-case method for other paths.
    pub verb: &'static str,
    /// Whether the path is that of a resource.
    pub is_resource: bool,
    /// The whole path.
    pub path: String,
    /// API group; empty is core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// `status`, `scale` …
    pub subresource: String,
    /// Namespace; for a namespace object, its own name.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// The one name that a list's field selector asks for; rights are judged by it.
    pub selected: String,
    /// More path than a resource has.
    pub excess: bool,
}

impl RequestInfo {
    /// Takes a path apart.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        // Escapes are undone first: an escaped slash divides like any other.
        let path = percent_decode_str(path).decode_utf8_lossy();
        let mut info =
            Self { path: path.clone().into_owned(), verb: plain_verb(method), ..Self::default() };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut rest = match parts.as_slice() {
            ["api", version, _, ..] => {
                info.version = (*version).to_owned();
                2
            }
            ["apis", group, version, _, ..] => {
                info.group = (*group).to_owned();
                info.version = (*version).to_owned();
                3
            }
            _ => return info,
        };
        info.is_resource = true;
        // The old way to ask for a watch.
        let watched = parts[rest] == "watch" && parts.len() > rest + 1;
        if watched {
            rest += 1;
        }
        info.resource_parts(&parts[rest..]);
        info.verb = match *method {
            _ if watched => "watch",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if info.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if query.flag("watch") && info.name.is_empty() => "watch",
            Method::GET | Method::HEAD if info.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            // No resource has these.
            _ => info.verb,
        };
        if matches!(info.verb, "list" | "watch" | "deletecollection") && info.name.is_empty() {
            let selector = query.get("fieldSelector").map(FieldSelector::parse);
            let name = selector.and_then(Result::ok);
            let name = name.as_ref().and_then(|s| s.exact("metadata.name"));
            info.selected = name.unwrap_or_default().to_owned();
        }
        info
    }

    fn resource_parts(&mut self, parts: &[&str]) {
        let part = |n: usize| parts.get(n).map(|p| (*p).to_owned()).unwrap_or_default();
        let mut at = 0;
        if part(0) == "namespaces" && !part(1).is_empty() {
            self.namespace = part(1);
            let own = parts.len() == 2 || matches!(part(2).as_str(), "status" | "finalize");
            if !own {
                at = 2;
            }
        }
        self.resource = part(at);
        self.name = part(at + 1);
        self.subresource = part(at + 2);
        self.excess = parts.len() > at + 3;
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "other",
    }
}

/// A query, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// Whether every percent sign begins an escape; the real server drops pairs where one does not.
pub(crate) fn escapes_are_whole(pair: &str) -> bool {
    let bytes = pair.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    pair.match_indices('%').all(|(at, _)| digit(at + 1) && digit(at + 2))
}

impl Query {
    /// Takes a query apart.
    pub fn parse(text: Option<&str>) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .filter(|pair| escapes_are_whole(pair))
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// The first value of a key; absent and empty are the same.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        found.filter(|v| !v.is_empty())
    }

    /// Whether a key is there at all.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A boolean, as the real server reads them: `false` and `0` are false, anything else is true.
    pub fn flag(&self, key: &str) -> bool {
        match self.0.iter().find(|(k, _)| k == key) {
            None => false,
            Some((_, value)) => !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"),
        }
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let found = self.0.iter().find(|(k, _)| k == key);
        let Some((_, text)) = found else { return Ok(None) };
        let number = text.parse().map_err(|error| {
            let why = why_no_number(&error);
            ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })?;
        Ok(Some(number))
    }
}

/// What the API says of a text that is no number of the wanted size.
pub(crate) fn why_no_number(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, target: &str) -> (String, RequestInfo) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = RequestInfo::parse(&method, path, &Query::parse(Some(query)));
        let text = format!(
            "{} g={} v={} r={} s={} ns={} n={}",
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.namespace,
            info.name
        );
        (text, info)
    }

    #[test]
    fn paths_are_taken_apart_as_the_real_server_does() {
        for (method, path, expected) in [
            (Method::GET, "/api/v1/pods", "list g= v=v1 r=pods s= ns= n="),
            (Method::GET, "/api/v1/namespaces/a/pods?watch=1", "watch g= v=v1 r=pods s= ns=a n="),
            (Method::GET, "/api/v1/namespaces/a", "get g= v=v1 r=namespaces s= ns=a n=a"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update g= v=v1 r=namespaces s=finalize ns=a n=a",
            ),
            (
                Method::DELETE,
                "/apis/x.io/v1/things",
                "deletecollection g=x.io v=v1 r=things s= ns= n=",
            ),
            (
                Method::PATCH,
                "/apis/x.io/v1/namespaces/b/things/c/status",
                "patch g=x.io v=v1 r=things s=status ns=b n=c",
            ),
            (Method::POST, "/api/v1/namespaces", "create g= v=v1 r=namespaces s= ns= n="),
            (Method::GET, "/apis/x.io/v1/things/a%20b", "get g=x.io v=v1 r=things s= ns= n=a b"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods", "watch g= v=v1 r=pods s= ns=a n="),
            (Method::GET, "/api/v1/watch/nodes/b", "watch g= v=v1 r=nodes s= ns= n=b"),
            (Method::GET, "/apis/x.io/v1/things/a%2Fb", "get g=x.io v=v1 r=things s=b ns= n=a"),
            (Method::OPTIONS, "/api/v1/pods?watch=1", "options g= v=v1 r=pods s= ns= n="),
            (Method::TRACE, "/api/v1/nodes/a", "other g= v=v1 r=nodes s= ns= n=a"),
        ] {
            assert_eq!(info(method, path).0, expected, "{path}");
        }
        assert!(!info(Method::GET, "/apis/x.io/v1").1.is_resource);
        assert!(info(Method::GET, "/api/v1/namespaces/a/pods/b/c/d").1.excess);
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse(Some("a=1%2C2&b&c=x+y&c=z&watch=0"));
        assert_eq!(query.get("a"), Some("1,2"));
        assert_eq!(query.get("b"), None);
        assert!(query.has("b"));
        assert_eq!(query.all("c").collect::<Vec<_>>(), ["x y", "z"]);
        assert!(!query.flag("watch"));
        assert!(query.flag("b"));
        let number = |text| Query::parse(Some(text)).number("limit").map_err(|e| e.message);
        assert_eq!(number("limit=7"), Ok(Some(7)));
        assert!(number("limit=x").unwrap_err().ends_with("\"x\": invalid syntax"));
        assert!(number("limit=99999999999999999999").unwrap_err().ends_with("value out of range"));
    }
}
