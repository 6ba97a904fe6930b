//! What a record asks for after a start and before a stop.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use sutler_api::infra::{Lifecycle, LifecycleHandler, VirtualMachine};
use sutler_provider::{Error, ErrorKind, GuestCommand, MachineId, Proof, Result, guard::Gate};

use crate::{
    context::{Context, Slot},
    plan::Record,
    snapshots,
};

/// How long one part of a hook may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends requests to guests.
#[async_trait]
pub trait Web: Send + Sync + 'static {
    /// A GET request; any status below 400 is a success.
    async fn get(&self, url: &str, timeout: Duration) -> Result<()>;
}

/// Refuses every request.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWeb;

#[async_trait]
impl Web for NoWeb {
    async fn get(&self, url: &str, _: Duration) -> Result<()> {
        Err(Error::unsupported(format!("no request can be sent to {url} from here")))
    }
}

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After a start.
    PostStart,
    /// Before a stop.
    PreStop,
}

impl Moment {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::PostStart => "postStart",
            Self::PreStop => "preStop",
        }
    }
}

/// One hook of one machine.
pub(crate) struct Hook {
    pub(crate) moment: Moment,
    pub(crate) gate: Arc<Gate>,
    pub(crate) web: Arc<dyn Web>,
    pub(crate) id: MachineId,
    pub(crate) proof: Proof,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) addresses: Vec<String>,
    pub(crate) context: Arc<Context>,
    pub(crate) vm: Arc<VirtualMachine>,
}

impl Hook {
    /// Runs all parts that are set, in their order; the first that fails ends it.
    pub(crate) async fn run(self, found: Vec<String>) -> Result<()> {
        let handler = match self.moment {
            Moment::PostStart => &self.lifecycle.post_start,
            Moment::PreStop => &self.lifecycle.pre_stop,
        };
        let Some(handler) = handler else { return Ok(()) };
        self.exec(handler).await?;
        let address = found.first().or(self.addresses.first());
        self.http_get(handler, address).await?;
        // A snapshot of a machine that is about to be destroyed would be destroyed with it.
        match &handler.snapshot {
            Some(action) if self.vm.metadata.deletion_timestamp.is_none() => {
                snapshots::hook::run(&self.context, &self.vm, self.moment.as_str(), action).await
            }
            _ => Ok(()),
        }
    }

    async fn exec(&self, handler: &LifecycleHandler) -> Result<()> {
        let Some(exec) = &handler.exec else { return Ok(()) };
        let command = GuestCommand {
            id: self.id.clone(),
            proof: self.proof.clone(),
            command: exec.command.clone(),
            timeout: PATIENCE,
        };
        let output = self.gate.guest_exec(command, None).await?;
        match output.exit_code {
            0 => Ok(()),
            code => Err(Error::new(
                ErrorKind::Failed,
                format!("{}: the command ended with {code}", self.moment.as_str()),
            )),
        }
    }

    async fn http_get(&self, handler: &LifecycleHandler, address: Option<&String>) -> Result<()> {
        let Some(get) = &handler.http_get else { return Ok(()) };
        let host = get.host.as_ref().or(address).ok_or_else(|| {
            Error::unavailable("the machine has no address that a request could be sent to")
        })?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let scheme = get.scheme.as_str().to_lowercase();
        let path = get.path.as_deref().unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("{scheme}://{host}:{}{slash}{path}", get.port);
        self.web.get(&url, PATIENCE).await
    }
}

/// What the status says of this machine, and not of an earlier one of the record.
pub(crate) fn addresses(vm: &VirtualMachine, record: &Record, id: &MachineId) -> Vec<String> {
    let incarnation = record.intent.as_ref().map(|intent| intent.token.incarnation);
    let status = vm.status.as_ref().filter(|status| {
        status.id.as_ref() == Some(&id.0)
            && status.incarnation.and_then(|number| u32::try_from(number).ok()) == incarnation
    });
    status.map(|status| status.ips.clone()).unwrap_or_default()
}

/// How often a hook is tried before it is given up.
const TRIES: u32 = 3;

/// How often one is tried that could not be sent: a guest may take minutes to have an address.
const TRIES_UNSENT: u32 = 8;

/// What a hook's end means for what is remembered. A hook that keeps failing does not hold the
/// machine up for ever: it is given up, and an event says so.
pub(crate) fn note(
    slot: &mut Slot,
    moment: Moment,
    result: Result<()>,
    digest: &str,
    now: Timestamp,
) {
    let memory = &mut slot.memory;
    if moment == Moment::PreStop {
        let unheard = |error: &Error| error.kind() == ErrorKind::Unavailable;
        memory.pre_stop_unheard = result.as_ref().err().is_some_and(unheard);
    }
    let over = match result {
        Ok(()) => true,
        Err(error) => {
            let most = match error.kind() {
                ErrorKind::Unavailable => TRIES_UNSENT,
                _ => TRIES,
            };
            memory.fail("hook", error, digest, now);
            let failures = memory.failures.get("hook").map_or(0, |failure| failure.count);
            // What comes before a stop must not keep people from stopping; but while nobody can be
            // reached, nobody can be stopped either.
            (moment == Moment::PreStop && !memory.pre_stop_unheard) || failures >= most
        }
    };
    if over {
        memory.succeed("hook");
        match moment {
            Moment::PostStart => memory.post_started = true,
            Moment::PreStop => memory.pre_stopped = true,
        }
    }
}
