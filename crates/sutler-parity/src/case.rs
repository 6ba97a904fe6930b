//! One case: requests in a namespace of its own, checks of what matters, and the transcript.
//!
//! Cases are plain blocking functions, so that they read like a session at a terminal. A failed
//! check does not end the case: it is noted with its line, and the rest is still seen.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::Read;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::target::{Body, Target, USERS};
use crate::transcript::Entry;

/// How long an answer or an event may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that a controller does.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Headers that are part of what clients rely on.
const HEADERS: &[&str] =
    &["content-type", "content-encoding", "warning", "www-authenticate", "retry-after", "location"];

/// Short names of collections in paths: `cm/a` is the ConfigMap `a` in the case's namespace.
const ALIASES: &[(&str, &str)] = &[
    ("cm", "/api/v1/namespaces/{ns}/configmaps"),
    ("secret", "/api/v1/namespaces/{ns}/secrets"),
    ("pod", "/api/v1/namespaces/{ns}/pods"),
    ("svc", "/api/v1/namespaces/{ns}/services"),
    ("sa", "/api/v1/namespaces/{ns}/serviceaccounts"),
    ("event", "/api/v1/namespaces/{ns}/events"),
    ("pvc", "/api/v1/namespaces/{ns}/persistentvolumeclaims"),
    ("ns", "/api/v1/namespaces"),
    ("node", "/api/v1/nodes"),
    ("pv", "/api/v1/persistentvolumes"),
    ("sc", "/apis/storage.k8s.io/v1/storageclasses"),
    ("deploy", "/apis/apps/v1/namespaces/{ns}/deployments"),
    ("rs", "/apis/apps/v1/namespaces/{ns}/replicasets"),
    ("ds", "/apis/apps/v1/namespaces/{ns}/daemonsets"),
    ("pdb", "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"),
    ("lease", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"),
    ("role", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"),
    ("rb", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"),
    ("crole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("crb", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("toy", "/apis/parity.sutler.dev/v1/namespaces/{ns}/toys"),
    ("plain", "/apis/parity.sutler.dev/v1/namespaces/{ns}/plains"),
    ("world", "/apis/parity.sutler.dev/v1/worlds"),
    ("ssar", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("ssrr", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
    ("ssr", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
];

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

/// A request that is being put together.
#[derive(Debug, Clone)]
pub struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
    user: Option<&'static str>,
    quiet: bool,
    label: Option<String>,
}

impl Call {
    /// A request without a body, as the administrator.
    pub fn new(method: &'static str, path: &str) -> Self {
        let headers = vec![
            ("user-agent".to_owned(), "parity/1".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ];
        let path = path.to_owned();
        Self { method, path, headers, body: None, user: Some("admin"), quiet: false, label: None }
    }

    /// Sets a header, in place of one of that name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header that is sent by default.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self
    }

    /// Sets what answers are accepted.
    pub fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// Sets a JSON body.
    pub fn json(self, body: &Value) -> Self {
        self.text("application/json", &body.to_string())
    }

    /// Sets a body of any text.
    pub fn text(self, content_type: &str, body: &str) -> Self {
        self.bytes(content_type, Bytes::from(body.to_owned()))
    }

    /// Sets a body of any bytes; `{ns}` in it is not replaced when it is no UTF-8.
    pub fn bytes(self, content_type: &str, body: Bytes) -> Self {
        let mut call = self.header("content-type", content_type);
        call.body = Some(body);
        call
    }

    /// Sends it as another user.
    pub fn user(mut self, name: &'static str) -> Self {
        self.user = Some(name);
        self
    }

    /// Sends no credentials.
    pub fn anonymous(mut self) -> Self {
        self.user = None;
        self
    }

    /// Leaves it out of the transcript.
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Calls it so in the transcript.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    /// The path as it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The body, where it is text.
    pub fn body_text(&self) -> &str {
        self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default()
    }

    /// The same with this version in the body's metadata; a body that is no object is left alone.
    pub fn with_version(&self, version: Option<&str>) -> Self {
        let mut call = self.clone();
        if let (Some(version), Ok(mut body)) =
            (version, serde_json::from_str::<Value>(self.body_text()))
            && body.is_object()
        {
            body["metadata"]["resourceVersion"] = version.into();
            call.body = Some(Bytes::from(body.to_string()));
        }
        call
    }

    fn title(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let mut label = format!("{} {}", self.method, self.path);
        let content = self.headers.iter().find(|(key, _)| key == "content-type");
        if let (Some((_, content)), true) = (content, self.body.is_some()) {
            label.push_str(&format!(" [{content}]"));
        }
        match self.user {
            Some("admin") => {}
            Some(user) => label.push_str(&format!(" as {user}")),
            None => label.push_str(" as nobody"),
        }
        label
    }

    fn request(&self, ns: &str) -> Result<Request<Bytes>> {
        let mut request = Request::builder().method(self.method).uri(expand(&self.path, ns));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(user) = self.user {
            let token = USERS.iter().find(|known| known.name == user).map(|user| user.token);
            request = request.header("authorization", format!("Bearer {}", token.unwrap_or(user)));
        }
        let body = match &self.body {
            Some(body) => match std::str::from_utf8(body) {
                Ok(text) if text.contains("{ns}") => Bytes::from(text.replace("{ns}", ns)),
                _ => body.clone(),
            },
            None => Bytes::new(),
        };
        Ok(request.body(body)?)
    }
}

fn expand(path: &str, ns: &str) -> String {
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (alias, rest) = path.split_at(end);
    let path = match ALIASES.iter().find(|(name, _)| *name == alias) {
        Some((_, full)) => format!("{full}{rest}"),
        None => path.to_owned(),
    };
    path.replace("{ns}", ns)
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

/// An answer.
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, where it is JSON; else its text.
    pub body: Value,
    /// The body as it came.
    pub bytes: Bytes,
    notes: Rc<Notes>,
}

impl Reply {
    /// Checks the status code.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        if self.status != status {
            let message = self.body["message"].as_str().unwrap_or_default();
            let what = format!("{} in place of {status}: {message}", self.status);
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that it is a refusal with this code and reason.
    #[track_caller]
    pub fn refused(self, status: u16, reason: &str) -> Self {
        self.is(status).has("/reason", reason)
    }

    /// Checks a value in the body.
    #[track_caller]
    pub fn has(self, pointer: &str, wanted: impl Into<Value>) -> Self {
        let wanted = wanted.into();
        let seen = self.at(pointer);
        if *seen != wanted {
            let what = format!("{pointer} is {seen}, and not {wanted}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that something is not in the body.
    #[track_caller]
    pub fn lacks(self, pointer: &str) -> Self {
        if let Some(seen) = self.body.pointer(pointer) {
            self.notes.fail(Location::caller(), format!("{pointer} is there: {seen}"));
        }
        self
    }

    /// Checks that something is in the body, whatever its value.
    #[track_caller]
    pub fn shows(self, pointer: &str) -> Self {
        if self.body.pointer(pointer).is_none() {
            self.notes.fail(Location::caller(), format!("{pointer} is not there"));
        }
        self
    }

    /// Checks that the message contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let message = self.body["message"].as_str().unwrap_or_default();
        if !message.contains(text) {
            let what = format!("the message lacks {text:?}: {message}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that a cause names this field.
    #[track_caller]
    pub fn blames(self, field: &str) -> Self {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        if !causes.iter().any(|cause| cause["field"] == field) {
            let fields: Vec<_> = causes.iter().map(|cause| cause["field"].to_string()).collect();
            let what = format!("no cause for {field}, only {}", fields.join(", "));
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that some warning contains a text.
    #[track_caller]
    pub fn warns(self, text: &str) -> Self {
        let warnings = seen_headers(&self.headers);
        if !warnings.iter().any(|(name, value)| name == "warning" && value.contains(text)) {
            let what = format!("no warning says {text:?}: {warnings:?}");
            self.notes.fail(Location::caller(), what);
        }
        self
    }

    /// Checks that it has these items, by name and in this order.
    #[track_caller]
    pub fn items(self, wanted: &[&str]) -> Self {
        let seen = self.names();
        if seen != wanted {
            self.notes.fail(Location::caller(), format!("items {seen:?}, and not {wanted:?}"));
        }
        self
    }

    /// A value in the body, null where it is not there.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// A text in the body, empty where it is not there.
    pub fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// The object's version.
    pub fn rv(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// The object's UID.
    pub fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// The object's name.
    pub fn name(&self) -> String {
        self.text("/metadata/name")
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<String> {
        let items = self.body["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|i| i["metadata"]["name"].as_str().unwrap_or_default().into()).collect()
    }

    /// The token for the next page, encoded for a query.
    pub fn next(&self) -> String {
        self.text("/metadata/continue").replace('=', "%3D").replace('+', "%2B")
    }
}

/// An open watch.
pub struct Watch {
    /// The status code with which it began.
    pub status: u16,
    entry: usize,
    body: Option<Body>,
    buffer: Vec<u8>,
    runtime: Handle,
    notes: Rc<Notes>,
}

/// One event of a watch.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; empty where the watch ended.
    pub kind: String,
    /// What it is about.
    pub object: Value,
}

impl Event {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The object's version.
    pub fn rv(&self) -> &str {
        self.object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }
}

impl Watch {
    /// The next event.
    #[track_caller]
    pub fn next(&mut self) -> Event {
        let at = Location::caller();
        match self.read() {
            Ok(Some(value)) => {
                self.note(value.clone());
                Event {
                    kind: value["type"].as_str().unwrap_or_default().to_owned(),
                    object: value["object"].clone(),
                }
            }
            Ok(None) => {
                self.notes.fail(at, "the watch ended");
                Event::default()
            }
            Err(error) => {
                self.notes.fail(at, format!("no event: {error:#}"));
                Event::default()
            }
        }
    }

    /// Checks that the next event is of this kind and about the object of this name.
    #[track_caller]
    pub fn expect(&mut self, kind: &str, name: &str) -> Event {
        let event = self.next();
        if event.kind != kind || event.name() != name {
            let what =
                format!("{} of {:?}, and not {kind} of {name:?}", event.kind, event.name());
            self.notes.fail(Location::caller(), what);
        }
        event
    }

    /// Checks the status code with which it began; of a refusal, notes the body.
    #[track_caller]
    pub fn is(mut self, status: u16) -> Self {
        if self.status != status {
            let what = format!("{} in place of {status}", self.status);
            self.notes.fail(Location::caller(), what);
        }
        if self.status != 200
            && let Ok(Some(value)) = self.read()
        {
            self.note(value);
        }
        self
    }

    /// Waits until the server ends it, and notes whether events came before.
    #[track_caller]
    pub fn end(&mut self) {
        let at = Location::caller();
        loop {
            match self.read() {
                Ok(Some(value)) => self.note(value),
                Ok(None) => return self.note(Value::String("end of watch".to_owned())),
                Err(error) => return self.notes.fail(at, format!("no end: {error:#}")),
            }
        }
    }

    fn note(&self, value: Value) {
        if let Some(entry) = self.notes.entries.borrow_mut().get_mut(self.entry) {
            entry.body.push(value);
        }
    }

    fn read(&mut self) -> Result<Option<Value>> {
        let Self { body, buffer, runtime, .. } = self;
        let Some(body) = body else { return Ok(None) };
        let line = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, next_line(body, buffer)).await?
        })?;
        line.map(|line| Ok(serde_json::from_slice(&line)?)).transpose()
    }
}

async fn next_line(body: &mut Body, buffer: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let rest = buffer.split_off(end + 1);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => anyhow::bail!("the stream broke: {error}"),
            None if buffer.is_empty() => return Ok(None),
            None => return Ok(Some(std::mem::take(buffer))),
        }
    }
}
