//! One case: requests in a namespace of its own, checks of what matters, and the transcript.
//!
//! Cases are plain blocking functions, so that they read like a session at a terminal. A failed
//! check does not end the case: it is noted with its line, and the rest is still seen.

mod call;
mod reply;
mod watch;

use std::cell::RefCell;
use std::fmt::Display;
use std::io::Read;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::target::Target;
use crate::transcript::Entry;

pub use call::Call;
pub use reply::Reply;
pub use watch::{Event, Watch};

/// How long an answer or an event may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that a controller does.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Headers that are part of what clients rely on.
const HEADERS: &[&str] =
    &["content-type", "content-encoding", "warning", "www-authenticate", "retry-after", "location"];

/// A case that runs.
pub struct Case {
    /// The case's own namespace; `{ns}` in paths and bodies stands for it.
    pub ns: String,
    target: Arc<dyn Target>,
    runtime: Handle,
    notes: Rc<Notes>,
}

/// What a case leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Requests and answers in their order.
    pub entries: Vec<Entry>,
    /// Checks that failed, with their lines.
    pub failures: Vec<String>,
}

#[derive(Default)]
struct Notes {
    entries: RefCell<Vec<Entry>>,
    failures: RefCell<Vec<String>>,
}

impl Notes {
    fn fail(&self, at: &Location<'_>, what: impl Display) {
        self.failures.borrow_mut().push(format!("{}:{}: {what}", at.file(), at.line()));
    }
}

impl Case {
    /// A case on a server, in a namespace that is there already.
    pub fn new(target: Arc<dyn Target>, runtime: Handle, ns: String) -> Self {
        Self { ns, target, runtime, notes: Rc::default() }
    }

    /// What it leaves behind.
    pub fn finish(self) -> Record {
        Record { entries: self.notes.entries.take(), failures: self.notes.failures.take() }
    }

    /// Sends a request.
    #[track_caller]
    pub fn call(&self, call: &Call) -> Reply {
        let at = Location::caller();
        let (status, headers, body) = match self.exchange(call) {
            Ok(answer) => answer,
            Err(error) => {
                self.notes.fail(at, format!("{}: {error:#}", call.title()));
                (0, HeaderMap::new(), Bytes::new())
            }
        };
        let value = decode(&headers, &body);
        if !call.quiet {
            self.notes.entries.borrow_mut().push(Entry {
                label: call.title(),
                status,
                headers: seen_headers(&headers),
                body: vec![value.clone()],
            });
        }
        Reply { status, headers, body: value, bytes: body, notes: self.notes.clone() }
    }

    /// GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.call(&Call::new("GET", path))
    }

    /// POST of JSON.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(&Call::new("POST", path).json(body))
    }

    /// PUT of JSON.
    #[track_caller]
    pub fn put(&self, path: &str, body: &Value) -> Reply {
        self.call(&Call::new("PUT", path).json(body))
    }

    /// DELETE without a body.
    #[track_caller]
    pub fn delete(&self, path: &str) -> Reply {
        self.call(&Call::new("DELETE", path))
    }

    /// DELETE with options in the body.
    #[track_caller]
    pub fn delete_with(&self, path: &str, options: &Value) -> Reply {
        self.call(&Call::new("DELETE", path).json(options))
    }

    /// JSON patch.
    #[track_caller]
    pub fn json_patch(&self, path: &str, body: &Value) -> Reply {
        self.patch("application/json-patch+json", path, body)
    }

    /// JSON merge patch.
    #[track_caller]
    pub fn merge(&self, path: &str, body: &Value) -> Reply {
        self.patch("application/merge-patch+json", path, body)
    }

    /// Strategic merge patch.
    #[track_caller]
    pub fn strategic(&self, path: &str, body: &Value) -> Reply {
        self.patch("application/strategic-merge-patch+json", path, body)
    }

    /// Server-side apply; the path carries `fieldManager`.
    #[track_caller]
    pub fn apply(&self, path: &str, body: &Value) -> Reply {
        self.patch("application/apply-patch+yaml", path, body)
    }

    /// A patch of any type.
    #[track_caller]
    pub fn patch(&self, content_type: &str, path: &str, body: &Value) -> Reply {
        self.call(&Call::new("PATCH", path).text(content_type, &body.to_string()))
    }

    /// Asks until the answer is as wanted; only the last is in the transcript.
    #[track_caller]
    pub fn until(&self, path: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
        self.until_call(&Call::new("GET", path), wanted)
    }

    /// Repeats a request until the answer is as wanted; only the last is in the transcript.
    #[track_caller]
    pub fn until_call(&self, call: &Call, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let at = Location::caller();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reply = self.call(&call.clone().quiet());
            let late = Instant::now() > deadline;
            if late {
                self.notes.fail(at, format!("waited in vain for {}", call.title()));
            }
            if !late && !wanted(&reply) {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            if !call.quiet {
                self.notes.entries.borrow_mut().push(Entry {
                    label: format!("until {}", call.title()),
                    status: reply.status,
                    headers: seen_headers(&reply.headers),
                    body: vec![reply.body.clone()],
                });
            }
            return reply;
        }
    }

    /// Opens a watch; `watch=true` is added to the path.
    #[track_caller]
    pub fn watch(&self, path: &str) -> Watch {
        let mark = if path.contains('?') { '&' } else { '?' };
        self.watch_call(&Call::new("GET", &format!("{path}{mark}watch=true")))
    }

    /// Opens a watch by any request.
    #[track_caller]
    pub fn watch_call(&self, call: &Call) -> Watch {
        let at = Location::caller();
        let response = call
            .request(&self.ns)
            .and_then(|request| self.wait(self.target.send(request)))
            .map_err(|error| self.notes.fail(at, format!("{}: {error:#}", call.title())))
            .ok();
        let (status, headers) = match &response {
            Some(response) => (response.status().as_u16(), response.headers().clone()),
            None => (0, HeaderMap::new()),
        };
        let mut entries = self.notes.entries.borrow_mut();
        let entry = entries.len();
        entries.push(Entry {
            label: call.title(),
            status,
            headers: seen_headers(&headers),
            body: Vec::new(),
        });
        drop(entries);
        Watch {
            status,
            entry,
            body: response.map(Response::into_body),
            buffer: Vec::new(),
            runtime: self.runtime.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Adds something that was made of answers to the transcript.
    pub fn note(&self, label: &str, value: Value) {
        self.notes.entries.borrow_mut().push(Entry {
            label: label.to_owned(),
            status: 0,
            headers: Vec::new(),
            body: vec![value],
        });
    }

    /// Checks a fact.
    #[track_caller]
    pub fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.notes.fail(Location::caller(), what);
        }
    }

    /// Checks that two values are equal.
    #[track_caller]
    pub fn equal<T: PartialEq + std::fmt::Debug>(&self, seen: T, wanted: T) {
        if seen != wanted {
            self.notes.fail(Location::caller(), format!("{seen:?}, and not {wanted:?}"));
        }
    }

    /// Makes the server forget its history up to a version.
    #[track_caller]
    pub fn compact(&self, version: &str) {
        let version = version.parse().unwrap_or_default();
        if let Err(error) = self.wait(self.target.compact(version)) {
            self.notes.fail(Location::caller(), format!("compaction: {error:#}"));
        }
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await? })
    }

    fn exchange(&self, call: &Call) -> Result<(u16, HeaderMap, Bytes)> {
        let request = call.request(&self.ns)?;
        self.wait(async {
            let response = self.target.send(request).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
            Ok((parts.status.as_u16(), parts.headers, body))
        })
    }
}

fn seen_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    HEADERS
        .iter()
        .flat_map(|name| headers.get_all(*name).iter().map(move |v| ((*name).to_owned(), text(v))))
        .collect()
}

fn decode(headers: &HeaderMap, body: &Bytes) -> Value {
    let gzip = headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
    let plain = if gzip {
        let mut plain = Vec::new();
        match flate2::read::GzDecoder::new(body.as_ref()).read_to_end(&mut plain) {
            Ok(_) => Bytes::from(plain),
            Err(error) => return Value::String(format!("broken gzip: {error}")),
        }
    } else {
        body.clone()
    };
    if plain.is_empty() {
        return Value::Null;
    }
    if headers.get("content-type").is_some_and(|kind| kind == "application/yaml")
        && let Ok(value) = serde_saphyr::from_slice(&plain)
    {
        return value;
    }
    serde_json::from_slice(&plain)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&plain).into_owned()))
}
