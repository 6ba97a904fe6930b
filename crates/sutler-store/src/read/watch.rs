//! Watches. A watcher is a stream that is polled as fast as its client reads: it holds a place in
//! the log, never a writer. One that falls behind reads the log again, and is told 410 when the
//! log no longer reaches back to it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use sutler_kv::engine::{Change, Error, Range, Version};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::Instant,
};

use super::{
    list::{parse_version, validate},
    select::Selection,
    table,
};
use crate::{
    accept::Form, body::Body, codec, metrics::OpenWatch, registry::Resource, server::Inner,
    status::ApiError, write::Ctx,
};

/// How often a quiet watch is told the newest version, if it wants to be.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How many records or log entries are read at a time.
const CHUNK: usize = 500;
/// Watches without a time-out end after 30 to 60 minutes, so that clients spread over servers.
const TIMEOUT_MIN: u64 = 1800;
/// No watch is asked to last longer; a clock cannot be set to any number of seconds ahead.
const TIMEOUT_MOST: u64 = 365 * 86400;

/// Opens a watch.
pub(crate) fn open(ctx: &Ctx<'_>, resource: &Arc<Resource>, form: Form) -> Result<Body, ApiError> {
    validate(ctx.query)?;
    let mut selection = Selection::parse(ctx.query, resource)?;
    if !ctx.info.name.is_empty() {
        selection = selection.with_name(&ctx.info.name);
    }
    let inner = ctx.inner.clone();
    // Subscribed before anything is read, so that nothing falls between the two.
    let changes = inner.engine.subscribe(resource.topic());
    let newest = inner.engine.version();
    let initial = ctx.query.flag("sendInitialEvents");
    let asked = ctx.query.get("resourceVersion").map(parse_version).transpose();
    let asked = asked.map_err(|error| {
        let message = error.message.trim_start_matches("invalid resource version: ");
        ApiError::plain(http::StatusCode::INTERNAL_SERVER_ERROR, "", message)
    })?;
    let asked = asked.unwrap_or(0);
    let phase = if ctx.query.has("sendInitialEvents") {
        if asked > newest {
            return Err(ApiError::version_too_large(asked, newest));
        }
        match (initial, asked) {
            (true, _) => Phase::Initial { after: None, version: None },
            (false, 0) => Phase::Replay { after: newest },
            (false, asked) => Phase::Replay { after: asked },
        }
    } else if asked == 0 {
        Phase::Initial { after: None, version: None }
    } else {
        Phase::Replay { after: asked }
    };
    let timeout = match ctx.query.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => seconds.unsigned_abs().min(TIMEOUT_MOST),
        _ => TIMEOUT_MIN + newest % TIMEOUT_MIN,
    };
    let now = Instant::now();
    let watcher = Watcher {
        prefix: resource.range(if resource.namespaced { &ctx.info.namespace } else { "" }),
        selection,
        form,
        headers: true,
        changes,
        queue: VecDeque::new(),
        phase,
        announce: initial,
        bookmarks: ctx.query.flag("allowWatchBookmarks"),
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + Duration::from_secs(timeout),
        stopping: inner.stopping.subscribe(),
        _counted: inner.metrics.watch(),
        resource: resource.clone(),
        inner,
    };
    Ok(Body::stream(futures::stream::unfold(watcher, |mut watcher| async move {
        let line = watcher.next().await?;
        Some((Ok(line), watcher))
    })))
}

enum Phase {
    /// What is there already is told as ADDED.
    Initial { after: Option<String>, version: Option<Version> },
    /// The log is read from a version on.
    Replay { after: Version },
    /// All up to a version has been told; the rest comes as it happens.
    Live { seen: Version },
    /// Nothing more will come.
    Done,
}

/// Why a live watch goes on.
enum Woken {
    Change(Result<Arc<Change>, RecvError>),
    Bookmark,
    End,
}

struct Watcher {
    inner: Arc<Inner>,
    resource: Arc<Resource>,
    prefix: String,
    selection: Selection,
    form: Form,
    /// Whether a table still has to name its columns.
    headers: bool,
    changes: broadcast::Receiver<Arc<Change>>,
    queue: VecDeque<Bytes>,
    phase: Phase,
    /// Whether the end of the initial events is to be announced.
    announce: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    stopping: tokio::sync::watch::Receiver<bool>,
    _counted: OpenWatch,
}

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(line);
            }
            let step = match &mut self.phase {
                Phase::Done => return None,
                Phase::Initial { after, version } => {
                    let (after, version) = (after.take(), *version);
                    self.initial(after, version).await
                }
                Phase::Replay { after } => {
                    let after = *after;
                    self.replay(after).await
                }
                Phase::Live { seen } => {
                    let seen = *seen;
                    self.live(seen).await
                }
            };
            if let Err(error) = step {
                self.fail(&error);
            }
        }
    }

    fn fail(&mut self, error: &ApiError) {
        let line = json!({"type": "ERROR", "object": error.to_status()});
        self.queue.push_back(Bytes::from(format!("{line}\n")));
        self.phase = Phase::Done;
    }

    async fn initial(
        &mut self,
        after: Option<String>,
        at: Option<Version>,
    ) -> Result<(), ApiError> {
        let range = Range { prefix: self.prefix.clone(), after, limit: CHUNK, at };
        let page = match self.inner.engine.list(range).await {
            Ok(page) => page,
            Err(Error::Compacted { .. }) => {
                self.inner.metrics.watch_expired();
                return Err(ApiError::expired("The provided resource version is too old."));
            }
            Err(error) => return Err(error.into()),
        };
        for record in &page.records {
            if self.selection.matches_stored(&self.resource, &record.key, &record.value)? {
                let line = self.line("ADDED", &record.value, record.version)?;
                self.queue.push_back(line);
            }
        }
        if page.remaining > 0 {
            let after = page.records.last().map(|r| r.key.to_string());
            self.phase = Phase::Initial { after, version: Some(page.version) };
            return Ok(());
        }
        if self.announce && self.bookmarks {
            let line = self.bookmark(page.version, true);
            self.queue.push_back(line);
        }
        self.phase = Phase::Replay { after: page.version };
        Ok(())
    }

    async fn replay(&mut self, after: Version) -> Result<(), ApiError> {
        let (changes, through) = match self.inner.engine.changes(&self.prefix, after, CHUNK).await {
            Ok(read) => read,
            Err(Error::Compacted { asked, oldest, newest }) if asked <= newest => {
                let message =
                    format!("too old resource version: {asked} ({})", oldest.saturating_sub(1));
                self.inner.metrics.watch_expired();
                return Err(ApiError::expired(message));
            }
            // A version that is not there yet: everything that comes is above it.
            Err(Error::Compacted { asked, .. }) => {
                self.phase = Phase::Live { seen: asked };
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let full = changes.len() == CHUNK;
        for change in changes {
            self.tell(&change)?;
        }
        self.phase =
            if full { Phase::Replay { after: through } } else { Phase::Live { seen: through } };
        Ok(())
    }

    async fn live(&mut self, mut seen: Version) -> Result<(), ApiError> {
        // Read before the channel is seen empty: all up to it has then been told.
        let version = self.inner.engine.version();
        let mut told = false;
        loop {
            match self.changes.try_recv() {
                Ok(change) => {
                    if change.version > seen {
                        seen = change.version;
                        told |= self.tell(&change)?;
                    }
                    if self.queue.len() >= CHUNK {
                        break;
                    }
                }
                Err(broadcast::error::TryRecvError::Lagged(_)) => {
                    self.inner.metrics.watch_behind();
                    self.phase = Phase::Replay { after: seen };
                    return Ok(());
                }
                Err(broadcast::error::TryRecvError::Empty) => break,
                Err(broadcast::error::TryRecvError::Closed) => {
                    self.phase = Phase::Done;
                    return Ok(());
                }
            }
        }
        self.phase = Phase::Live { seen };
        if told {
            return Ok(());
        }
        let (wanted, when) = (self.bookmarks, self.next_bookmark);
        let bookmark = async move {
            match wanted {
                true => tokio::time::sleep_until(when).await,
                false => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => Woken::End,
            () = tokio::time::sleep_until(self.deadline) => Woken::End,
            change = self.changes.recv() => Woken::Change(change),
            () = bookmark => Woken::Bookmark,
        };
        match woken {
            Woken::Change(Ok(change)) if change.version > seen => {
                self.phase = Phase::Live { seen: change.version };
                self.tell(&change)?;
            }
            Woken::Change(Ok(_)) => {}
            Woken::Change(Err(RecvError::Lagged(_))) => {
                self.inner.metrics.watch_behind();
                self.phase = Phase::Replay { after: seen };
            }
            Woken::End | Woken::Change(Err(RecvError::Closed)) => self.phase = Phase::Done,
            Woken::Bookmark => {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                let line = self.bookmark(seen.max(version), false);
                self.queue.push_back(line);
            }
        }
        Ok(())
    }

    /// Queues a change, if it is about what the client asked for.
    fn tell(&mut self, change: &Change) -> Result<bool, ApiError> {
        if !change.key.starts_with(&self.prefix) {
            return Ok(false);
        }
        let (selection, resource) = (&self.selection, &self.resource);
        let meant = |value: &Bytes| selection.matches_stored(resource, &change.key, value);
        let before = match &change.before {
            Some(before) => meant(before)?,
            None => false,
        };
        let after = !change.deleted && meant(&change.value)?;
        let (kind, value) = match (before, after) {
            (false, false) => return Ok(false),
            (false, true) => ("ADDED", &change.value),
            (true, true) => ("MODIFIED", &change.value),
            // What left, as it was last seen, at the version at which it left.
            (true, false) => ("DELETED", change.before.as_ref().unwrap_or(&change.value)),
        };
        let natural = match (change.deleted, &change.before) {
            (true, _) => "DELETED",
            (false, None) => "ADDED",
            (false, Some(_)) => "MODIFIED",
        };
        // Watchers that see the change for what it is share one encoding of it.
        let line = if self.form == Form::Plain && kind == natural && !self.resource.converted {
            match change.encoded.get() {
                Some(line) => line.clone(),
                None => {
                    let line = self.line(kind, value, change.version)?;
                    change.encoded.get_or_init(|| line).clone()
                }
            }
        } else {
            self.line(kind, value, change.version)?
        };
        self.queue.push_back(line);
        Ok(true)
    }

    fn line(&mut self, kind: &str, stored: &Bytes, version: Version) -> Result<Bytes, ApiError> {
        let mut out = BytesMut::with_capacity(stored.len() + 160);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        if self.form == Form::Plain && !self.resource.converted {
            codec::write_wire(&mut out, &self.resource.type_prefix, stored, version)?;
        } else {
            let resource = &self.resource;
            let object = codec::decode(&resource.api_version, &resource.kind, stored, version)?;
            out.put_slice(self.formed(object).to_string().as_bytes());
        }
        out.put_slice(b"}\n");
        Ok(out.freeze())
    }

    fn formed(&mut self, object: Value) -> Value {
        match self.form {
            Form::Plain if self.resource.converted => sutler_builtin::event_to_v1(object),
            Form::Plain => object,
            Form::Partial(version) | Form::PartialList(version) => table::partial(&object, version),
            Form::Table(version) => {
                let now = self.inner.clock.now();
                let headers = std::mem::take(&mut self.headers);
                let include = table::Include::Metadata;
                table::of_object(&self.resource, &object, include, now, headers, version)
            }
        }
    }

    fn bookmark(&mut self, version: Version, initial_end: bool) -> Bytes {
        let resource = &self.resource;
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let meta = self.form.version().api_version();
        let object = match self.form {
            Form::Table(_) => json!({
                "kind": "Table", "apiVersion": meta,
                "metadata": {"resourceVersion": version.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": null, "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": meta,
                    "metadata": metadata,
                }}],
            }),
            Form::Partial(_) | Form::PartialList(_) => json!({
                "kind": "PartialObjectMetadata", "apiVersion": meta,
                "metadata": metadata,
            }),
            Form::Plain => json!({
                "kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata,
            }),
        };
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }
}
