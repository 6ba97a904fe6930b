//! Machines that carry our token and have no record: reported before anything is done to them.
//!
//! A machine is an orphan when a complete inventory shows it with a token of this control plane and
//! a read of the API that began afterwards shows no record with the token's UID: a record is there
//! before its machine is asked for, so one that is being made never looks like an orphan.
//!
//! Orphans are only reported, unless the Provider carries the annotation `sutler.dev/reap-orphans`.
//! Then they are removed, at most `PER_SWEEP` after each inventory however many there are (a
//! mistake that makes all machines orphans must leave time to notice it), each after it was read of
//! in the Provider's status and after two sightings in inventories that began at least an interval
//! apart, and none while the provider is not well.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt as _, api::ListParams};
use sutler_api::{
    infra::{Orphan, Provider, VirtualMachine},
    names::annotations,
};
use sutler_provider::{DeleteRequest, MachineId, Owner, Proof, Token, guard::BreakerState};

use crate::{
    context::Context,
    fleet::{Connection, State, lock},
    plan::SEND_WINDOW,
    rules::{Rule, broken},
};

/// How many orphans are removed after one inventory.
const PER_SWEEP: usize = 10;

/// How many orphans a Provider tells of.
const REPORTED: usize = 1000;

/// How many events one sweep writes.
const EVENTS: usize = 10;

/// Sightings that are needed before an orphan is removed.
const SIGHTINGS: u32 = 2;

/// How long a removal is given before it is asked for again.
const REMOVAL: Duration = Duration::from_secs(300);

/// How many records one page of a list has.
const PAGE: u32 = 500;

/// A machine without a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// The token that it carries.
    pub token: Token,
    /// Its name on the platform.
    pub name: String,
    /// The host that it runs on.
    pub host: Option<String>,
    /// When an inventory first showed it without a record.
    pub first_seen: Timestamp,
    /// When one last did.
    pub last_seen: Timestamp,
    /// In how many inventories that were an interval apart.
    pub sightings: u32,
    /// When its removal was last asked for.
    removed_at: Option<Timestamp>,
}

/// A machine that may be an orphan.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    token: Token,
    name: String,
    host: Option<String>,
}

/// Looks for orphans in an inventory that has just become complete.
pub(crate) fn sweep(context: &Arc<Context>, connection: &Arc<Connection>) {
    let (as_of, candidates) = connection.inventory.read(|view| {
        let ours = view
            .iter()
            .filter(|seen| seen.machine.installation.as_ref() == Some(&context.installation));
        let index = lock(&context.index);
        let candidates: BTreeMap<MachineId, Candidate> = ours
            .filter_map(|seen| {
                let token = seen.machine.token.clone()?;
                let candidate = Candidate {
                    name: seen.machine.name.clone(),
                    host: seen.machine.host.clone(),
                    token,
                };
                let known = index.of_uid(&candidate.token.uid).is_some();
                (!known).then(|| (seen.machine.id.clone(), candidate))
            })
            .collect();
        (view.complete_as_of(), candidates)
    });
    let Some(as_of) = as_of else { return };
    if candidates.is_empty() {
        let had = connection.update(|state| !std::mem::take(&mut state.orphans).is_empty());
        if had {
            context.wake_provider(&connection.key);
        }
        return;
    }
    let busy = connection.update(|state| std::mem::replace(&mut state.sweeping, true));
    if busy {
        return;
    }
    let (context_, connection) = (context.clone(), connection.clone());
    context.tasks.spawn(async move {
        confirm(&context_, &connection, as_of, candidates).await;
        connection.update(|state| state.sweeping = false);
    });
}

/// The orphans of a platform, as its Provider reports them.
pub(crate) fn report(state: &State) -> Vec<Orphan> {
    let reported = state.orphans.iter().take(REPORTED);
    reported
        .map(|(id, orphan)| Orphan {
            id: id.0.clone(),
            name: Some(orphan.name.clone()),
            host: orphan.host.clone(),
            first_seen: Some(Time(orphan.first_seen)),
            last_seen: Some(Time(orphan.last_seen)),
            sightings: i32::try_from(orphan.sightings).ok(),
            message: Some(why(&orphan.token)),
        })
        .collect()
}

async fn confirm(
    context: &Arc<Context>,
    connection: &Arc<Connection>,
    as_of: Timestamp,
    mut candidates: BTreeMap<MachineId, Candidate>,
) {
    match records(context).await {
        Ok(uids) => candidates.retain(|_, candidate| !uids.contains(&candidate.token.uid)),
        Err(error) => {
            // What is not known is not concluded: nothing is counted, reported or removed.
            tracing::debug!(%error, provider = %connection.key, "orphans could not be confirmed");
            context.counters.count_api_error();
            return;
        }
    }
    let interval = connection.inventory.settings().interval;
    let (new, changed) = connection.update(|state| {
        let known = Arc::make_mut(&mut state.orphans);
        note(known, candidates, as_of, interval)
    });
    let Some(provider) = Context::cached(&context.providers, &connection.key) else { return };
    if changed {
        context.wake_provider(&connection.key);
    }
    for id in new.iter().take(EVENTS) {
        let message = format!("machine {id} carries our token and has no record");
        context.recorder.warn(provider.as_ref(), "OrphanFound", &message).await;
    }
    if new.len() > EVENTS {
        let message = format!("{} machines carry our token and have no record", new.len());
        context.recorder.warn(provider.as_ref(), "OrphansFound", &message).await;
    }
    if !new.is_empty() {
        tracing::warn!(provider = %connection.key, count = new.len(), "machines have no record");
    }
    reap(context, connection, &provider, as_of);
}

/// The UIDs of all records, read from the API and not from a cache.
async fn records(context: &Context) -> Result<BTreeSet<String>, kube::Error> {
    let api: Api<VirtualMachine> = Api::all(context.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut uids = BTreeSet::new();
    loop {
        let page = api.list_metadata(&params).await?;
        uids.extend(page.items.iter().filter_map(|record| record.uid()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(uids),
        }
    }
}

/// Takes a sighting in: tells which orphans are new, and whether what is reported has changed.
fn note(
    known: &mut BTreeMap<MachineId, Sighting>,
    candidates: BTreeMap<MachineId, Candidate>,
    as_of: Timestamp,
    interval: Duration,
) -> (Vec<MachineId>, bool) {
    let before = known.len();
    // An ID that another machine has now is another orphan.
    known.retain(|id, orphan| {
        candidates.get(id).is_some_and(|candidate| candidate.token == orphan.token)
    });
    let mut changed = known.len() != before;
    let mut new = Vec::new();
    for (id, candidate) in candidates {
        match known.get_mut(&id) {
            Some(orphan) => {
                let next = orphan.last_seen.saturating_add(interval).unwrap_or(Timestamp::MAX);
                if as_of >= next && as_of > orphan.last_seen {
                    orphan.last_seen = as_of;
                    orphan.sightings = orphan.sightings.saturating_add(1);
                    changed |= orphan.sightings == SIGHTINGS;
                }
                orphan.host = candidate.host;
            }
            None => {
                let Candidate { token, name, host } = candidate;
                let (first_seen, last_seen) = (as_of, as_of);
                let orphan = Sighting {
                    token,
                    name,
                    host,
                    first_seen,
                    last_seen,
                    sightings: 1,
                    removed_at: None,
                };
                known.insert(id.clone(), orphan);
                new.push(id);
                changed = true;
            }
        }
    }
    (new, changed)
}

/// Why a machine with this token counts as an orphan.
fn why(token: &Token) -> String {
    format!("it carries the token {token}, whose record is not there")
}

/// Whether people can read of an orphan, and not of another machine that had its ID.
fn is_reported(provider: &Provider, id: &MachineId, orphan: &Sighting) -> bool {
    let status = provider.status.as_ref();
    let why = why(&orphan.token);
    status.is_some_and(|status| {
        status.orphans.iter().any(|told| told.id == id.0 && told.message.as_ref() == Some(&why))
    })
}

/// Those that are removed now.
fn due(
    known: &mut BTreeMap<MachineId, Sighting>,
    needed: u32,
    now: Timestamp,
    reported: impl Fn(&MachineId, &Sighting) -> bool,
) -> Vec<MachineId> {
    let ready = known.iter_mut().filter(|(id, orphan)| {
        let asked = orphan.removed_at;
        let over = |at: Timestamp| now >= at.saturating_add(REMOVAL).unwrap_or(Timestamp::MAX);
        orphan.sightings >= needed && asked.is_none_or(over) && reported(id, orphan)
    });
    ready
        .take(PER_SWEEP)
        .map(|(id, orphan)| {
            orphan.removed_at = Some(now);
            id.clone()
        })
        .collect()
}

/// Removes orphans where that is asked for and nothing speaks against it.
fn reap(
    context: &Arc<Context>,
    connection: &Arc<Connection>,
    provider: &Arc<Provider>,
    as_of: Timestamp,
) {
    let wanted = provider.annotations().get(annotations::REAP_ORPHANS);
    if wanted.is_none_or(|wanted| wanted != "true")
        || provider.metadata.deletion_timestamp.is_some()
        || !is_well(connection)
    {
        return;
    }
    let hasty = broken(Rule::OrphansReportedFirst);
    let needed = if hasty { 1 } else { SIGHTINGS };
    let now = context.clock.now();
    let orphans = connection.update(|state| {
        let known = Arc::make_mut(&mut state.orphans);
        let due = due(known, needed, now, |id, orphan| hasty || is_reported(provider, id, orphan));
        let found = due.into_iter().filter_map(|id| Some((id.clone(), known.get(&id)?.clone())));
        found.collect::<Vec<_>>()
    });
    // Where nobody else wants a list, the second sighting would be long in coming.
    if connection.state().orphans.values().any(|orphan| orphan.sightings < needed) {
        let interval = connection.inventory.settings().interval;
        connection.inventory.want(as_of.saturating_add(interval).unwrap_or(Timestamp::MAX));
    }
    for (id, orphan) in orphans {
        let (context_, connection) = (context.clone(), connection.clone());
        let provider = provider.clone();
        context.tasks.spawn(async move {
            remove(&context_, &connection, &provider, id, orphan).await;
        });
    }
}

/// Whether the provider can be trusted with a removal that nobody asked for one by one.
fn is_well(connection: &Connection) -> bool {
    let state = connection.state();
    state.healthy == Some(true)
        && state.list_error.is_none()
        && connection.gate.breaker() == BreakerState::Closed
}

async fn remove(
    context: &Arc<Context>,
    connection: &Arc<Connection>,
    provider: &Provider,
    id: MachineId,
    orphan: Sighting,
) {
    let Sighting { token, name, sightings, first_seen, .. } = orphan;
    tracing::warn!(
        provider = %connection.key, %id, name, %token, sightings, %first_seen,
        "a machine without a record is removed"
    );
    let owner = Owner {
        token: token.clone(),
        installation: context.installation.clone(),
        namespace: String::new(),
        name: String::new(),
    };
    let proof = Proof { owner, name: Some(name.clone()) };
    let not_after = context.clock.now().saturating_add(SEND_WINDOW).unwrap_or(Timestamp::MAX);
    let request = DeleteRequest { id: id.clone(), proof };
    match connection.gate.delete(request, not_after).await {
        Ok(_) => {
            context.counters.count_reaped();
            // Its absence is observed, and then it is no longer reported.
            connection.inventory.want(context.clock.now() + Duration::from_millis(1));
            let message = format!("machine {id} ({name}) had no record and is removed");
            context.recorder.warn(provider, "OrphanRemoved", &message).await;
        }
        Err(error) => {
            tracing::warn!(provider = %connection.key, %id, %error, "an orphan was not removed");
            let message = format!("machine {id} ({name}) has no record: {}", error.message());
            context.recorder.warn(provider, "OrphanNotRemoved", &message).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn found(ids: &[(&str, &str)]) -> BTreeMap<MachineId, Candidate> {
        let candidate = |uid: &str| Candidate {
            token: Token::new(uid, 1),
            name: format!("m-{uid}"),
            host: None,
        };
        ids.iter().map(|(id, uid)| ((*id).into(), candidate(uid))).collect()
    }

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn sightings_count_when_an_interval_lies_between() {
        let mut known = BTreeMap::new();
        let (new, changed) = note(&mut known, found(&[("1", "a")]), at(100), INTERVAL);
        assert!(changed && new == ["1".into()]);
        note(&mut known, found(&[("1", "a")]), at(100), INTERVAL);
        note(&mut known, found(&[("1", "a")]), at(105), INTERVAL);
        assert_eq!(known[&"1".into()].sightings, 1);
        assert!(due(&mut known, SIGHTINGS, at(105), |_, _| true).is_empty());
        let (new, changed) = note(&mut known, found(&[("1", "a")]), at(110), INTERVAL);
        assert!(changed && new.is_empty());
        let orphan = &known[&"1".into()];
        assert_eq!((orphan.first_seen, orphan.last_seen), (at(100), at(110)));
        assert_eq!(due(&mut known, SIGHTINGS, at(110), |_, _| true), ["1".into()]);
        assert!(due(&mut known, SIGHTINGS, at(120), |_, _| true).is_empty(), "it was asked for");
        assert_eq!(due(&mut known, SIGHTINGS, at(410), |_, _| true), ["1".into()]);
    }

    #[test]
    fn nothing_goes_that_nobody_could_read_of() {
        let mut known = BTreeMap::new();
        note(&mut known, found(&[("1", "a")]), at(100), INTERVAL);
        note(&mut known, found(&[("1", "a")]), at(110), INTERVAL);
        let mut provider: Provider = serde_json::from_value(serde_json::json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "metadata": { "name": "p" }, "spec": { "type": "sim", "endpoint": "sim://" },
        }))
        .unwrap();
        let gone = |provider: &Provider, known: &mut BTreeMap<MachineId, Sighting>| {
            due(known, SIGHTINGS, at(110), |id, orphan| is_reported(provider, id, orphan)).len()
        };
        assert_eq!(gone(&provider, &mut known), 0);
        let state = State { orphans: Arc::new(known.clone()), ..State::default() };
        let mut told = report(&state);
        told[0].message = Some(why(&Token::new("b", 1)));
        provider.status.get_or_insert_default().orphans = told;
        assert_eq!(gone(&provider, &mut known), 0, "that was another machine of this ID");
        provider.status.get_or_insert_default().orphans = report(&state);
        assert_eq!(gone(&provider, &mut known), 1);
    }

    #[test]
    fn who_is_no_longer_seen_or_another_begins_anew() {
        let mut known = BTreeMap::new();
        note(&mut known, found(&[("1", "a"), ("2", "b")]), at(100), INTERVAL);
        let (new, _) = note(&mut known, found(&[("1", "c")]), at(110), INTERVAL);
        assert_eq!(new, ["1".into()]);
        assert_eq!(known.len(), 1);
        assert_eq!(known[&"1".into()].sightings, 1);
    }

    #[test]
    fn no_more_than_a_few_go_at_once_and_no_more_than_many_are_told() {
        let mut known = BTreeMap::new();
        let ids: Vec<String> = (0..1200).map(|number| format!("{number:05}")).collect();
        let pairs: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), id.as_str())).collect();
        note(&mut known, found(&pairs), at(100), INTERVAL);
        note(&mut known, found(&pairs), at(200), INTERVAL);
        assert_eq!(due(&mut known, SIGHTINGS, at(200), |_, _| true).len(), PER_SWEEP);
        let state = State { orphans: Arc::new(known), ..State::default() };
        let told = report(&state);
        assert_eq!(told.len(), REPORTED);
        assert!(told.is_sorted_by_key(|orphan| orphan.id.clone()));
        assert_eq!(told[0].sightings, Some(2));
    }
}
