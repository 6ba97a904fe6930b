//! Revisions of a set's template. Each is kept in a Secret, since a template may hold first-boot data
//! that nobody else should read, and is made before the first machine of it.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sutler_api::{
    infra::{VMSet, VMSetTemplate},
    names::labels,
};

use crate::{context::Context, machine::Error};

/// The type of the Secrets that hold a revision.
const TYPE: &str = "sutler.dev/vmset-revision";
const TEMPLATE: &str = "template";
const REVISION: &str = "revision";

/// How many different templates may have the same hash before that is given up.
const COLLISIONS: i32 = 100;

/// A revision's short name.
pub(crate) fn hash(template: &VMSetTemplate, collisions: i32) -> String {
    let text = json!({ "template": template, "collisions": collisions }).to_string();
    Sha256::digest(text.as_bytes()).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Sees to it that the present template is kept, and tells its hash and how many other templates had
/// the same.
pub(crate) async fn keep(
    context: &Arc<Context>,
    set: &VMSet,
    in_use: impl FnOnce() -> BTreeSet<String>,
) -> Result<(String, i32), Error> {
    let known = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let uid = set.uid().unwrap_or_default();
    let here = hash(&set.spec.template, known);
    if context.sets.memory(&uid, |memory| memory.kept.as_ref() == Some(&here)) {
        return Ok((here, known));
    }
    let api: Api<Secret> = secrets(context, set);
    for collisions in known..COLLISIONS {
        let hash = hash(&set.spec.template, collisions);
        let Some(found) = api.get_opt(&secret_name(set, &hash)).await? else {
            let history = history(&api, &uid).await?;
            let number = history.last().map_or(0, |(number, _)| *number) + 1;
            match api.create(&PostParams::default(), &secret(set, &hash, number)).await {
                Ok(_) => {}
                // Somebody else made it in between: it is looked at.
                Err(kube::Error::Api(status)) if status.code == 409 => continue,
                Err(error) => return Err(error.into()),
            }
            let mut in_use = in_use();
            in_use.insert(hash.clone());
            prune(&api, set, history, &in_use).await?;
            return Ok(kept(context, &uid, hash, collisions));
        };
        if read(&found, &uid).as_ref() == Some(&set.spec.template) {
            return Ok(kept(context, &uid, hash, collisions));
        }
    }
    Ok((here, known))
}

fn kept(context: &Context, uid: &str, hash: String, collisions: i32) -> (String, i32) {
    context.sets.memory(uid, |memory| memory.kept = Some(hash.clone()));
    (hash, collisions)
}

/// The template of a revision, where it is still kept.
pub(crate) async fn template(
    context: &Context,
    set: &VMSet,
    hash: &str,
) -> Result<Option<VMSetTemplate>, Error> {
    let found = secrets(context, set).get_opt(&secret_name(set, hash)).await?;
    Ok(found.and_then(|secret| read(&secret, &set.uid().unwrap_or_default())))
}

fn secrets(context: &Context, set: &VMSet) -> Api<Secret> {
    Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default())
}

fn secret_name(set: &VMSet, hash: &str) -> String {
    // With the hash it is at most as long as names may be.
    let name: String = set.name_any().chars().take(240).collect();
    format!("{name}-{hash}")
}

fn secret(set: &VMSet, hash: &str, number: i64) -> Secret {
    let template = serde_json::to_vec(&set.spec.template).unwrap_or_default();
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(set, hash)),
            labels: Some(
                [
                    (labels::VM_SET_UID.to_owned(), set.uid().unwrap_or_default()),
                    (labels::REVISION.to_owned(), hash.to_owned()),
                ]
                .into(),
            ),
            owner_references: Some(set.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: Some(
            [
                (TEMPLATE.to_owned(), ByteString(template)),
                (REVISION.to_owned(), ByteString(number.to_string().into_bytes())),
            ]
            .into(),
        ),
        immutable: Some(true),
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    }
}

fn read(secret: &Secret, uid: &str) -> Option<VMSetTemplate> {
    let ours = secret.labels().get(labels::VM_SET_UID).is_some_and(|owner| owner == uid);
    let data = secret.data.as_ref()?.get(TEMPLATE).filter(|_| ours)?;
    serde_json::from_slice(&data.0).ok()
}

/// The revisions that are kept, the oldest first.
async fn history(api: &Api<Secret>, uid: &str) -> Result<Vec<(i64, Secret)>, Error> {
    let ours = ListParams::default().labels(&format!("{}={uid}", labels::VM_SET_UID));
    let number = |secret: &Secret| {
        let number = secret.data.as_ref().and_then(|data| data.get(REVISION));
        number.and_then(|number| std::str::from_utf8(&number.0).ok()?.parse().ok()).unwrap_or(0)
    };
    let list = api.list(&ours).await?.items.into_iter();
    let mut all: Vec<_> = list.map(|secret| (number(&secret), secret)).collect();
    all.sort_by_key(|(number, _)| *number);
    Ok(all)
}

/// Lets old revisions go that no machine has, as far as there are more than wanted.
async fn prune(
    api: &Api<Secret>,
    set: &VMSet,
    history: Vec<(i64, Secret)>,
    in_use: &BTreeSet<String>,
) -> Result<(), Error> {
    let used = |secret: &Secret| {
        secret.labels().get(labels::REVISION).is_some_and(|hash| in_use.contains(hash))
    };
    let old: Vec<Secret> =
        history.into_iter().map(|(_, secret)| secret).filter(|secret| !used(secret)).collect();
    let limit = usize::try_from(set.spec.revision_history_limit).unwrap_or(0);
    let too_many = old.len().saturating_sub(limit);
    for secret in old.into_iter().take(too_many) {
        let exactly = Preconditions { uid: secret.uid(), resource_version: None };
        let params = DeleteParams::default().preconditions(exactly);
        match api.delete(&secret.name_any(), &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
