//! AutoscalerConfigs: settings for all groups together, and what new groups are like.

use std::collections::BTreeMap;

use sutler_api::autoscaler::{AutoscalerConfig, NodeGroupDefaults, NodeGroupSpec};
use sutler_scale::world::{Group, Settings};

use crate::{
    labels,
    node_group::listed,
    ratchet::{Findings, Problem},
    syntax,
};

/// The one that counts.
const NAME: &str = "default";

/// Everything that speaks against settings.
pub(crate) fn check(config: &AutoscalerConfig) -> Findings {
    let mut findings = Findings::default();
    let global = config.spec.global_settings.clone().unwrap_or_default();
    findings.problems.extend(Settings::read(&global).err().map(Problem::from));
    if let Some(defaults) = &config.spec.node_group_defaults {
        findings.problems.extend(of_defaults(defaults));
    }
    if config.metadata.name.as_deref() != Some(NAME) {
        findings.warnings.push(format!("only the AutoscalerConfig called {NAME} counts"));
    }
    findings
}

fn of_defaults(defaults: &NodeGroupDefaults) -> Vec<Problem> {
    const SPEC: &str = "spec.nodeGroupDefaults";
    let problem = |field: &str, message: String| {
        let field = format!("{SPEC}.{field}");
        Problem::new(&field, message).about(&[&field])
    };
    let mut problems = labels::impossible(SPEC, &defaults.labels, &defaults.taints);
    problems.extend(labels::reserved(SPEC, &defaults.labels, false));
    for error in Group::policy_errors(&as_group(defaults)) {
        let field = error.field.strip_prefix("spec.").unwrap_or(&error.field);
        let policy = field.split('.').next().unwrap_or_default();
        let about = format!("{SPEC}.{policy}");
        problems.push(problem(field, error.problem).about(&[&about]));
    }
    let (least, most) = (defaults.min_nodes, defaults.max_nodes);
    if least > most {
        let message = format!("{least} is above maxNodes {most}: lower it or raise maxNodes");
        let both = ["spec.nodeGroupDefaults.minNodes", "spec.nodeGroupDefaults.maxNodes"];
        problems.push(problem("minNodes", message).about(&both));
    }
    if least < 0 {
        problems.push(problem("minNodes", format!("{least} is below 0")));
    }
    if !syntax::is_label(&defaults.namespace) {
        problems.push(problem("namespace", format!("{:?} is no namespace", defaults.namespace)));
    }
    let version = defaults.kubernetes_version.as_deref();
    if let Some(version) = version.filter(|version| !syntax::is_version(version)) {
        let message = format!("{version:?} is no version of Kubernetes: write it as v1.34.1");
        problems.push(problem("kubernetesVersion", message));
    }
    if let Some(size) = defaults.kube_size_id.filter(|size| *size < 1) {
        problems.push(problem("kubeSizeID", format!("{size} is below 1")));
    }
    if let Some(message) = listed(&defaults.offering_ids) {
        problems.push(problem("offeringIDs", message));
    }
    problems
}

/// The policies of defaults, as those of a group.
fn as_group(defaults: &NodeGroupDefaults) -> NodeGroupSpec {
    NodeGroupSpec {
        min_nodes: defaults.min_nodes,
        max_nodes: defaults.max_nodes,
        desired_nodes: 0,
        provider_ref: None,
        class_ref: None,
        image_ref: None,
        cluster_ref: None,
        bootstrap: None,
        datacenter_id: defaults.datacenter_id.clone(),
        resource_identifier: None,
        project: None,
        offering_ids: Vec::new(),
        preferred_instance_type: None,
        allow_mixed_instances: true,
        kube_size_id: None,
        os_image_id: None,
        kubernetes_version: None,
        ssh_key_ids: Vec::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        tags: Vec::new(),
        notes: None,
        scale_up_policy: defaults.scale_up_policy.clone(),
        scale_down_policy: defaults.scale_down_policy.clone(),
        spot_config: defaults.spot_config.clone(),
        multi_region: None,
        cost_optimization: defaults.cost_optimization.clone(),
    }
}
