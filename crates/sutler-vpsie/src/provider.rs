//! An account on VPSie as a provider.

mod capabilities;
mod contract;
mod create;
mod group;
mod id;
mod inventory;
mod managed;
mod off;
mod plans;
mod power;
mod proof;
pub mod raw;
mod remove;
mod show;
mod snapshots;
mod tasks;
mod turns;

use std::{sync::Arc, time::Duration};

use sutler_provider::{Clock, Credentials, Error, Result};

use crate::{
    client::{self, Connection, VpsieApi},
    settings::Settings,
};
use managed::Added;
use off::OffWanted;
use snapshots::Asked;
use tasks::Tasks;
use turns::Turns;

/// How often is looked for a machine that is to be switched off once it is there.
const POLL: Duration = Duration::from_secs(10);

/// An account on VPSie. Copies share everything.
#[derive(Clone)]
pub struct Vpsie(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    api: Arc<dyn VpsieApi>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    /// Who looks and then acts on one thing does it alone.
    turns: Turns,
    off: OffWanted,
    asked: Asked,
    added: Added,
    tasks: Tasks,
    poll: Duration,
}

impl std::fmt::Debug for Vpsie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vpsie").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Vpsie {
    /// An account, by a Provider's endpoint, Secret and options. Nothing is sent yet: whether VPSie is
    /// there and knows us is for [`validate`](sutler_provider::Provider::validate) to tell.
    pub fn new(
        endpoint: &str,
        credentials: &Credentials,
        insecure_skip_verify: bool,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let api = client::connect(&Connection {
            endpoint: endpoint.to_owned(),
            credentials: credentials.clone(),
            insecure_skip_verify,
            dialect: settings.dialect,
            project: settings.project.clone(),
            clock: clock.clone(),
        })?;
        Ok(Self::with_api(api, settings, clock))
    }

    /// An account that is reached by another implementation of the API.
    pub fn with_api(api: Arc<dyn VpsieApi>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self::polling(api, settings, clock, POLL)
    }

    /// The same, for those who do not want to wait for what is looked for time and again.
    pub fn polling(
        api: Arc<dyn VpsieApi>,
        settings: Settings,
        clock: Arc<dyn Clock>,
        poll: Duration,
    ) -> Self {
        let tasks = Tasks::new(clock.now());
        Self(Arc::new(Inner {
            api,
            settings,
            clock,
            turns: Turns::default(),
            off: OffWanted::default(),
            asked: Asked::default(),
            added: Added::default(),
            tasks,
            poll,
        }))
    }

    /// Does work to its end, whether or not its caller waits for it.
    async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match tokio::spawn(work).await {
            Ok(result) => result,
            Err(panic) => Err(Error::internal(format!("the work failed: {panic}"))),
        }
    }
}
