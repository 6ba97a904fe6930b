//! When a platform was last asked to bring an image, as it is written down before each time it is: what
//! was asked for and never answered may come after its own removal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use sutler_api::{infra::OnMissing, names::annotations};
use sutler_provider::Capabilities;

use super::{Work, status_key};
use crate::{
    fleet::{Key, lock},
    plan::settled_at,
};

/// The last time that a platform was asked, and how often it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) at: Timestamp,
    pub(super) times: u32,
}

impl Work {
    /// What is written down, by Provider.
    pub(super) fn asked(&self) -> BTreeMap<String, Asked> {
        let text = self.image.annotations().get(annotations::PREPARE_ASKED);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Whether a Provider is about to be asked, and that is not yet written down.
    pub(super) fn is_to_be_written(&self, provider: &Key) -> bool {
        let prepare = self.image.spec.prepare.as_ref();
        let imports = prepare.is_none_or(|prepare| prepare.on_missing == OnMissing::Import);
        let rests = self.resting(provider).is_some() || self.on_record(provider).is_some();
        imports && !rests && !self.may_ask(provider)
    }

    /// Whether this process wrote down that it asks now, and has not asked since.
    pub(super) fn may_ask(&self, provider: &Key) -> bool {
        let entry = (self.uid.clone(), provider.clone());
        let noted = lock(&self.context.asks).get(&entry).copied();
        noted.is_some() && noted == self.asked().get(&provider.to_string()).map(|asked| asked.times)
    }

    /// Until when something may come that a platform was asked for; none where every answer is known.
    pub(super) fn open_until(
        &self,
        provider: &Key,
        capabilities: &Capabilities,
    ) -> Option<Timestamp> {
        let asked = *self.asked().get(&provider.to_string())?;
        let entry = (self.uid.clone(), provider.clone());
        let all_known = lock(&self.context.imports)
            .get(&entry)
            .is_some_and(|import| import.asks == asked.times && import.unanswered == 0);
        let status = self.image.status.as_ref();
        let there = status
            .and_then(|status| status.provider_status.get(&status_key(&self.key, provider)))
            .is_some_and(|there| there.available);
        let end = settled_at(asked.at, capabilities);
        let known = all_known || there && asked.times == 1;
        (!known).then_some(end)
    }
}
