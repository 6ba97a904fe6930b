//! Lists in pages, and watches that go on where they were cut.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::{
    api::{Api, Query},
    errors::Error,
};

/// How many objects a page holds: few enough for the server, many enough to need few pages.
const PAGE: &str = "500";
/// How often a watch is opened anew without one answer before it counts as lost.
const ATTEMPTS: u32 = 6;

/// Reads a whole collection, page by page, as one list or table.
pub(crate) async fn list(
    api: &Api,
    path: &str,
    query: &Query,
    accept: &str,
) -> Result<Value, Error> {
    let mut whole = api.get(&query.clone().with("limit", PAGE).on(path), accept).await?;
    loop {
        let next = whole["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            return Ok(whole);
        }
        let url = query.clone().with("limit", PAGE).with("continue", next).on(path);
        match api.get(&url, accept).await {
            Ok(mut page) => {
                for key in ["items", "rows"] {
                    if let Some(more) = page[key].as_array_mut() {
                        let more = std::mem::take(more);
                        match whole[key].as_array_mut() {
                            Some(have) => have.extend(more),
                            None => whole[key] = Value::Array(more),
                        }
                    }
                }
                whole["metadata"] = page["metadata"].take();
            }
            // The snapshot was compacted while it was read: once more, in one piece.
            Err(error) if error.status().is_some_and(|s| s.code == 410) => {
                return api.get(&query.on(path), accept).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What happened to an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// It is there, new or changed.
    Present(Value),
    /// It is gone; this is its last state.
    Gone(Value),
    /// History was compacted: what is known must be listed anew.
    Expired,
}

/// A watch on a collection.
pub(crate) struct Watch {
    api: Api,
    path: String,
    query: Query,
    accept: &'static str,
    version: String,
    body: Option<Body>,
    buffer: BytesMut,
    failures: u32,
}

impl Watch {
    /// Watches from a version on, which a list gave.
    pub(crate) fn new(
        api: &Api,
        path: &str,
        query: &Query,
        accept: &'static str,
        version: &str,
    ) -> Self {
        Self {
            api: api.clone(),
            path: path.to_owned(),
            query: query.clone(),
            accept,
            version: version.to_owned(),
            body: None,
            buffer: BytesMut::new(),
            failures: 0,
        }
    }

    /// The next event. A closed connection is opened again from the last version seen.
    pub(crate) async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(line) = take_line(&mut self.buffer) {
                match self.read(&line)? {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            }
            match self.fill().await {
                Ok(()) => {}
                Err(error) if error.status().is_some_and(|s| s.code == 410) => {
                    return Ok(Event::Expired);
                }
                Err(error) => self.retry(error).await?,
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        if self.body.is_none() {
            let url = self
                .query
                .clone()
                .with("watch", "true")
                .with("allowWatchBookmarks", "true")
                .with("resourceVersion", self.version.clone())
                .on(&self.path);
            self.body = Some(self.api.stream(&url, self.accept).await?);
            self.buffer.clear();
        }
        let Some(body) = &mut self.body else { return Ok(()) };
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.failures = 0;
                    self.buffer.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => {
                self.body = None;
                return Err(Error::from_kube(error, &self.api.peer));
            }
            // The server ends watches from time to time.
            None => self.body = None,
        }
        Ok(())
    }

    async fn retry(&mut self, error: Error) -> Result<(), Error> {
        self.failures += 1;
        if self.failures >= ATTEMPTS || error.status().is_some() {
            return Err(error);
        }
        tracing::warn!("watch interrupted, trying again: {error}");
        tokio::time::sleep(Duration::from_millis(100 << self.failures)).await;
        Ok(())
    }

    fn read(&mut self, line: &[u8]) -> Result<Option<Event>, Error> {
        let mut event: Value = serde_json::from_slice(line)
            .map_err(|e| Error::Answer { peer: self.api.peer.clone(), detail: e.to_string() })?;
        let object = event["object"].take();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "ERROR" {
            if object["code"] == 410 {
                return Ok(Some(Event::Expired));
            }
            let status = serde_json::from_value(object).unwrap_or_default();
            return Err(Error::Status { status: Box::new(status), peer: self.api.peer.clone() });
        }
        if let Some(version) = version_of(&object) {
            self.version = version.to_owned();
        }
        Ok(match kind {
            "ADDED" | "MODIFIED" => Some(Event::Present(object)),
            "DELETED" => Some(Event::Gone(object)),
            _ => None,
        })
    }
}

fn take_line(buffer: &mut BytesMut) -> Option<BytesMut> {
    let end = buffer.iter().position(|b| *b == b'\n')?;
    let mut line = buffer.split_to(end + 1);
    line.truncate(end);
    Some(line)
}

/// The version of an object, or of the row that stands for one.
fn version_of(object: &Value) -> Option<&str> {
    let own = object["metadata"]["resourceVersion"].as_str().filter(|v| !v.is_empty());
    own.or_else(|| object["rows"][0]["object"]["metadata"]["resourceVersion"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_cut_where_they_end() {
        let mut buffer = BytesMut::from("one\ntw");
        assert_eq!(take_line(&mut buffer), Some(BytesMut::from("one")));
        assert_eq!(take_line(&mut buffer), None);
        buffer.extend_from_slice(b"o\n");
        assert_eq!(take_line(&mut buffer), Some(BytesMut::from("two")));
    }

    #[test]
    fn rows_carry_versions_too() {
        let table =
            json!({"metadata": {}, "rows": [{"object": {"metadata": {"resourceVersion": "7"}}}]});
        assert_eq!(version_of(&table), Some("7"));
        assert_eq!(version_of(&json!({"metadata": {"resourceVersion": "8"}})), Some("8"));
        assert_eq!(version_of(&json!({})), None);
    }
}
