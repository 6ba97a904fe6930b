//! The controller of NodeGroups: as many records as there should be nodes.

mod members;
mod plan;
mod provider;
pub(crate) mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{
        DeleteParams, ListParams, ObjectMeta, PartialObjectMeta, Patch, PatchParams, PostParams,
        Preconditions,
    },
    runtime::controller::Action,
};
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::{
        NodeGroup, VPSieNode, VPSieNodeSpec,
        next_nodes::{self, NextNode},
        removal::{self, REMOVING},
    },
    names::{MANAGER, annotations, finalizers, labels, reasons},
    refs::ObjectRef,
};
use sutler_control::kit::{Key, lock, status_difference, version_of};

pub use members::Members;
pub use plan::{Leave, MOST, Member, Plan, REPLACED, Wanted, free_names, name_of, plan};

use crate::{
    cluster,
    context::{Context, key_of},
    node::Error,
};

/// The pause after which a group is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(600);

/// The pause after something that a person or another object stands in the way of.
const BLOCKED: Duration = Duration::from_secs(15);

/// The pause after a write that is followed by more.
const AGAIN: Duration = Duration::from_millis(50);

/// The pause after a write that came too late, unless the watch is quicker.
const LATE: Duration = Duration::from_secs(1);

/// Requests to the API that are under way at the same time.
const TOGETHER: usize = 8;

/// What stands in a group's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// In a word.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// The next try after an error of the API.
pub(crate) fn error_policy(group: Arc<NodeGroup>, error: &Error, _: Arc<Context>) -> Action {
    let Error::Api(source) = error;
    let (group, error) = (key_of(group.as_ref()), source as &dyn std::error::Error);
    tracing::debug!(%group, error, "a group is tried again");
    Action::requeue(Duration::from_secs(2))
}

/// Looks at one group.
pub(crate) async fn reconcile(
    cached: Arc<NodeGroup>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let group = freshest(&context, cached);
    let key = key_of(group.as_ref());
    let ours = group.finalizers().iter().any(|name| name == finalizers::NODE_GROUP);
    if group.metadata.deletion_timestamp.is_some() {
        return drain(&context, &group, &key, ours).await;
    }
    // Others are somebody else's, and left alone.
    if !removal::is_managed(&group) {
        return Ok(Action::await_change());
    }
    if !ours {
        let mut names = group.finalizers().to_vec();
        names.push(finalizers::NODE_GROUP.to_owned());
        let body = json!({ "metadata": { "finalizers": names } });
        return Ok(Action::requeue(write(&context, &group, body).await?));
    }
    let listed = match removal::removing(&group) {
        Ok(listed) => listed,
        Err(error) => {
            let trouble = Trouble { reason: reasons::UNREADABLE, message: error.to_string() };
            return say(&context, &group, &key, &Plan::default(), Some(trouble)).await;
        }
    };
    if let Some(trouble) = refusal(&group) {
        return say(&context, &group, &key, &Plan::default(), Some(trouble)).await;
    }
    let size = removal::target_size(&group);
    let wanted = wanted(&group, listed);
    let members = lock(&context.members).of_group(&key);
    let next = plan(&wanted, &members);
    // A wish for a record that is there, or that is no longer to be made, is over.
    let wishes = next_nodes::next_nodes(&group);
    let mut open = wishes.clone();
    open.retain(|name, _| next.make.contains(name));
    // Which records go, and how many stay, is on record before one of them is touched.
    let next_size = next.size.and_then(|size| i32::try_from(size).ok());
    let size = next_size.unwrap_or(size);
    if next.removing.is_some() || group.spec.desired_nodes != size || open != wishes {
        let mut body = json!({});
        if open != wishes {
            let notes = json!({ annotations::NEXT_NODES: next_nodes::annotation(&open) });
            body["metadata"]["annotations"] = notes;
        }
        if group.spec.desired_nodes != size {
            body["spec"] = json!({ "desiredNodes": size });
        }
        if let Some(removing) = &next.removing {
            body["metadata"]["annotations"][REMOVING] = list(removing);
        }
        let pause = write(&context, &group, body).await?;
        for name in wanted.removing.iter().chain(next.removing.iter().flatten()) {
            context.wake_record(&Key::new(&key.namespace, name));
        }
        return Ok(Action::requeue(pause));
    }
    let connected = cluster::of_group(&context, &group).await;
    let trouble = match connected {
        Err(message) => Some(Trouble { reason: "ClusterNotReachable", message }),
        Ok(_) if !next.make.is_empty() && is_behind(&context, &group, &key, &members).await? => {
            return Ok(Action::requeue(LATE));
        }
        Ok(_) => carry_out(&context, &group, &key, &next).await?,
    };
    say(&context, &group, &key, &next, trouble).await
}

/// What is wanted of a group whose records in `removing` are to leave.
pub(crate) fn wanted(group: &NodeGroup, removing: BTreeSet<String>) -> Wanted {
    Wanted {
        name: group.name_any(),
        size: usize::try_from(removal::target_size(group)).unwrap_or_default(),
        most: usize::try_from(group.spec.max_nodes).unwrap_or_default(),
        removing,
    }
}

/// What a group asks for that cannot be.
fn refusal(group: &NodeGroup) -> Option<Trouble> {
    let all: Vec<String> =
        sutler_admission::impossible(group).iter().map(ToString::to_string).collect();
    let message = all.join("; ");
    (!all.is_empty()).then_some(Trouble { reason: reasons::INVALID, message })
}

/// The records of a group, as the API itself has them.
async fn list_records(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
) -> Result<Vec<PartialObjectMeta<VPSieNode>>, Error> {
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &key.namespace);
    let selector = format!("{}={}", labels::NODE_GROUP, key.name);
    let mut there = api.list_metadata(&ListParams::default().labels(&selector)).await?.items;
    let uid = group.uid();
    there.retain(|node| node.owner_references().iter().any(|o| Some(&o.uid) == uid.as_ref()));
    Ok(there)
}

/// Whether there are records that the cache does not show yet. The next one's name is the first that is not
/// known to be taken: who knows others than somebody else would make as many again under other names.
async fn is_behind(
    context: &Context,
    group: &NodeGroup,
    key: &Key,
    members: &BTreeMap<String, Member>,
) -> Result<bool, Error> {
    let there = list_records(context, group, key).await?;
    Ok(there.iter().filter(|node| node.metadata.deletion_timestamp.is_none()).any(|node| {
        let name = node.name_any();
        let counted = members.get(&name).is_some_and(|member| !member.deleting);
        let known = Context::cached(&context.records, &Key::new(&key.namespace, name));
        !counted && known.is_none_or(|known| known.uid() != node.uid())
    }))
}

/// Makes and deletes records as the plan says.
async fn carry_out(
    context: &Arc<Context>,
    group: &Arc<NodeGroup>,
    key: &Key,
    next: &Plan,
) -> Result<Option<Trouble>, Error> {
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &key.namespace);
    for name in &next.given_up {
        let message = format!("{name} stays in the group: its pods did not leave");
        context.recorder.warn(group.as_ref(), reasons::DRAIN_FAILED, &message).await;
    }
    for name in &next.delete {
        let known = Context::cached(&context.records, &Key::new(&key.namespace, name));
        let exactly = Preconditions {
            uid: known.as_ref().and_then(|known| known.uid()),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(exactly);
        match api.delete(name, &params).await {
            Ok(_) => {
                let message = format!("{name} has been drained and is removed");
                context.recorder.note(group.as_ref(), "Removed", &message).await;
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if next.make.is_empty() {
        return Ok(None);
    }
    if group.spec.provider_ref.is_none()
        && let Err(message) = provider::ensure(context).await?
    {
        return Ok(Some(Trouble { reason: reasons::PROVIDER_NOT_READY, message }));
    }
    let making: Vec<BoxFuture<'_, Result<Option<String>, kube::Error>>> =
        next.make.iter().map(|name| make(context, &api, group, name).boxed()).collect();
    let made: Vec<Result<Option<String>, kube::Error>> =
        stream::iter(making).buffered(TOGETHER).collect().await;
    for one in made {
        if let Some(message) = one? {
            return Ok(Some(Trouble { reason: reasons::INVALID, message }));
        }
    }
    Ok(None)
}

/// Makes one record; what stands in its way comes back.
async fn make(
    context: &Context,
    api: &Api<VPSieNode>,
    group: &NodeGroup,
    name: &str,
) -> Result<Option<String>, kube::Error> {
    let record = record_of(group, name);
    match api.create(&PostParams::default(), &record).await {
        Ok(fresh) => {
            lock(&context.members).put(&fresh);
            let message = format!("{name} was added");
            context.recorder.note(group, "Added", &message).await;
            Ok(None)
        }
        // A view that is behind: it is there, and will be seen.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            Ok(Some(status.message.clone()))
        }
        Err(error) => Err(error),
    }
}

/// The record of a group's node.
fn record_of(group: &NodeGroup, name: &str) -> VPSieNode {
    let spec = &group.spec;
    let managed = spec.class_ref.is_none();
    let wish = next_nodes::next_nodes(group).remove(name).unwrap_or_default();
    let usual = usual(group);
    let size = wish.size.or(usual.size);
    // The sizes of machines that have a class are classes.
    let class = spec.class_ref.clone().map(|class| match &size {
        Some(size) => ObjectRef { name: size.clone(), ..class },
        None => class,
    });
    VPSieNode {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: group.namespace(),
            labels: Some(
                [
                    (labels::MANAGED.to_owned(), "true".to_owned()),
                    (labels::NODE_GROUP.to_owned(), group.name_any()),
                ]
                .into(),
            ),
            annotations: Some(
                [(annotations::CREATION_REASON.to_owned(), reason_of(group).to_owned())].into(),
            ),
            owner_references: group.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: VPSieNodeSpec {
            node_group_name: group.name_any(),
            provider_ref: spec.provider_ref.clone(),
            class_ref: class,
            image_ref: spec.image_ref.clone(),
            vpsie_instance_id: managed.then_some(0),
            instance_type: size,
            datacenter_id: wish.place.or(usual.place),
            resource_identifier: spec.resource_identifier.clone(),
            project: spec.project.clone(),
            os_image_id: spec.os_image_id.clone(),
            kubernetes_version: spec.kubernetes_version.clone(),
            ssh_key_ids: spec.ssh_key_ids.clone(),
            ..VPSieNodeSpec::default()
        },
        status: None,
    }
}

/// What a node of a group is where nobody has wished for anything else.
pub(crate) fn usual(group: &NodeGroup) -> NextNode {
    let spec = &group.spec;
    let class = spec.class_ref.as_ref().map(|class| class.name.clone());
    let named = spec.preferred_instance_type.clone();
    let size = named.or(class).or_else(|| spec.offering_ids.first().cloned());
    NextNode { size, place: spec.datacenter_id.clone() }
}

/// Why a record is made, in upstream's words.
fn reason_of(group: &NodeGroup) -> &'static str {
    let status = group.status.as_ref();
    match status.is_none_or(|status| status.current_nodes == 0 && status.last_scale_time.is_none())
    {
        true => "initial",
        false => "manual",
    }
}

/// Lets a group's nodes go, and then the group.
async fn drain(
    context: &Arc<Context>,
    group: &Arc<NodeGroup>,
    key: &Key,
    ours: bool,
) -> Result<Action, Error> {
    if !ours {
        return Ok(Action::await_change());
    }
    let api: Api<VPSieNode> = Api::namespaced(context.client.clone(), &key.namespace);
    let members = lock(&context.members).of_group(key);
    if members.is_empty() {
        // The API itself has the last word: a cache may be behind.
        if !list_records(context, group, key).await?.is_empty() {
            return Ok(Action::requeue(BLOCKED));
        }
        let names: Vec<&String> =
            group.finalizers().iter().filter(|name| *name != finalizers::NODE_GROUP).collect();
        write(context, group, json!({ "metadata": { "finalizers": names } })).await?;
        lock(&context.group_paces).remove(&group.uid().unwrap_or_default());
        return Ok(Action::await_change());
    }
    for (name, member) in &members {
        if member.deleting {
            continue;
        }
        match api.delete(name, &DeleteParams::background()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let message = format!("{} nodes are still there", members.len());
    let trouble = Trouble { reason: reasons::DELETING, message };
    say(context, group, key, &Plan::default(), Some(trouble)).await
}

/// Writes what is other in the status.
async fn say(
    context: &Arc<Context>,
    group: &Arc<NodeGroup>,
    key: &Key,
    next: &Plan,
    trouble: Option<Trouble>,
) -> Result<Action, Error> {
    let now = context.clock.now();
    let members = lock(&context.members).of_group(key);
    let records = members
        .keys()
        .filter_map(|name| Context::cached(&context.records, &Key::new(&key.namespace, name)));
    let records: Vec<Arc<VPSieNode>> = records.collect();
    let warning = context.clusters.trouble(&cluster::Id::of(group));
    let said = status::Said {
        group,
        members: &members,
        records: &records,
        plan: next,
        trouble: trouble.as_ref(),
        warning: warning.as_deref(),
        scaling: lock(&context.scaling).get(key).cloned().unwrap_or_default(),
        now,
    };
    let new = status::next(&said);
    let old = group.status.clone().unwrap_or_default();
    if let Some(patch) = status_difference(&old, &new) {
        let uid = group.uid().unwrap_or_default();
        if let Err(wait) = lock(&context.group_paces).entry(uid).or_default().take(now) {
            return Ok(Action::requeue(wait));
        }
        let body = json!({
            "metadata": { "resourceVersion": group.resource_version(), "uid": group.uid() },
            "status": patch,
        });
        let api: Api<NodeGroup> = Api::namespaced(context.client.clone(), &key.namespace);
        let params = PatchParams::apply(MANAGER);
        match api.patch_status(&key.name, &params, &Patch::Merge(body)).await {
            Ok(fresh) => wrote(context, fresh),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                return Ok(Action::requeue(LATE));
            }
            Err(error) => return Err(error.into()),
        }
        status::tell(context, group, &old, &new).await;
    }
    Ok(Action::requeue(if trouble.is_some() { BLOCKED } else { RESYNC }))
}

/// Writes the group over exactly the version that was looked at, and tells when to look again.
async fn write(
    context: &Arc<Context>,
    group: &Arc<NodeGroup>,
    mut body: Value,
) -> Result<Duration, Error> {
    body["metadata"]["resourceVersion"] = json!(group.resource_version());
    body["metadata"]["uid"] = json!(group.uid());
    let namespace = group.namespace().unwrap_or_default();
    let api: Api<NodeGroup> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch(&group.name_any(), &params, &Patch::Merge(body)).await {
        Ok(fresh) => {
            wrote(context, fresh);
            Ok(AGAIN)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(LATE),
        Err(error) => Err(error.into()),
    }
}

fn wrote(context: &Context, mut fresh: NodeGroup) {
    fresh.metadata.managed_fields = None;
    let uid = fresh.uid().unwrap_or_default();
    lock(&context.written_groups).insert(uid, Arc::new(fresh));
}

/// The newer of the cached group and the one that our last write left.
fn freshest(context: &Context, cached: Arc<NodeGroup>) -> Arc<NodeGroup> {
    let uid = cached.uid().unwrap_or_default();
    let mut written = lock(&context.written_groups);
    match written.get(&uid) {
        Some(newer) if version_of(&**newer) > version_of(&*cached) => newer.clone(),
        _ => {
            written.remove(&uid);
            cached
        }
    }
}

/// The list of names as it is written down; nothing where there are none.
fn list(names: &BTreeSet<String>) -> Value {
    match names.is_empty() {
        true => Value::Null,
        false => json!(json!(names).to_string()),
    }
}

/// A time as the API writes it.
fn time(at: jiff::Timestamp) -> Option<Time> {
    Some(Time(at))
}

#[cfg(test)]
mod tests {
    use sutler_admission::{Kind, Operation, Who, check};

    use super::*;

    #[test]
    fn what_a_group_makes_is_taken_from_whoever_makes_it() {
        for spec in [
            json!({ "datacenterID": "dc", "resourceIdentifier": "c", "project": "p",
                "offeringIDs": ["small"], "kubernetesVersion": "v1.34.1" }),
            json!({ "providerRef": { "name": "p" }, "classRef": { "name": "small" },
                "imageRef": { "name": "i" } }),
        ] {
            let mut spec = spec;
            spec["minNodes"] = json!(0);
            spec["maxNodes"] = json!(5);
            let mut group = NodeGroup::new("web.a", serde_json::from_value(spec).unwrap());
            group.metadata.namespace = Some("ns".to_owned());
            assert_eq!(refusal(&group), None);
            let record = json!(record_of(&group, &name_of("web.a", 1)));
            let who = Who { user: "anybody", sutler: false };
            let said = check(Operation::Create, Kind::VpsieNode, None, Some(&record), &who);
            assert_eq!(said, Ok(Vec::new()), "{record:#}");
        }
    }

    #[test]
    fn what_a_group_cannot_be_is_said_where_nobody_checked_it() {
        let spec = json!({ "minNodes": 9, "maxNodes": 5, "labels": { "a b": "" } });
        let group = NodeGroup::new("web", serde_json::from_value(spec).unwrap());
        let trouble = refusal(&group).unwrap();
        assert_eq!(trouble.reason, reasons::INVALID);
        assert!(trouble.message.contains("spec.minNodes"), "{}", trouble.message);
        assert!(trouble.message.contains("spec.labels[a b]"), "{}", trouble.message);
    }
}
