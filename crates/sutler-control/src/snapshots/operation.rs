//! Operations that tell of a snapshot being taken or deleted. They are made here and followed by the
//! controller of Operations, which looks at the snapshot's status.

use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use sutler_api::{
    names::{annotations, labels},
    refs::{LocalObjectRef, ObjectRef, TargetRef},
    sutler::{Operation, OperationSpec, OperationType, Requester},
};
use sutler_provider::platform_name;

use super::{Work, home::Reach};
use crate::{fleet::lock, machine::Error};

/// The kind that these Operations are about.
pub(crate) const KIND: &str = "VMSnapshot";

/// Makes the Operation, unless it is there. The same change always has the same name, so that a crash
/// never makes a second one.
pub(super) async fn begin(work: &Work, type_: OperationType, reach: &Reach) -> Result<(), Error> {
    if under_way(work).is_some() {
        return Ok(());
    }
    let base = platform_name(&work.key.name, &work.uid, 40).replace('.', "-");
    let name = format!("{base}-{type_}");
    let provider = &reach.connection.key;
    let ttl = work.context.settings.operation_ttl.as_secs();
    let now = work.context.clock.now();
    let requester = work.snapshot.annotations().get(annotations::REQUESTED_BY).cloned();
    let spec = OperationSpec {
        type_,
        target_ref: Some(TargetRef {
            api_version: Some("infra.virtrigaud.io/v1beta1".to_owned()),
            kind: KIND.to_owned(),
            name: work.key.name.clone(),
            namespace: None,
            uid: Some(work.uid.clone()),
        }),
        provider_ref: Some(ObjectRef {
            name: provider.name.clone(),
            namespace: Some(provider.namespace.clone()),
        }),
        agent_ref: None,
        params: None,
        idempotency_key: None,
        requested_by: Some(Requester {
            user: requester,
            source: Some("controller".to_owned()),
            ..Requester::default()
        }),
        requested_at: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
        timeout: sutler_api::duration::Duration::from("30m"),
        ttl_seconds_after_finished: Some(i32::try_from(ttl).unwrap_or(i32::MAX)),
        cancel: false,
    };
    let mut operation = Operation::new(&name, spec);
    operation.metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(work.key.namespace.clone()),
        labels: Some([(labels::CHANGE_OF.to_owned(), work.uid.clone())].into()),
        ..ObjectMeta::default()
    };
    let api: Api<Operation> = Api::namespaced(work.context.client.clone(), &work.key.namespace);
    match api.create(&PostParams::default(), &operation).await {
        Ok(_) => Ok(()),
        // Nothing but the telling depends on it: it is there, or the server does not let us.
        Err(kube::Error::Api(status)) if (400..429).contains(&status.code) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The Operation on the snapshot that has not ended.
pub(super) fn under_way(work: &Work) -> Option<LocalObjectRef> {
    let all = lock(&work.context.operations_index).under_way(KIND, &work.key);
    all.into_iter().next().map(|key| LocalObjectRef::new(&key.name))
}
