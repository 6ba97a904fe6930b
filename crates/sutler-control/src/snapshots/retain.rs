//! How long a snapshot is kept.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Preconditions};
use sutler_api::infra::VMSnapshot;

use super::{Work, later, plan::Report};
use crate::machine::Error;

/// How long a snapshot is kept, and where it stands in that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// When its time is over.
    pub(super) expiry: Timestamp,
    /// Its time is over, and its grace period may not be.
    pub(super) expired: bool,
    /// Both are over.
    pub(super) over: bool,
    /// When that changes next.
    pub(super) next: Option<Timestamp>,
}

/// Whether a snapshot is deleted once its machine's record is gone.
pub(super) fn goes_with_its_machine(snapshot: &VMSnapshot) -> bool {
    snapshot.spec.retention_policy.clone().unwrap_or_default().delete_on_vm_delete
}

/// Whether a person wants to keep a snapshot whatever its age.
pub(super) fn is_pinned(snapshot: &VMSnapshot) -> bool {
    snapshot.spec.metadata.as_ref().is_some_and(|metadata| metadata.pinned)
}

/// The term of a snapshot that was taken; none where it has no end.
pub(super) fn term(snapshot: &VMSnapshot, report: &Report, now: Timestamp) -> Option<Term> {
    let policy = snapshot.spec.retention_policy.clone().unwrap_or_default();
    if !report.ready || policy.preserve_pinned && is_pinned(snapshot) {
        return None;
    }
    let age = policy.max_age.as_ref()?.to_std().ok()?;
    let grace = policy.grace_period.to_std().unwrap_or_default();
    let known = snapshot.status.as_ref().and_then(|status| status.creation_time.as_ref());
    let seen = report.found.as_ref().and_then(|found| found.created_at);
    let taken = seen.or(known.map(|Time(at)| *at))?;
    let expiry = later(taken, age);
    let end = later(expiry, grace);
    let (expired, over) = (now >= expiry, now >= end);
    let next = match (expired, over) {
        (false, _) => Some(expiry),
        (true, false) => Some(end),
        (true, true) => None,
    };
    Some(Term { expiry, expired, over, next })
}

/// Deletes the object; its finalizer sees to the rest.
pub(super) async fn delete(work: &Work, reason: &str, message: &str) -> Result<(), Error> {
    work.context.recorder.note(work.snapshot.as_ref(), reason, message).await;
    delete_exactly(work, &work.key.name, Some(work.uid.clone())).await
}

/// Deletes the VMSnapshot of this name and UID in the namespace of `work`.
pub(super) async fn delete_exactly(
    work: &Work,
    name: &str,
    uid: Option<String>,
) -> Result<(), Error> {
    let exactly = Preconditions { uid, resource_version: None };
    match work.api().delete(name, &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sutler_api::infra::SnapshotPhase;

    use super::*;

    fn term_of(policy: Value, pinned: bool, now: &str) -> Option<Term> {
        let snapshot = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
            "metadata": { "name": "a", "namespace": "ns", "uid": "u" },
            "spec": {
                "vmRef": { "name": "web" }, "retentionPolicy": policy,
                "metadata": { "pinned": pinned },
            },
            "status": { "creationTime": "2026-01-01T00:00:00Z" },
        }))
        .unwrap();
        let report = Report {
            phase: SnapshotPhase::Ready,
            ready: true,
            reason: String::new(),
            message: String::new(),
            stalled: false,
            waits: None,
            percent: None,
            found: None,
            told: None,
        };
        term(&snapshot, &report, now.parse().unwrap())
    }

    #[test]
    fn age_ends_in_two_steps() {
        let day = json!({ "maxAge": "24h", "gracePeriod": "2h" });
        let at = |now| {
            let term = term_of(day.clone(), false, now).unwrap();
            (term.expired, term.over)
        };
        assert_eq!(at("2026-01-01T23:59:59Z"), (false, false));
        assert_eq!(at("2026-01-02T00:00:00Z"), (true, false));
        assert_eq!(at("2026-01-02T02:00:00Z"), (true, true));
    }

    #[test]
    fn what_is_pinned_stays() {
        let now = "2027-01-01T00:00:00Z";
        assert_eq!(term_of(json!({ "maxAge": "24h" }), true, now), None);
        let gone = term_of(json!({ "maxAge": "24h", "preservePinned": false }), true, now);
        assert!(gone.unwrap().over);
        assert_eq!(term_of(json!({}), false, now), None);
    }
}
