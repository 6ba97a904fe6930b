//! What a group says.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt as _;
use sutler_api::{
    autoscaler::{NodeCondition, NodeGroup, NodeGroupStatus, NodeInfo, VPSieNode, removal},
    names::{condition_types, labels, reasons},
};

use super::{Member, Plan, Trouble, time};
use crate::{conditions, context::Context, scale::Source};

/// What a status is made from.
pub(super) struct Said<'a> {
    pub(super) group: &'a NodeGroup,
    pub(super) members: &'a BTreeMap<String, Member>,
    pub(super) records: &'a [Arc<VPSieNode>],
    pub(super) plan: &'a Plan,
    pub(super) trouble: Option<&'a Trouble>,
    /// What is not as it should be and does not stand in the way.
    pub(super) warning: Option<&'a str>,
    /// What its scaling has to say.
    pub(super) scaling: crate::scale::Said,
    pub(super) now: Timestamp,
}

/// The next status.
pub(super) fn next(said: &Said<'_>) -> NodeGroupStatus {
    let Said { group, members, now, .. } = said;
    let generation = group.metadata.generation;
    let mut status = group.status.clone().unwrap_or_default();
    let count = |test: &dyn Fn(&Member) -> bool| {
        i32::try_from(members.values().filter(|member| test(member)).count()).unwrap_or(i32::MAX)
    };
    let live = count(&|member| !member.deleting);
    let made = i32::try_from(said.plan.make.len()).unwrap_or_default();
    let ready = count(&|member| !member.deleting && member.ready);
    let failed = count(&|member| !member.deleting && member.failed);
    let wanted = removal::target_size(group);
    match wanted.cmp(&status.desired_nodes) {
        Ordering::Greater if grew(said, &status) => {
            status.last_scale_time = time(*now);
            status.last_scale_up_time = time(*now);
        }
        Ordering::Less => {
            status.last_scale_time = time(*now);
            status.last_scale_down_time = time(*now);
        }
        // The size is what it was before a node was sent away that then stayed: nothing has come of it.
        Ordering::Greater | Ordering::Equal => {}
    }
    // What was just made is there, though a cache may not show it yet.
    let seen = i32::try_from(said.records.len()).unwrap_or_default();
    status.current_nodes = live.max((seen + made).min(live));
    status.desired_nodes = wanted;
    status.ready_nodes = ready;
    status.failed_nodes = Some(failed);
    status.selector = Some(format!("{}={}", labels::NODE_GROUP, group.name_any()));
    status.nodes = said.records.iter().map(|record| info(record)).collect();
    status
        .nodes
        .sort_by(|a, b| (&a.node_name, &a.instance_id).cmp(&(&b.node_name, &b.instance_id)));
    let platform = said.records.iter().find_map(|record| record.spec.vpsie_group_id);
    status.vpsie_group_id = platform.or(status.vpsie_group_id);
    status.observed_generation = generation;
    let list = &mut status.conditions;
    let set = |list: &mut Vec<NodeCondition>, type_: &str, value, reason: &str, message: &str| {
        conditions::set(list, type_, Some(value), reason, message, generation, *now);
    };
    let leaving = removal::removing(group).map(|names| names.len()).unwrap_or_default();
    let stalled = said.plan.too_many_failures
        || said.trouble.is_some_and(|trouble| trouble.reason == reasons::INVALID);
    // Where nothing more is done until a person acts, only what is under way moves.
    let coming = count(&|member| !member.deleting && !member.failed && !member.ready) > 0;
    let moving = coming
        || leaving > 0
        || count(&|member| member.deleting) > 0
        || (ready != wanted && !stalled);
    let counts = format!("{ready} of {wanted} nodes are ready");
    let (well, reason, message) = match said.trouble {
        Some(trouble) => (false, trouble.reason, trouble.message.clone()),
        None if said.plan.too_many_failures => {
            let message = format!(
                "{counts}; {failed} records have failed and no more are made in their place: look at \
                 them and delete them"
            );
            (false, reasons::TOO_MANY_FAILURES, message)
        }
        None if ready >= wanted => (true, reasons::READY, counts),
        None => (false, reasons::SCALING, counts),
    };
    set(list, condition_types::READY, well, reason, &message);
    let scaling = if moving { reasons::SCALING } else { "Steady" };
    set(list, condition_types::SCALING, moving, scaling, &message);
    let least = group.spec.min_nodes;
    let at_least = wanted <= least;
    let text = format!("{wanted} nodes are wanted, and {least} is the least");
    set(list, condition_types::AT_MIN_CAPACITY, at_least, "Size", &text);
    let most = group.spec.max_nodes;
    let text = format!("{wanted} nodes are wanted, and {most} is the most");
    set(list, condition_types::AT_MAX_CAPACITY, wanted >= most, "Size", &text);
    let partly: Vec<String> = said.scaling.partly.iter().cloned().chain(not_taken(group)).collect();
    let partly = (!partly.is_empty()).then(|| partly.join("; "));
    for (type_, what) in [
        (condition_types::SCALE_UP_HELD, &said.scaling.grow),
        (condition_types::SCALE_DOWN_HELD, &said.scaling.shrink),
        (condition_types::CHEAPER, &said.scaling.proposal),
        (condition_types::NOT_SCALED, &said.scaling.unfit),
        (condition_types::PARTLY_SERVED, &partly),
    ] {
        match what {
            Some(why) => set(list, type_, true, "Decided", why),
            None => conditions::clear(list, type_),
        }
    }
    match &said.scaling.load {
        Some(Source::Measured) => {
            let message = "how busy nodes are is what metrics.k8s.io says";
            set(list, condition_types::LOAD_MEASURED, true, "NodeMetrics", message);
        }
        Some(Source::Requested { why }) => {
            let message = format!("what pods ask for counts as load: {why}");
            set(list, condition_types::LOAD_MEASURED, false, "Requests", &message);
        }
        None => conditions::clear(list, condition_types::LOAD_MEASURED),
    }
    match (stalled, said.trouble, said.warning) {
        (true, _, _) => set(list, condition_types::ERROR, true, reason, &message),
        (false, Some(trouble), _) if trouble.reason != reasons::DELETING => {
            set(list, condition_types::ERROR, true, trouble.reason, &trouble.message);
        }
        (false, _, Some(warning)) => {
            set(list, condition_types::ERROR, true, "ClusterRefNotUsed", warning);
        }
        (false, _, None) => conditions::clear(list, condition_types::ERROR),
    }
    match stalled {
        true => set(list, condition_types::STALLED, true, reason, &message),
        false => conditions::clear(list, condition_types::STALLED),
    }
    status
}

/// Whether a group that is to be larger than it said so far gets nodes for it. One whose drain was given up
/// has them: they were there when it last changed.
fn grew(said: &Said<'_>, status: &NodeGroupStatus) -> bool {
    let Some(last) = &status.last_scale_time else { return true };
    let stays = |member: &&Member| !member.deleting && !member.failed;
    let well = said.members.values().filter(stays);
    let older = well.filter(|member| member.made < last.0.as_second()).count();
    usize::try_from(removal::target_size(said.group)).is_ok_and(|wanted| older < wanted)
}

/// What a group says and nobody can carry out: a platform decides about the nodes of its own groups, and of
/// a machine that has a class nothing is said in VPSie's words.
fn not_taken(group: &NodeGroup) -> Option<String> {
    let spec = &group.spec;
    let managed = spec.class_ref.is_none();
    let said = [
        ("spec.osImageID", spec.os_image_id.is_some()),
        ("spec.kubernetesVersion", spec.kubernetes_version.is_some()),
        ("spec.sshKeyIDs", !spec.ssh_key_ids.is_empty()),
        ("spec.project", spec.project.is_some()),
        ("spec.notes", spec.notes.is_some()),
        ("spec.tags", managed && !spec.tags.is_empty()),
        ("spec.resourceIdentifier", !managed && spec.resource_identifier.is_some()),
        ("spec.kubeSizeID", !managed && spec.kube_size_id.is_some()),
    ];
    let why = match managed {
        true => "the platform decides this for the nodes of its own groups",
        false => {
            "the VMClass, the VMImage and spec.bootstrap say this of machines that have a class"
        }
    };
    changes_nothing(&said, why)
}

/// Names the fields that are said and carried out by nobody, and why.
pub(crate) fn changes_nothing(fields: &[(&str, bool)], why: &str) -> Option<String> {
    let said: Vec<&str> =
        fields.iter().filter_map(|(field, said)| said.then_some(*field)).collect();
    (!said.is_empty()).then(|| format!("{} changes nothing: {why}", said.join(", ")))
}

fn info(record: &VPSieNode) -> NodeInfo {
    let status = record.status.clone().unwrap_or_default();
    NodeInfo {
        node_name: status.node_name.unwrap_or_default(),
        vps_id: record.spec.vpsie_instance_id,
        instance_id: status.instance_id,
        instance_type: record.spec.instance_type.clone().unwrap_or_default(),
        status: status.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
        ip_address: record.spec.ip_address.clone(),
        created_at: status.created_at,
        ready_at: status.ready_at,
    }
}

/// Tells people about turning points.
pub(super) async fn tell(
    context: &Context,
    group: &NodeGroup,
    old: &NodeGroupStatus,
    new: &NodeGroupStatus,
) {
    let ready = |status: &NodeGroupStatus| {
        conditions::find(&status.conditions, condition_types::READY).cloned()
    };
    let (before, now) = (ready(old), ready(new));
    let Some(now) = now else { return };
    if before.is_some_and(|before| {
        (before.status, before.reason) == (now.status.clone(), now.reason.clone())
    }) {
        return;
    }
    let (reason, message) = (now.reason.unwrap_or_default(), now.message.unwrap_or_default());
    match conditions::find(&new.conditions, condition_types::ERROR).is_some() {
        true => context.recorder.warn(group, &reason, &message).await,
        false => context.recorder.note(group, &reason, &message).await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Leave, *};

    fn member(failed: bool) -> Member {
        Member {
            deleting: false,
            failed,
            ready: !failed,
            joined: true,
            leave: Leave::Open,
            made: 0,
        }
    }

    /// Whether a group says that it scales, which is to have so many nodes and has these.
    fn scales(wanted: i32, members: &[Member], too_many_failures: bool) -> bool {
        let spec = json!({ "minNodes": 0, "maxNodes": 9, "desiredNodes": wanted });
        let group = NodeGroup::new("g", serde_json::from_value(spec).unwrap());
        let members: BTreeMap<String, Member> =
            (1..).map(|number| format!("g-{number}")).zip(members.iter().cloned()).collect();
        let status = next(&Said {
            group: &group,
            members: &members,
            records: &[],
            plan: &Plan { too_many_failures, ..Plan::default() },
            trouble: None,
            warning: None,
            scaling: crate::scale::Said::default(),
            now: Timestamp::UNIX_EPOCH,
        });
        let found = conditions::find(&status.conditions, condition_types::SCALING);
        found.is_some_and(|scaling| scaling.status == "True")
    }

    #[test]
    fn a_drain_that_is_given_up_is_no_growth() {
        let spec = |nodes: i32| json!({ "minNodes": 0, "maxNodes": 9, "desiredNodes": nodes });
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let after = |nodes: i32, members: &[Member], status: NodeGroupStatus, second: i64| {
            let mut group = NodeGroup::new("g", serde_json::from_value(spec(nodes)).unwrap());
            group.status = Some(status);
            let members: BTreeMap<String, Member> =
                (1..).map(|number| format!("g-{number}")).zip(members.iter().cloned()).collect();
            next(&Said {
                group: &group,
                members: &members,
                records: &[],
                plan: &Plan::default(),
                trouble: None,
                warning: None,
                scaling: crate::scale::Said::default(),
                now: at(second),
            })
        };
        let old = Member { made: 10, ..member(false) };
        let first = after(2, &[old.clone(), old.clone()], NodeGroupStatus::default(), 11);
        assert_eq!(first.last_scale_up_time, time(at(11)));
        let smaller = after(1, &[old.clone(), old.clone()], first, 50);
        assert_eq!(smaller.last_scale_down_time, time(at(50)));
        // Its pods did not leave: it stays, and the group is as it was.
        let kept = after(2, &[old.clone(), old.clone()], smaller.clone(), 60);
        assert_eq!(kept.desired_nodes, 2);
        assert_eq!(
            (kept.last_scale_up_time, kept.last_scale_time),
            (time(at(11)), time(at(50))),
            "nothing has come of it"
        );
        // A third one is asked for meanwhile, whether its record is there yet or not.
        let young = Member { made: 60, ready: false, ..member(false) };
        for members in [vec![old.clone(), young, old.clone()], vec![old.clone(), old]] {
            let grown = after(3, &members, smaller.clone(), 60);
            assert_eq!(grown.last_scale_up_time, time(at(60)));
        }
    }

    #[test]
    fn what_nobody_can_carry_out_is_named() {
        let said = |mut spec: serde_json::Value| {
            spec["minNodes"] = json!(0);
            spec["maxNodes"] = json!(9);
            spec["desiredNodes"] = json!(0);
            not_taken(&NodeGroup::new("g", serde_json::from_value(spec).unwrap()))
        };
        assert_eq!(said(json!({ "resourceIdentifier": "c", "kubeSizeID": 3 })), None);
        let managed =
            said(json!({ "osImageID": "ubuntu", "tags": ["a"], "project": "p" })).unwrap();
        assert!(managed.starts_with("spec.osImageID, spec.project, spec.tags changes nothing"));
        let class = json!({ "classRef": { "name": "small" }, "tags": ["a"] });
        assert_eq!(said(class.clone()), None, "machines get these");
        let mut class = class;
        class["kubeSizeID"] = json!(3);
        assert!(said(class).unwrap().starts_with("spec.kubeSizeID changes nothing"));
    }

    #[test]
    fn defect_23_a_group_scales_only_while_something_is_done() {
        let well = || member(false);
        assert!(!scales(2, &[well(), well()], false), "no node of it may go, and none is to come");
        assert!(scales(3, &[well(), well()], false), "one is to come");
        assert!(scales(1, &[well(), well()], false), "one is to go");
        // It has stopped: only a person can do something.
        let failed = [member(true), member(true), member(true), member(true)];
        assert!(!scales(1, &failed, true));
        let coming = Member { ready: false, ..well() };
        assert!(scales(2, &[failed.as_slice(), &[coming]].concat(), true));
    }
}
