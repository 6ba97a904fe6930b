//! Brings one image to one platform, in a task of its own.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value};
use sutler_api::{
    infra::{ImagePrepare, OnMissing, VMImage},
    names::reasons,
};
use sutler_provider::{
    Credentials, Error as ProviderError, ErrorKind, Image, Left, PrepareRequest, Prepared, Result,
    TaskId, TaskState, guard::Gate,
};

use super::{Stand, Work};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    machine::Error,
    rules::{Rule, broken},
};

/// The pause between two questions after a task.
const POLL: Duration = Duration::from_secs(2);

/// The pause before an image that somebody else has to put there is looked for again.
const LOOK: Duration = Duration::from_secs(30);

/// What this process knows of one image on one Provider.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    /// The generation of the image that this is about.
    pub(crate) generation: i64,
    /// Which try this is, so that a late answer to an earlier one changes nothing.
    try_: u64,
    /// Tries that failed and count.
    failures: u32,
    /// All tries that failed.
    setbacks: u32,
    since: Timestamp,
    /// How often this process asked for it.
    pub(super) asks: u32,
    /// How many of these were not answered, so that something may still come of them.
    pub(super) unanswered: u32,
    /// The image is being deleted: nothing more is brought.
    pub(super) cancelled: bool,
    pub(super) state: State,
}

/// How far it has come.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It is being asked for, or its task is under way.
    Coming { percent: Option<u8>, message: String },
    /// It is there.
    There { id: Option<String>, path: Option<String>, size: Option<u64> },
    /// Somebody else has to put it there.
    Missing { message: String, next: Timestamp },
    /// It failed, and is tried again then, or not before something changes.
    Failed { error: ProviderError, next: Option<Timestamp> },
}

impl Import {
    /// Whether it is to be tried, or looked for, again.
    pub(super) fn due(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Coming { .. } | State::There { .. } => false,
            State::Missing { next, .. } => *next <= now,
            State::Failed { next, .. } => next.is_some_and(|next| next <= now),
        }
    }

    pub(super) fn stand(&self) -> Stand {
        match &self.state {
            State::Coming { percent, message } => {
                Stand::Coming { percent: *percent, message: message.clone(), since: self.since }
            }
            State::There { id, path, size } => {
                Stand::There { id: id.clone(), path: path.clone(), size: *size }
            }
            State::Missing { message, next } => Stand::Waiting {
                reason: reasons::WAITING.to_owned(),
                message: message.clone(),
                next: Some(*next),
            },
            State::Failed { error, next } => {
                let field = error.field().map(|field| format!("{field}: ")).unwrap_or_default();
                let message = format!("{field}{}", error.message());
                let reason = error.kind().as_str().to_owned();
                match next {
                    Some(next) => Stand::Waiting { reason, message, next: Some(*next) },
                    None => Stand::Failed { reason, message },
                }
            }
        }
    }
}

/// Begins to bring an image to a platform.
pub(super) async fn begin(
    work: &Work,
    connection: &Arc<Connection>,
    source: Image,
) -> std::result::Result<Stand, Error> {
    let prepare = work.image.spec.prepare.clone().unwrap_or_default();
    let timeout = match prepare.timeout.to_std() {
        Ok(timeout) => timeout,
        Err(error) => {
            let message = format!("spec.prepare.timeout: {error}");
            return Ok(Stand::Failed { reason: reasons::INVALID.to_owned(), message });
        }
    };
    let credentials = match credentials(work, &source).await? {
        Ok(credentials) => credentials,
        Err(message) => {
            let reason = reasons::REFERENCE_NOT_FOUND.to_owned();
            return Ok(Stand::Waiting { reason, message, next: None });
        }
    };
    let request = PrepareRequest {
        image: source,
        target: work.target(),
        force: prepare.force.unwrap_or(false),
        verify: prepare.validate_checksum,
        options: options(&prepare),
        credentials,
    };
    let entry = (work.uid.clone(), connection.key.clone());
    let now = work.context.clock.now();
    let asks = prepare.on_missing == OnMissing::Import;
    if asks && !work.may_ask(&connection.key) && !broken(Rule::ImagesOnRecordFirst) {
        let message = "that it is asked for is written down first".to_owned();
        let next = now.checked_add(Duration::from_secs(1)).ok();
        return Ok(Stand::Waiting { reason: reasons::WAITING.to_owned(), message, next });
    }
    lock(&work.context.asks).remove(&entry);
    let message = "it is being brought to the platform".to_owned();
    let (try_, import) = {
        let mut imports = lock(&work.context.imports);
        let old = imports.get(&entry);
        let same = old.filter(|old| old.generation == work.generation);
        let import = Import {
            generation: work.generation,
            try_: old.map_or(0, |old| old.try_ + 1),
            failures: same.map_or(0, |old| old.failures),
            setbacks: same.map_or(0, |old| old.setbacks),
            since: now,
            asks: old.map_or(0, |old| old.asks) + u32::from(asks),
            unanswered: old.map_or(0, |old| old.unanswered) + u32::from(asks),
            cancelled: false,
            state: State::Coming { percent: None, message },
        };
        imports.insert(entry.clone(), import.clone());
        (import.try_, import)
    };
    let bring = Bring {
        context: work.context.clone(),
        image: work.key.clone(),
        entry,
        try_,
        gate: connection.gate.clone(),
        retries: u32::try_from(prepare.retries).unwrap_or(0),
        on_missing: prepare.on_missing,
        templates: connection.capabilities().is_some_and(|can| can.templates),
    };
    work.context.tasks.spawn(bring.run(request, timeout));
    Ok(import.stand())
}

/// One try at bringing an image.
struct Bring {
    context: Arc<Context>,
    image: Key,
    entry: (String, Key),
    try_: u64,
    gate: Arc<Gate>,
    retries: u32,
    on_missing: OnMissing,
    templates: bool,
}

impl Bring {
    async fn run(self, request: PrepareRequest, timeout: Duration) {
        let result = match self.on_missing {
            OnMissing::Import => match tokio::time::timeout(timeout, self.bring(request)).await {
                Ok(result) => result.map(|there| State::There {
                    id: there.id,
                    path: there.path,
                    size: there.size_bytes,
                }),
                Err(_) => Err(ProviderError::indeterminate(format!(
                    "it was not brought within {} seconds (spec.prepare.timeout)",
                    timeout.as_secs()
                ))),
            },
            OnMissing::Fail | OnMissing::Wait => self.look(&request).await,
        };
        self.note(result);
    }

    /// Asks for it, follows the task, and asks again until the platform says that it is there.
    async fn bring(&self, mut request: PrepareRequest) -> Result<Prepared> {
        loop {
            self.is_wanted()?;
            let prepared = self.gate.image_prepare(request.clone(), None).await?;
            let Some(task) = &prepared.task else { return Ok(prepared) };
            self.follow(task).await?;
            // Success is observed: the next answer tells it.
            request.force = false;
        }
    }

    async fn follow(&self, task: &TaskId) -> Result<()> {
        loop {
            match self.gate.task(task).await {
                Ok(TaskState::Running { percent, message }) => {
                    let message = message.unwrap_or_else(|| "it is being brought".to_owned());
                    self.set(State::Coming { percent, message });
                }
                // A task that nobody knows proves nothing.
                Ok(TaskState::Done { .. } | TaskState::Unknown) => return Ok(()),
                Ok(TaskState::Failed(error)) => return Err(error),
                Err(error) if error.kind().is_outage() => {}
                Err(error) => return Err(error),
            }
            self.is_wanted()?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Nothing is brought once its image is being deleted: it would come after its own removal.
    fn is_wanted(&self) -> Result<()> {
        let cancelled = match lock(&self.context.imports).get(&self.entry) {
            Some(import) => import.cancelled || import.try_ != self.try_,
            None => true,
        };
        match cancelled {
            // What was asked for before may still come.
            true => Err(ProviderError::indeterminate("the image is being deleted, or has changed")),
            false => Ok(()),
        }
    }

    /// Looks whether somebody has put it there.
    async fn look(&self, request: &PrepareRequest) -> Result<State> {
        if !self.templates {
            return Err(ProviderError::unsupported(
                "spec.prepare.onMissing: this provider cannot tell which images it has: use Import",
            ));
        }
        let image = &request.image;
        let names = [Some(&image.name), Some(&request.target), image.template.as_ref()];
        let templates = self.gate.templates().await?;
        let found = templates.into_iter().find(|template| {
            names.into_iter().flatten().any(|name| *name == template.name || *name == template.id)
                || image.path.as_ref().is_some_and(|path| *path == template.id)
        });
        match found {
            Some(template) => {
                let size = template.size_gib.map(|gib| gib << 30);
                Ok(State::There { id: Some(template.id), path: image.path.clone(), size })
            }
            None if self.on_missing == OnMissing::Wait => {
                let next = self.context.clock.now().saturating_add(LOOK);
                Ok(State::Missing {
                    message: "the platform does not have it: it is waited for, as \
                              spec.prepare.onMissing says"
                        .to_owned(),
                    next: next.unwrap_or(Timestamp::MAX),
                })
            }
            None => Err(ProviderError::invalid(
                "spec.prepare.onMissing",
                "the platform does not have it: put it there, or use Import",
            )),
        }
    }

    fn set(&self, state: State) {
        let changed = match lock(&self.context.imports).get_mut(&self.entry) {
            Some(import) if import.try_ == self.try_ => {
                import.state = state;
                true
            }
            _ => false,
        };
        if changed {
            Work::wake(&self.context, &self.image);
        }
    }

    fn note(self, result: Result<State>) {
        let now = self.context.clock.now();
        let unknown = |error: &ProviderError| error.kind().left() == Left::Unknown;
        if !result.as_ref().is_err_and(unknown)
            && self.on_missing == OnMissing::Import
            && let Some(import) = lock(&self.context.imports).get_mut(&self.entry)
        {
            import.unanswered = import.unanswered.saturating_sub(1);
        }
        let state = match result {
            Ok(state) => state,
            Err(error) => {
                let mut imports = lock(&self.context.imports);
                let Some(import) = imports.get_mut(&self.entry) else { return };
                if import.try_ != self.try_ {
                    return;
                }
                import.setbacks = import.setbacks.saturating_add(1);
                // A platform that was not reached has not failed at it.
                if error.kind() != ErrorKind::Unavailable {
                    import.failures = import.failures.saturating_add(1);
                }
                let next = next_try(&error, import.failures, import.setbacks, self.retries, now);
                tracing::debug!(image = %self.image, %error, ?next, "an image was not brought");
                State::Failed { error, next }
            }
        };
        self.set(state);
    }
}

/// When an image that could not be brought is tried again, if it is.
fn next_try(
    error: &ProviderError,
    failures: u32,
    setbacks: u32,
    retries: u32,
    now: Timestamp,
) -> Option<Timestamp> {
    if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) || failures > retries {
        return None;
    }
    let growing = Duration::from_secs(5 << setbacks.saturating_sub(1).min(6));
    let most = match error.kind() {
        ErrorKind::Unavailable => Duration::from_secs(60),
        _ => Duration::from_secs(300),
    };
    let pause = growing.min(most).max(error.pause().unwrap_or_default());
    Some(now.saturating_add(pause).unwrap_or(Timestamp::MAX))
}

/// Storage and conversions, as the provider gets them.
fn options(prepare: &ImagePrepare) -> Map<String, Value> {
    let mut options = Map::new();
    for (name, value) in [
        ("storage", serde_json::to_value(&prepare.storage)),
        ("optimization", serde_json::to_value(&prepare.optimization)),
    ] {
        if let Ok(value) = value
            && !value.is_null()
        {
            options.insert(name.to_owned(), value);
        }
    }
    options
}

/// How to log in where the image is downloaded, under the names that providers know.
async fn credentials(
    work: &Work,
    source: &Image,
) -> std::result::Result<std::result::Result<Credentials, String>, Error> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for wanted in wanted_secrets(&work.image, source) {
        let key = Key::new(&work.key.namespace, &wanted.secret);
        let Some(secret) = work.context.secret(&key).await? else {
            return Ok(Err(format!(
                "{}: Secret {} is not in namespace {}: create it",
                wanted.field, key.name, key.namespace
            )));
        };
        let data = secret.data.clone().unwrap_or_default();
        if wanted.keys.is_empty() {
            found.extend(data.into_iter().map(|(key, value)| (key, value.0)));
            continue;
        }
        for (name, in_secret) in wanted.keys {
            let Some(value) = data.get(&in_secret) else {
                return Ok(Err(format!(
                    "{}: Secret {} has no key {in_secret}",
                    wanted.field, key.name
                )));
            };
            found.push((name.to_owned(), value.0.clone()));
        }
    }
    Ok(Ok(found.into_iter().collect()))
}

struct WantedSecret {
    field: &'static str,
    secret: String,
    /// What providers call each value, and its key in the Secret; empty takes all as they are.
    keys: Vec<(&'static str, String)>,
}

fn wanted_secrets(image: &VMImage, source: &Image) -> Vec<WantedSecret> {
    let mut wanted = Vec::new();
    let http = image.spec.source.http.as_ref().filter(|_| source.source.contains_key("http"));
    if let Some(login) = http.and_then(|http| http.authentication.as_ref()) {
        if let Some(basic) = &login.basic_auth {
            wanted.push(WantedSecret {
                field: "spec.source.http.authentication.basicAuth.secretRef",
                secret: basic.secret_ref.name.clone(),
                keys: vec![
                    ("username", basic.username_key.clone()),
                    ("password", basic.password_key.clone()),
                ],
            });
        }
        if let Some(bearer) = &login.bearer {
            wanted.push(WantedSecret {
                field: "spec.source.http.authentication.bearer.secretRef",
                secret: bearer.secret_ref.name.clone(),
                keys: vec![("token", bearer.token_key.clone())],
            });
        }
        if let Some(cert) = &login.client_cert {
            wanted.push(WantedSecret {
                field: "spec.source.http.authentication.clientCert.secretRef",
                secret: cert.secret_ref.name.clone(),
                keys: vec![("tls.crt", cert.cert_key.clone()), ("tls.key", cert.key_key.clone())],
            });
        }
    }
    let registry = image.spec.source.registry.as_ref();
    let registry = registry.filter(|_| source.source.contains_key("registry"));
    if let Some(pull) = registry.and_then(|registry| registry.pull_secret_ref.as_ref()) {
        wanted.push(WantedSecret {
            field: "spec.source.registry.pullSecretRef",
            secret: pull.name.clone(),
            keys: Vec::new(),
        });
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_unless_nothing_was_reached() {
        let now = Timestamp::UNIX_EPOCH;
        let seconds = |error: &ProviderError, failures, setbacks| {
            next_try(error, failures, setbacks, 3, now).map(|at| at.as_second())
        };
        let failed = ProviderError::new(ErrorKind::Failed, "no");
        assert_eq!(seconds(&failed, 1, 1), Some(5));
        assert_eq!(seconds(&failed, 3, 3), Some(20));
        assert_eq!(seconds(&failed, 4, 4), None);
        assert_eq!(seconds(&ProviderError::unavailable("away"), 0, 99), Some(60));
        assert_eq!(seconds(&ProviderError::invalid("x", "no"), 1, 1), None);
    }

    #[test]
    fn what_is_said_of_storage_reaches_the_provider() {
        let prepare: ImagePrepare = serde_json::from_value(serde_json::json!({
            "storage": { "preferredFormat": "raw" },
        }))
        .unwrap();
        let options = options(&prepare);
        assert_eq!(options["storage"]["preferredFormat"], "raw");
        assert!(!options.contains_key("optimization"));
    }
}
