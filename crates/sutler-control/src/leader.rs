//! Leader election by a Lease: one process acts, the others wait.

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use sutler_provider::Clock;

use crate::context::Settings;

/// The Lease that the leader holds.
const NAME: &str = "sutler-controllers";

/// Runs what `act` makes whenever this process leads, and stops it when it no longer does. Ends when
/// what it runs ends by itself.
pub async fn lead<F, Fut>(client: Client, settings: &Settings, clock: &dyn Clock, act: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = ()>,
{
    let mut candidate = Candidate {
        api: Api::namespaced(client, &settings.namespace),
        identity: settings.identity.clone(),
        lease: settings.lease,
        seen: None,
    };
    loop {
        candidate.acquire(clock).await;
        tracing::info!(identity = candidate.identity, "leading");
        tokio::select! {
            biased;
            () = candidate.renew_while_leading(clock) => {
                tracing::warn!(identity = candidate.identity, "no longer leading");
            }
            () = act() => {
                candidate.give_up().await;
                return;
            }
        }
    }
}

struct Candidate {
    api: Api<Lease>,
    identity: String,
    lease: Duration,
    /// The version of the Lease that was last seen, and when by our own clock: another's clock may
    /// be wrong.
    seen: Option<(String, Timestamp)>,
}

impl Candidate {
    fn pause(&self) -> Duration {
        self.lease / 5
    }

    async fn acquire(&mut self, clock: &dyn Clock) {
        loop {
            match self.try_hold(clock.now()).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the leader's Lease could not be read"),
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// Renews until that fails for so long that another could lead.
    async fn renew_while_leading(&mut self, clock: &dyn Clock) {
        let mut renewed = clock.now();
        loop {
            tokio::time::sleep(self.pause()).await;
            let now = clock.now();
            let attempt = tokio::time::timeout(self.pause(), self.try_hold(now)).await;
            match attempt {
                Ok(Ok(true)) => renewed = now,
                Ok(Ok(false)) => return,
                Ok(Err(_)) | Err(_) => {
                    let silent = Duration::try_from(clock.now().duration_since(renewed));
                    if silent.unwrap_or_default() >= self.lease * 2 / 3 {
                        return;
                    }
                }
            }
        }
    }

    /// Takes or renews the Lease if nobody else has it.
    async fn try_hold(&mut self, now: Timestamp) -> Result<bool, kube::Error> {
        let Some(found) = self.api.get_opt(NAME).await? else {
            return conflict_is_no(
                self.api.create(&PostParams::default(), &self.wish(None, now)).await,
            );
        };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let holder = found.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let ours = holder.as_ref() == Some(&self.identity);
        let free = holder.is_none_or(|holder| holder.is_empty());
        if !ours && !free {
            let since = match &self.seen {
                Some((seen, since)) if *seen == version => *since,
                _ => {
                    self.seen = Some((version, now));
                    return Ok(false);
                }
            };
            if Duration::try_from(now.duration_since(since)).unwrap_or_default() < self.lease {
                return Ok(false);
            }
        }
        let wish = self.wish(Some(found), now);
        conflict_is_no(self.api.replace(NAME, &PostParams::default(), &wish).await)
    }

    fn wish(&self, found: Option<Lease>, now: Timestamp) -> Lease {
        let old = found.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = old.holder_identity.as_ref() == Some(&self.identity);
        let transitions = old.lease_transitions.unwrap_or(0);
        Lease {
            metadata: found.map_or_else(
                || ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
                |lease| ObjectMeta { managed_fields: None, ..lease.metadata },
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(self.lease.as_secs()).ok(),
                acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(if ours { transitions } else { transitions + 1 }),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Lets the next one lead at once.
    async fn give_up(&self) {
        let Ok(Some(mut lease)) = self.api.get_opt(NAME).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            return;
        }
        spec.holder_identity = None;
        lease.metadata.managed_fields = None;
        if let Err(error) = self.api.replace(NAME, &PostParams::default(), &lease).await {
            tracing::debug!(%error, "the leader's Lease was not given up");
        }
    }
}

fn conflict_is_no<T>(result: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}
