//! Images: users who change and delete them, and what must hold of them at every step.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rand::{Rng as _, rngs::StdRng};
use serde_json::{Value, json};
use sutler_api::{
    infra::{ImagePhase, VMImage, VirtualMachine},
    names::{annotations, finalizers, reasons},
};
use sutler_sim::Sim;

/// The image of all machines.
pub const NAME: &str = "debian";

/// The image that machines are made from.
pub fn manifest(template: &str) -> Value {
    json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMImage",
        "metadata": { "name": NAME, "namespace": "default" },
        "spec": { "source": { "custom": { "template": template } } },
    })
}

/// Somebody makes, changes or deletes the image.
pub async fn act(client: &Client, rng: &mut StdRng) {
    let api: Api<VMImage> = Api::namespaced(client.clone(), "default");
    let template = ["debian", "debian-12"][rng.random_range(0..2)];
    let Ok(there) = api.get_opt(NAME).await else { return };
    if there.is_none() {
        let image = serde_json::from_value(manifest(template)).expect("it can be read");
        let _ = api.create(&PostParams::default(), &image).await;
    } else if rng.random_bool(0.5) {
        let _ = api.delete(NAME, &DeleteParams::default()).await;
    } else {
        let source = json!({ "spec": { "source": { "custom": { "template": template } } } });
        let _ = api.patch(NAME, &PatchParams::default(), &Patch::Merge(source)).await;
    }
}

/// What has been seen of images so far.
#[derive(Default)]
pub struct Images {
    /// Those on record, by UID.
    records: BTreeMap<String, VMImage>,
    /// Whose each image on a platform is, as it was written down once.
    owners: BTreeMap<(String, String), String>,
    /// The sources that each had so far.
    sources: BTreeMap<String, BTreeSet<String>>,
}

impl Images {
    /// A record was written.
    pub fn written(&mut self, image: VMImage) {
        let uid = image.uid().unwrap_or_default();
        for (platform, names) in written_down(&image) {
            let owned = names.into_iter().map(|name| ((platform.clone(), name), uid.clone()));
            self.owners.extend(owned);
        }
        let source = serde_json::to_string(&image.spec.source).unwrap_or_default();
        self.sources.entry(uid.clone()).or_default().insert(source);
        self.records.insert(uid, image);
    }

    /// Whether this is on record.
    pub fn knows(&self, uid: &str) -> bool {
        self.records.contains_key(uid)
    }

    /// A record went off the books: nothing of it is left.
    pub fn gone(&mut self, uid: &str, sims: &BTreeMap<String, Sim>) -> Result<(), String> {
        self.records.remove(uid);
        self.left_behind(sims)
    }

    /// An image is about to be brought: that is on record, and it is not there yet.
    pub fn prepare_sent(
        &self,
        platform: &str,
        target: &str,
        force: bool,
        sim: &Sim,
    ) -> Result<(), String> {
        let owner = self.owners.get(&(platform.to_owned(), target.to_owned()));
        let Some(image) = owner.and_then(|uid| self.records.get(uid)) else {
            return Err(format!("images: {target} is brought, and no record says so"));
        };
        if !image.finalizers().iter().any(|name| name == finalizers::VM_IMAGE) {
            return Err(format!("images: {target} is brought for a record without a finalizer"));
        }
        match force && sim.images().iter().any(|there| there.name == target && there.ready) {
            true => Err(format!("images: {target} is brought again although it is there")),
            false => Ok(()),
        }
    }

    /// Whether a machine was there before the image that is going was deleted.
    pub fn outlives(&self, vm: &VirtualMachine) -> bool {
        let made = vm.metadata.creation_timestamp.as_ref().map(|made| made.0);
        let going = self.records.values().filter_map(|image| {
            image.metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0)
        });
        going.min().is_none_or(|deleted| made.is_some_and(|made| made < deleted))
    }

    /// An image is about to be removed: nobody wants it, and no machine on record stands on it. Of
    /// one that has no record any more only the platform knows, which refuses.
    pub fn remove_sent(&self, platform: &str, target: &str, on_record: bool) -> Result<(), String> {
        let owner = self.owners.get(&(platform.to_owned(), target.to_owned()));
        let image = owner.and_then(|uid| self.records.get(uid));
        if image.is_some_and(|image| image.metadata.deletion_timestamp.is_none()) {
            return Err(format!("images: {target} is removed although its record is there"));
        }
        match on_record {
            true => Err(format!("images: {target} is removed although machines use it")),
            false => Ok(()),
        }
    }

    /// Each platform has an image once per source, and none that is on no record.
    pub fn judge(&self, platform: &str, sim: &Sim) -> Result<(), String> {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for there in sim.images() {
            let owner = self.owners.get(&(platform.to_owned(), there.name.clone()));
            let Some(owner) = owner else {
                return Err(format!("images: {} is on no record", there.name));
            };
            *count.entry(owner).or_default() += 1;
        }
        let sources = |uid: &str| self.sources.get(uid).map_or(0, BTreeSet::len);
        match count.into_iter().find(|(uid, count)| *count > sources(uid)) {
            Some((uid, count)) => {
                Err(format!("images: {platform} has {count} of {uid}, which is too many"))
            }
            None => Ok(()),
        }
    }

    fn left_behind(&self, sims: &BTreeMap<String, Sim>) -> Result<(), String> {
        for (platform, sim) in sims {
            for there in sim.images() {
                let owner = self.owners.get(&(platform.clone(), there.name.clone()));
                if !owner.is_some_and(|uid| self.records.contains_key(uid)) {
                    return Err(format!("images: {} was left behind on {platform}", there.name));
                }
            }
        }
        Ok(())
    }

    /// After the calm: what is deleted is gone, unless machines use it.
    pub fn judge_end<'a>(
        &self,
        sims: &BTreeMap<String, Sim>,
        mut machines: impl Iterator<Item = &'a VirtualMachine>,
    ) -> Result<(), String> {
        self.left_behind(sims)?;
        let retained = sims.values().any(|sim| sim.images().iter().any(|there| there.used));
        let used = machines.next().is_some() || retained;
        let stuck = self.records.values().find(|image| image.metadata.deletion_timestamp.is_some());
        match stuck {
            Some(image) if !used => {
                Err(format!("image {} is still being deleted", image.name_any()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a machine may wait for its image for ever.
    pub fn excuses(&self, reason: &str) -> bool {
        let waits = [reasons::IMAGE_NOT_READY, reasons::REFERENCE_NOT_FOUND].contains(&reason);
        let helpless = |image: &VMImage| {
            let failed = image.status.as_ref().and_then(|status| status.phase.as_ref());
            image.metadata.deletion_timestamp.is_some()
                || matches!(failed, Some(ImagePhase::Failed))
        };
        waits && self.records.values().all(helpless)
    }
}

/// What an image is called on each platform, as it is written down.
fn written_down(image: &VMImage) -> BTreeMap<String, BTreeSet<String>> {
    let text = image.annotations().get(annotations::PREPARED_AS);
    let names: Option<BTreeMap<String, BTreeSet<String>>> =
        text.and_then(|text| serde_json::from_str(text).ok());
    let bare = |key: String| key.split_once('/').map_or(key.clone(), |(_, name)| name.to_owned());
    names.unwrap_or_default().into_iter().map(|(key, names)| (bare(key), names)).collect()
}
