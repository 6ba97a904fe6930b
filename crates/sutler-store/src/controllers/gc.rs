//! The garbage collector: dependents of what is gone go too, unless somebody else owns them;
//! owners that wait for their dependents are let go when those are.
//!
//! Memory holds the owner references of objects that have some, and nothing of the others.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use sutler_kv::engine::Change;

use super::{
    At, System,
    feed::{Feed, Tick},
    note,
};
use crate::{
    codec::{self, Owner},
    object,
    read::{get, list},
    registry::Resource,
    status::ApiError,
    write::delete::{self, DeleteOptions, FOREGROUND, ORPHAN},
};

/// How long a failed step waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);

pub(super) async fn run(system: System) {
    let mut collector = Collector::new(system);
    // Subscribed first: what is read afterwards is at least as new as the first change told.
    let mut feed = Feed::open(&collector.system.inner, |_| true);
    collector.scan_until_done().await;
    loop {
        while let Some(tick) = feed.ready() {
            collector.take(tick).await;
        }
        collector.work().await;
        let tick = if collector.todo.is_empty() {
            feed.next().await
        } else {
            // Something failed: go on with news, or try again after a pause.
            match tokio::time::timeout(RETRY, feed.next()).await {
                Ok(tick) => tick,
                Err(_) => continue,
            }
        };
        match tick {
            Some(tick) => collector.take(tick).await,
            None => return,
        }
    }
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// See whether its owners still hold it.
    Check(Place),
    /// It is being deleted and waits for its dependents.
    Owner(Place),
}

struct Collector {
    system: System,
    /// The owners of objects that have some.
    owners: HashMap<Place, Vec<Owner>>,
    /// The objects that name a uid as owner.
    dependents: HashMap<String, BTreeSet<Place>>,
    todo: BTreeSet<Task>,
}

impl Collector {
    fn new(system: System) -> Self {
        let (owners, dependents, todo) = Default::default();
        Self { system, owners, dependents, todo }
    }

    async fn take(&mut self, tick: Tick) {
        match tick {
            Tick::Change(resource, change) => self.learn(&resource, &change),
            Tick::Missed => self.scan_until_done().await,
        }
    }

    async fn scan_until_done(&mut self) {
        while let Err(error) = self.scan().await {
            note("reading all objects for garbage collection", &error);
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Looks at every object once.
    async fn scan(&mut self) -> Result<(), ApiError> {
        self.owners.clear();
        self.dependents.clear();
        let inner = self.system.inner.clone();
        for resource in inner.registry.iter().filter(|r| !r.converted) {
            let (mut after, mut at) = (None, None);
            loop {
                let page = list::page(&inner, resource, "", after, 500, at).await?;
                for record in &page.records {
                    let glance = codec::glance(&record.value)?.metadata;
                    let place = place(resource, &record.key);
                    self.observe(place, glance);
                }
                if page.remaining == 0 {
                    break;
                }
                at = Some(page.version);
                after = page.records.last().map(|r| r.key.to_string());
            }
        }
        Ok(())
    }

    fn learn(&mut self, resource: &Resource, change: &Change) {
        let place = place(resource, &change.key);
        let Ok(glance) = codec::glance(&change.value) else { return };
        let glance = glance.metadata;
        if change.deleted {
            self.forget(&place);
            for owner in &glance.owners {
                self.wake_owner(&place, owner);
            }
            for dependent in self.dependents.get(&glance.uid).into_iter().flatten() {
                self.todo.insert(Task::Check(dependent.clone()));
            }
        } else {
            // An owner that is no longer named has one dependent less to wait for.
            for owner in self.owners.get(&place).cloned().into_iter().flatten() {
                if !glance.owners.contains(&owner) {
                    self.wake_owner(&place, &owner);
                }
            }
            self.observe(place, glance);
        }
    }

    fn observe(&mut self, place: Place, glance: codec::GlanceMeta) {
        let waits = glance.finalizers.iter().any(|f| f == FOREGROUND || f == ORPHAN);
        if glance.deleting.is_some() && waits {
            self.todo.insert(Task::Owner(place.clone()));
        }
        let known = self.owners.get(&place);
        if known.map_or(glance.owners.is_empty(), |owners| *owners == glance.owners) {
            return;
        }
        self.forget(&place);
        if glance.owners.is_empty() {
            return;
        }
        for owner in &glance.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(place.clone());
        }
        self.todo.insert(Task::Check(place.clone()));
        self.owners.insert(place, glance.owners);
    }

    fn forget(&mut self, place: &Place) {
        for owner in self.owners.remove(place).into_iter().flatten() {
            if let Some(places) = self.dependents.get_mut(&owner.uid) {
                places.remove(place);
                if places.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    fn wake_owner(&mut self, dependent: &Place, owner: &Owner) {
        if let Some((_, place)) = self.owner_place(dependent, owner) {
            self.todo.insert(Task::Owner(place));
        }
    }

    /// Where an owner must be: in the dependent's namespace, or in none.
    fn owner_place(&self, dependent: &Place, owner: &Owner) -> Option<(Arc<Resource>, Place)> {
        let registry = &self.system.inner.registry;
        let resource = registry.find_kind(&owner.api_version, &owner.kind)?;
        let namespace =
            if resource.namespaced { dependent.namespace.clone() } else { String::new() };
        let place = Place {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace,
            name: owner.name.clone(),
        };
        Some((resource.clone(), place))
    }

    async fn work(&mut self) {
        let mut failed = BTreeSet::new();
        while let Some(task) = self.todo.pop_first() {
            let done = match &task {
                Task::Check(place) => self.check(place).await,
                Task::Owner(place) => self.release(place).await,
            };
            if let Err(error) = done {
                note("garbage collection", &error);
                if error.code != 404 {
                    failed.insert(task);
                }
            }
        }
        self.todo = failed;
    }

    fn resource(&self, place: &Place) -> Option<Arc<Resource>> {
        self.system.inner.registry.find_kind(&place.api_version, &place.kind).cloned()
    }

    async fn find(&self, place: &Place) -> Result<Option<Value>, ApiError> {
        let Some(resource) = self.resource(place) else { return Ok(None) };
        get::find(&self.system.ctx(), &resource, &place.namespace, &place.name).await
    }

    /// Deletes an object that nobody owns any more; drops references to owners that are gone.
    async fn check(&mut self, place: &Place) -> Result<(), ApiError> {
        let Some(resource) = self.resource(place) else { return Ok(()) };
        let Some(object) = self.find(place).await? else { return Ok(()) };
        let owners: Vec<Owner> = object::owners(&object)
            .filter_map(|owner| serde_json::from_value(owner.clone()).ok())
            .collect();
        if owners.is_empty() || (object::is_deleting(&object) && !waits_foreground(&object)) {
            return Ok(());
        }
        let (mut solid, mut gone, mut waiting) = (0, BTreeSet::new(), BTreeSet::new());
        for owner in &owners {
            match self.owner_state(place, owner).await? {
                OwnerState::Solid | OwnerState::Unknown => solid += 1,
                OwnerState::Gone => {
                    gone.insert(owner.uid.clone());
                }
                OwnerState::Waiting => {
                    waiting.insert(owner.uid.clone());
                }
            }
        }
        if gone.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        if solid > 0 {
            gone.extend(waiting);
            return self.drop_owners(&resource, place, &gone).await;
        }
        if object::is_deleting(&object) {
            return Ok(());
        }
        let has_dependents = self.dependents.contains_key(object::uid(&object));
        let policy = if !waiting.is_empty() && has_dependents {
            "Foreground"
        } else if object::finalizers(&object).any(|f| f == ORPHAN) {
            "Orphan"
        } else if object::finalizers(&object).any(|f| f == FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        let options = DeleteOptions::of(&json!({
            "propagationPolicy": policy,
            "preconditions": {
                "uid": object::uid(&object),
                "resourceVersion": object::meta_str(&object, "resourceVersion"),
            },
        }))?;
        let ctx = self.system.ctx();
        delete::delete_one(&ctx, &resource, &place.namespace, &place.name, &options).await?;
        Ok(())
    }

    async fn owner_state(&self, place: &Place, owner: &Owner) -> Result<OwnerState, ApiError> {
        let Some((resource, at)) = self.owner_place(place, owner) else {
            // A kind that is not served here: nothing is known of it, so nothing is done.
            return Ok(OwnerState::Unknown);
        };
        // A cluster-scoped object cannot have an owner in a namespace.
        if resource.namespaced && at.namespace.is_empty() {
            return Ok(OwnerState::Unknown);
        }
        Ok(match self.find(&at).await? {
            Some(found) if object::uid(&found) != owner.uid => OwnerState::Gone,
            Some(found) if waits_foreground(&found) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
            None => OwnerState::Gone,
        })
    }

    async fn drop_owners(
        &self,
        resource: &Arc<Resource>,
        place: &Place,
        gone: &BTreeSet<String>,
    ) -> Result<(), ApiError> {
        self.edit(resource, place, &|object| {
            let kept: Vec<Value> = object::owners(object)
                .filter(|o| o["uid"].as_str().is_none_or(|uid| !gone.contains(uid)))
                .cloned()
                .collect();
            let kept = (!kept.is_empty()).then_some(Value::Array(kept));
            object::set_meta(object, "ownerReferences", kept);
        })
        .await
    }

    /// Does what an owner under deletion waits for, and lets it go when that is done.
    async fn release(&mut self, place: &Place) -> Result<(), ApiError> {
        let Some(resource) = self.resource(place) else { return Ok(()) };
        let Some(owner) = self.find(place).await? else { return Ok(()) };
        if !object::is_deleting(&owner) {
            return Ok(());
        }
        let uid = object::uid(&owner).to_owned();
        let dependents: Vec<Place> =
            self.dependents.get(&uid).into_iter().flatten().cloned().collect();
        if object::finalizers(&owner).any(|f| f == ORPHAN) {
            let gone = BTreeSet::from([uid]);
            for dependent in &dependents {
                if let Some(resource) = self.resource(dependent) {
                    match self.drop_owners(&resource, dependent, &gone).await {
                        Err(error) if error.code != 404 => return Err(error),
                        _ => {}
                    }
                }
            }
            return self.drop_finalizer(&resource, place, ORPHAN).await;
        }
        if !waits_foreground(&owner) {
            return Ok(());
        }
        let blocking = dependents.iter().any(|dependent| {
            let owners = self.owners.get(dependent).into_iter().flatten();
            owners.filter(|o| o.uid == uid).any(|o| o.block_owner_deletion == Some(true))
        });
        if !blocking {
            return self.drop_finalizer(&resource, place, FOREGROUND).await;
        }
        for dependent in dependents {
            self.todo.insert(Task::Check(dependent));
        }
        Ok(())
    }

    async fn drop_finalizer(
        &self,
        resource: &Arc<Resource>,
        place: &Place,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        self.edit(resource, place, &|object| {
            object::drop_finalizers(object, |f| f == finalizer);
        })
        .await
    }

    async fn edit(
        &self,
        resource: &Arc<Resource>,
        place: &Place,
        change: &(dyn Fn(&mut Value) + Sync),
    ) -> Result<(), ApiError> {
        let Place { namespace, name, .. } = place;
        self.system.edit(At { resource, namespace, name, subresource: "" }, change).await
    }
}

enum OwnerState {
    Solid,
    Gone,
    /// It is there, and waits for its dependents to go.
    Waiting,
    Unknown,
}

fn waits_foreground(object: &Value) -> bool {
    object::is_deleting(object) && object::finalizers(object).any(|f| f == FOREGROUND)
}

fn place(resource: &Resource, key: &str) -> Place {
    let rest = key.strip_prefix(&resource.prefix).unwrap_or(key);
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    Place {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: namespace.into(),
        name: name.into(),
    }
}
