//! What happens on a host, told as it happens.
//!
//! libvirt tells that a domain was touched; what it is like now is looked at once things are quiet, and
//! sent to all who listen. Addresses come without an event: a machine that runs and has none yet is looked
//! at again, less and less often.

use std::{collections::HashMap, sync::Weak, time::Duration};

use futures::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use sutler_provider::{Event, EventStream, MachineId, Power};
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use crate::{
    host::{Inner, Libvirt},
    raw::Signal,
};

/// Events that a slow listener may be behind before it has lost some.
const BEHIND: usize = 4096;
/// What happens to one domain within this time is looked at once.
const QUIET: Duration = Duration::from_millis(30);
/// Looks for an address: the pause doubles up to [`SELDOM`], and then they end.
const LOOKS: u32 = 14;
const SELDOM: Duration = Duration::from_secs(30);
/// The pause before a lost connection is opened again.
const AGAIN: Duration = Duration::from_secs(2);

/// Those who listen.
pub(crate) struct Watch(broadcast::Sender<Event>);

impl Watch {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(BEHIND).0)
    }

    /// Everything that happens from now on.
    pub(crate) fn listen(&self) -> EventStream {
        let events = stream::unfold(self.0.subscribe(), |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Event::Lost, receiver)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        });
        events.boxed()
    }

    fn tell(&self, event: Event) {
        // Nobody listens: a list will tell it.
        drop(self.0.send(event));
    }

    fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// A domain that is to be looked at.
struct Due {
    at: Instant,
    /// How often it was looked at since something happened to it.
    looks: u32,
}

/// Looks at what was touched, until the provider is gone.
pub(crate) async fn run(host: Weak<Inner>, mut told: mpsc::UnboundedReceiver<Signal>) {
    let mut due: HashMap<Uuid, Due> = HashMap::new();
    // A guest that does not answer holds up nobody but itself.
    let mut looks = FuturesUnordered::new();
    let mut lost = None;
    loop {
        let next = due.values().map(|due| due.at).chain(lost).min();
        let wait = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = told.recv() => match signal {
                Some(Signal::Touched(uuid)) => {
                    due.insert(uuid, Due { at: Instant::now() + QUIET, looks: 0 });
                }
                Some(Signal::Closed) => {
                    let Some(host) = host.upgrade() else { return };
                    host.link.ended();
                    lost = Some(Instant::now() + AGAIN);
                }
                None => return,
            },
            () = wait => {
                let Some(host) = host.upgrade().map(Libvirt) else { return };
                let now = Instant::now();
                if lost.is_some_and(|at| at <= now) {
                    lost = reopen(&host).await;
                }
                let ready: Vec<Uuid> =
                    due.iter().filter(|(_, due)| due.at <= now).map(|(uuid, _)| *uuid).collect();
                for uuid in ready {
                    let Some(Due { looks: before, .. }) = due.remove(&uuid) else { continue };
                    let host = host.clone();
                    looks.push(async move { (uuid, look(&host, uuid, before).await) });
                }
            }
            Some((uuid, again)) = looks.next(), if !looks.is_empty() => {
                // What has happened since is looked at sooner.
                if let Some(again) = again {
                    due.entry(uuid).or_insert(again);
                }
            }
        }
    }
}

/// Opens a lost connection again, so that events go on; what happened in between only a list tells.
async fn reopen(host: &Libvirt) -> Option<Instant> {
    if !host.0.watch.is_heard() {
        return None;
    }
    match host.0.link.look(|_| Ok(())).await {
        Ok(()) => {
            host.0.watch.tell(Event::Lost);
            None
        }
        Err(error) => {
            tracing::warn!(endpoint = %host.0.link.endpoint(), "{error}");
            Some(Instant::now() + AGAIN)
        }
    }
}

/// Looks at a domain and tells of it. Says when it is to be looked at again, if it is.
async fn look(host: &Libvirt, uuid: Uuid, looks: u32) -> Option<Due> {
    if !host.0.watch.is_heard() {
        return None;
    }
    let pause = Duration::from_secs(1 << looks.min(5)).min(SELDOM);
    let again = (looks < LOOKS).then(|| Due { at: Instant::now() + pause, looks: looks + 1 });
    match host.show(&MachineId(uuid.to_string())).await {
        Ok(Some(machine)) => {
            let waits = machine.power == Power::On && machine.ips.is_empty();
            // Nothing new was learned by looking again.
            if looks == 0 || !waits {
                host.0.watch.tell(Event::Changed(Box::new(machine)));
            }
            again.filter(|_| waits)
        }
        Ok(None) => {
            host.0.addresses.forget(uuid);
            host.0.watch.tell(Event::Gone(MachineId(uuid.to_string())));
            None
        }
        Err(error) => {
            tracing::warn!(machine = %uuid, "{error}");
            again
        }
    }
}
