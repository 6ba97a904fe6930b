//! Any endpoint as a provider.

mod address;
mod call;
mod dial;
mod kept;
mod provider;
mod streams;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use sutler_provider::{Deadlines, Error, Result, UniqueBy};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

pub use address::{Address, BadAddress};
pub use dial::Refused;

use crate::{
    status::{error_of, is_absent},
    tls::{ClientSecurity, Security},
};

/// How an endpoint is used.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How the connection is protected.
    pub security: ClientSecurity,
    /// The name that the server's certificate must have; the address's host where there is none.
    pub server_name: Option<String>,
    /// How long calls may take, until the provider says it of itself.
    pub deadlines: Deadlines,
    /// How long it may take to connect.
    pub dial_timeout: std::time::Duration,
    /// Whether the Extensions are used where they are there.
    pub extensions: bool,
    /// What is taken to be unique on a platform whose provider has no Extensions, and so cannot say.
    pub unique_by: UniqueBy,
    /// How far behind the present the lists of such a provider may be: several platforms answer from
    /// a cache, and a machine that is missing there would be made again.
    pub list_lag: std::time::Duration,
}

impl RemoteOptions {
    /// The options for a connection that is protected like this.
    pub fn new(security: ClientSecurity) -> Self {
        Self {
            security,
            server_name: None,
            deadlines: Deadlines::default(),
            dial_timeout: std::time::Duration::from_secs(10),
            extensions: true,
            unique_by: UniqueBy::Name,
            list_lag: std::time::Duration::from_secs(15),
        }
    }
}

/// A provider at the other end of a connection, which is made when it is needed and made again when
/// it breaks. Clones are the same one.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    address: Address,
    options: RemoteOptions,
    /// The connection, and the generation of the certificates that it was made with.
    channel: Mutex<(u64, Channel)>,
    deadlines: Mutex<Deadlines>,
    /// Calls of the Extensions that are not there, by bit.
    absent: AtomicU64,
    /// Whether the provider has said that it keeps disks.
    keeps: AtomicBool,
    /// A channel that was handed in is never made anew.
    fixed: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({}, {})", self.0.address, self.security())
    }
}

impl Remote {
    /// The provider at this address. Nothing is sent before the first call.
    pub fn new(address: Address, options: RemoteOptions) -> Result<Self> {
        let channel = open(&address, &options)?;
        let generation = generation(&options.security);
        Ok(Self::with(address, options, (generation, channel), false))
    }

    /// The provider at the other end of a channel that somebody else keeps up, such as an agent's
    /// tunnel.
    pub fn over(channel: Channel, name: impl Into<String>, options: RemoteOptions) -> Self {
        Self::with(Address::Named(name.into()), options, (0, channel), true)
    }

    fn with(
        address: Address,
        options: RemoteOptions,
        channel: (u64, Channel),
        fixed: bool,
    ) -> Self {
        Self(Arc::new(Inner {
            address,
            deadlines: Mutex::new(options.deadlines),
            options,
            channel: Mutex::new(channel),
            absent: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            fixed,
        }))
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// How the connection is protected: what is not [`Security::MutualTls`] or [`Security::Local`]
    /// belongs into a condition and into the log.
    pub fn security(&self) -> Security {
        match (&self.0.address, &self.0.options.security) {
            (Address::Unix(_), ClientSecurity::Plaintext) => Security::Local,
            (_, ClientSecurity::Plaintext) => Security::Plaintext,
            (_, ClientSecurity::Tls { skip_verify: true, .. }) => Security::Unverified,
            (_, ClientSecurity::Tls { skip_verify: false, .. }) => Security::MutualTls,
        }
    }

    /// Whether the provider has any of the Extensions, as far as is known.
    pub fn has_extensions(&self) -> bool {
        let all = (1 << call::Method::COUNT) - 1;
        self.0.options.extensions && self.0.absent.load(Ordering::Relaxed) & all != all
    }

    /// Whether the provider's process says that it takes calls, by gRPC's own health service; none
    /// where it does not serve that. Whether its platform is well is another question, which
    /// [`validate`](sutler_provider::Provider::validate) answers.
    pub async fn serving(&self) -> Result<Option<bool>> {
        let request = HealthCheckRequest { service: String::new() };
        let deadline = self.deadlines().look;
        let send =
            |channel, request| async move { HealthClient::new(channel).check(request).await };
        match self.send(deadline, &request, send).await? {
            Ok(answer) => Ok(Some(answer.status() == ServingStatus::Serving)),
            Err(status) if is_absent(&status) => Ok(None),
            Err(status) => Err(error_of(&status, false)),
        }
    }

    /// The connection. Where the certificates were replaced, it is a new one; calls under way stay on
    /// the old one until they end.
    fn channel(&self) -> Result<Channel> {
        let mut current = self.0.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = generation(&self.0.options.security);
        if current.0 != generation && !self.0.fixed {
            *current = (generation, open(&self.0.address, &self.0.options)?);
        }
        Ok(current.1.clone())
    }

    fn deadlines(&self) -> Deadlines {
        *self.0.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_deadlines(&self, deadlines: Deadlines) {
        *self.0.deadlines.lock().unwrap_or_else(PoisonError::into_inner) = deadlines;
    }
}

fn generation(security: &ClientSecurity) -> u64 {
    match security {
        ClientSecurity::Tls { store, .. } => store.generation(),
        ClientSecurity::Plaintext => 0,
    }
}

fn open(address: &Address, options: &RemoteOptions) -> Result<Channel> {
    let host = options.server_name.clone().unwrap_or_else(|| address.host().to_owned());
    let scheme = match &options.security {
        ClientSecurity::Tls { .. } => "https",
        ClientSecurity::Plaintext => "http",
    };
    let uri = format!("{scheme}://{}", if host.contains(':') { format!("[{host}]") } else { host });
    let wrong = |_| Error::invalid("spec.runtime.endpoint", format!("{address} is no address"));
    let endpoint = Endpoint::from_shared(uri)
        .map_err(wrong)?
        .user_agent(concat!("sutler/", env!("CARGO_PKG_VERSION")))
        .map_err(wrong)?
        // A provider that answers slowly must not hold up the others' windows.
        .http2_adaptive_window(true);
    let dialer = dial::Dialer::new(address.clone(), options)?;
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let dialer = dialer.clone();
        async move { dialer.dial().await }
    })))
}
