//! One call over the connection: its deadline, its errors, and which service carries it.

use std::{error::Error as _, sync::atomic::Ordering, time::Duration};

use sutler_provider::{CallClass, Error, Result};
use tonic::{Request, Response, Status, transport::Channel};

use super::Remote;
use crate::{
    pb::{base::provider_client::ProviderClient, extended::extensions_client::ExtensionsClient},
    status::{error_of, is_absent},
};

/// The largest message that is taken: a list of 10,000 machines has about 10 MB.
pub(super) const LARGEST: usize = 256 << 20;

/// How often a request that did not reach the provider goes out again by itself.
const ATTEMPTS: usize = 3;

/// A grace beyond the deadline, which the transport itself keeps.
const GRACE: Duration = Duration::from_secs(1);

macro_rules! methods {
    ($($name:ident,)*) => {
        /// The calls of the Extensions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Method {
            $($name,)*
        }

        impl Method {
            pub(super) const COUNT: u32 = [$(Self::$name),*].len() as u32;
        }
    };
}

methods! {
    Validate, Capabilities, Create, Clone, Delete, Power, Reconfigure, HardwareUpgrade, Migrate, Adopt,
    Disown, Describe, List, Events, TaskStatus, SnapshotCreate, SnapshotDelete, SnapshotRevert,
    ImagePrepare, ImageRemove, DiskInfo, DiskExport, DiskImport, KeptDisks, KeptDiskRemove, GuestExec,
    Console, Templates, Hosts,
}

pub(super) type Base = ProviderClient<Channel>;
pub(super) type Extended = ExtensionsClient<Channel>;

impl Remote {
    /// Calls the Extensions; none where they lack the call.
    pub(super) async fn extended<M, A, F>(
        &self,
        method: Method,
        class: CallClass,
        message: &M,
        send: impl Fn(Extended, Request<M>) -> F,
    ) -> Result<Option<A>>
    where
        M: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = class.deadline(&self.deadlines());
        self.extended_within(method, class.is_mutating(), deadline, message, send).await
    }

    /// The same, with a deadline of its own.
    pub(super) async fn extended_within<M, A, F>(
        &self,
        method: Method,
        mutating: bool,
        deadline: Duration,
        message: &M,
        send: impl Fn(Extended, Request<M>) -> F,
    ) -> Result<Option<A>>
    where
        M: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let bit = 1 << method as u32;
        if !self.0.options.extensions || self.0.absent.load(Ordering::Relaxed) & bit != 0 {
            return Ok(None);
        }
        let send = |channel, request| {
            send(Extended::new(channel).max_decoding_message_size(LARGEST), request)
        };
        match self.send(deadline, message, send).await? {
            Ok(answer) => Ok(Some(answer)),
            Err(status) if is_absent(&status) => {
                self.0.absent.fetch_or(bit, Ordering::Relaxed);
                Ok(None)
            }
            Err(status) => Err(error_of(&status, mutating)),
        }
    }

    /// Calls the base service.
    pub(super) async fn base<M, A, F>(
        &self,
        class: CallClass,
        message: &M,
        send: impl Fn(Base, Request<M>) -> F,
    ) -> Result<A>
    where
        M: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = class.deadline(&self.deadlines());
        let send =
            |channel, request| send(Base::new(channel).max_decoding_message_size(LARGEST), request);
        let answer = self.send(deadline, message, send).await?;
        answer.map_err(|status| error_of(&status, class.is_mutating()))
    }

    /// Sends a request, and again where it is certain that nobody has seen it.
    pub(super) async fn send<M, A, F>(
        &self,
        deadline: Duration,
        message: &M,
        send: impl Fn(Channel, Request<M>) -> F,
    ) -> Result<Result<A, Status>>
    where
        M: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut attempt = 1;
        loop {
            let mut request = Request::new(message.clone());
            request.set_timeout(deadline);
            let answer = tokio::time::timeout(deadline + GRACE, send(self.channel()?, request));
            return match answer.await {
                Ok(Ok(answer)) => Ok(Ok(answer.into_inner())),
                Ok(Err(status)) if attempt < ATTEMPTS && is_unseen(&status) => {
                    attempt += 1;
                    continue;
                }
                Ok(Err(status)) => Ok(Err(status)),
                Err(_) => Ok(Err(Status::deadline_exceeded(format!(
                    "{} did not answer within {deadline:?}",
                    self.0.address
                )))),
            };
        }
    }
}

/// Whether a request certainly reached nobody: it was still waiting when its connection closed, or
/// the server said that it closes and has not begun with this one.
fn is_unseen(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let leaving = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (leaving || refused);
        }
        source = error.source();
    }
    false
}

/// What the Extensions lack and nothing else has.
pub(super) fn lacks(what: &str) -> Error {
    Error::unsupported(format!("this provider cannot {what}: it does not serve that call"))
}
