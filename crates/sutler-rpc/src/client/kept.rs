//! Disks that outlive their machines, on a wire where not everybody knows of them.

use std::sync::atomic::Ordering;

use sutler_provider::{CallClass, CreateRequest, Error, Result};

use super::{
    Remote,
    call::{Extended, Method},
};
use crate::{base::payload::kept_field, pb::extended as pb};

impl Remote {
    /// Remembers whether the provider keeps disks.
    pub(super) fn set_keeps(&self, keeps: bool) {
        self.0.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Refuses kept disks where the provider does not say that it has them: one that does not know the
    /// field would make an ordinary disk, without a word.
    pub(super) async fn carries_kept(&self, request: &CreateRequest) -> Result<()> {
        let Some(index) = request.disks.iter().position(|disk| disk.kept.is_some()) else {
            return Ok(());
        };
        if !self.0.keeps.load(Ordering::Relaxed) {
            let ask = pb::GetCapabilitiesRequest {};
            let send = |mut client: Extended, request| async move {
                client.get_capabilities(request).await
            };
            let can = self.extended(Method::Capabilities, CallClass::Look, &ask, send).await?;
            self.set_keeps(can.is_some_and(|can| can.kept_disks));
        }
        match self.0.keeps.load(Ordering::Relaxed) {
            true => Ok(()),
            false => {
                let why = "this provider has no disks that outlive their machines";
                Err(Error::unsupported(why).at(kept_field(index)))
            }
        }
    }
}
