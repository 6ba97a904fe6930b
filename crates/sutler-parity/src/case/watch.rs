//! A watch that a case reads event by event.

use std::panic::Location;
use std::rc::Rc;

use anyhow::Result;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Handle;

use super::{Notes, PATIENCE};
use crate::target::Body;

/// An open watch.
pub struct Watch {
    /// The status code with which it began.
    pub status: u16,
    pub(super) entry: usize,
    pub(super) body: Option<Body>,
    pub(super) buffer: Vec<u8>,
    pub(super) runtime: Handle,
    pub(super) notes: Rc<Notes>,
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
    pub fn event(&mut self) -> Event {
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
        let event = self.event();
        if event.kind != kind || event.name() != name {
            let what = format!("{} of {:?}, and not {kind} of {name:?}", event.kind, event.name());
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
        let line = runtime
            .block_on(async { tokio::time::timeout(PATIENCE, next_line(body, buffer)).await? })?;
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
