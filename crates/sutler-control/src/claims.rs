//! Exclusive claims on machines that can carry no token: a Lease per machine, which only one record
//! can create.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use sha2::{Digest as _, Sha256};
use sutler_api::names::labels;
use sutler_provider::MachineId;

use crate::{context::Context, fleet::Key, machine::Error, plan::Record};

/// Claims a machine for a record, and tells whether it has it now. A claim outlives the process that
/// made it, and comes again to the record that has it.
pub(crate) async fn claim(
    context: &Arc<Context>,
    provider: &Key,
    id: &MachineId,
    record: &Record,
) -> Result<bool, Error> {
    let api: Api<Lease> = Api::namespaced(context.client.clone(), &provider.namespace);
    let name = name_of(provider, id);
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some([(labels::PROVIDER.to_owned(), provider.name.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { holder_identity: Some(record.uid.clone()), ..LeaseSpec::default() }),
    };
    match api.create(&PostParams::default(), &lease).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let holder = api.get_opt(&name).await?.and_then(|lease| lease.spec);
            Ok(holder.and_then(|spec| spec.holder_identity).as_ref() == Some(&record.uid))
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives a record's claims up, before it goes off the books.
pub(crate) async fn release(context: &Arc<Context>, record: &Record) -> Result<(), Error> {
    let Some(id) = &record.id else { return Ok(()) };
    let vm = Context::cached(&context.machines, &Key::new(&record.namespace, &record.name));
    let Some(vm) = vm else { return Ok(()) };
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let connection = context.fleet.get(&provider);
    // Where machines carry tokens no claims were made.
    if connection.and_then(|c| c.capabilities()).is_none_or(|c| c.token) {
        return Ok(());
    }
    let api: Api<Lease> = Api::namespaced(context.client.clone(), &provider.namespace);
    let name = name_of(&provider, id);
    let Some(lease) = api.get_opt(&name).await? else { return Ok(()) };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
    if holder != Some(&record.uid) {
        return Ok(());
    }
    let exactly = Preconditions {
        uid: lease.metadata.uid,
        resource_version: lease.metadata.resource_version,
    };
    match api.delete(&name, &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn name_of(provider: &Key, id: &MachineId) -> String {
    let digest = Sha256::digest(format!("{provider}\n{id}").as_bytes());
    let hash: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("sutler-claim-{hash}")
}
