//! What a pod asks for in all, as the scheduler adds it up.

use k8s_openapi::api::core::v1 as core;

use super::{MalformedError, Resources};

/// The sum over containers and sidecars, at least what the largest step of starting takes, and the
/// overhead of its runtime. While a pod is resized, the larger of what it has and what it wants.
pub(crate) fn effective(pod: &core::Pod) -> Result<Resources, MalformedError> {
    let Some(spec) = &pod.spec else { return Ok(Resources::default()) };
    let status = pod.status.as_ref();
    let infeasible = status.and_then(|status| status.conditions.as_ref()).is_some_and(|all| {
        all.iter().any(|condition| {
            condition.type_ == "PodResizePending"
                && condition.reason.as_deref() == Some("Infeasible")
        })
    });
    let statuses = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or(&[]);
    let init_statuses =
        status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or(&[]);

    let mut total = Resources::default();
    for (index, container) in spec.containers.iter().enumerate() {
        total.add(&of_container("containers", index, container, statuses, infeasible)?);
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut wanted =
            of_container("initContainers", index, container, init_statuses, infeasible)?;
        if is_sidecar(container) {
            total.add(&wanted);
            sidecars.add(&wanted);
            wanted = sidecars.clone();
        } else {
            wanted.add(&sidecars);
        }
        starting.raise(&wanted);
    }
    total.raise(&starting);
    if let Some(requests) = spec.resources.as_ref().and_then(|own| own.requests.as_ref()) {
        let own = Resources::read("spec.resources.requests", requests)?;
        if requests.contains_key("cpu") {
            total.cpu = own.cpu;
        }
        if requests.contains_key("memory") {
            total.memory = own.memory;
        }
        for (name, amount) in own.other {
            if name.starts_with("hugepages-") {
                total.other.insert(name, amount);
            }
        }
    }
    if let Some(overhead) = &spec.overhead {
        total.add(&Resources::read("spec.overhead", overhead)?);
    }
    total.other.retain(|_, amount| *amount != 0);
    Ok(total.capped())
}

/// Whether an init container goes on beside the others.
pub(crate) fn is_sidecar(container: &core::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn of_container(
    list: &str,
    index: usize,
    container: &core::Container,
    statuses: &[core::ContainerStatus],
    infeasible: bool,
) -> Result<Resources, MalformedError> {
    let field = format!("spec.{list}[{index}].resources.requests");
    let wanted = match container.resources.as_ref().and_then(|own| own.requests.as_ref()) {
        Some(requests) => Resources::read(&field, requests)?,
        None => Resources::default(),
    };
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return Ok(wanted);
    };
    let mut has = Resources::default();
    let mut told = false;
    let actual = status.resources.as_ref().and_then(|own| own.requests.as_ref());
    for list in [actual, status.allocated_resources.as_ref()].into_iter().flatten() {
        has.raise(&Resources::read(&format!("status of container {}", container.name), list)?);
        told = true;
    }
    if !told {
        return Ok(wanted);
    }
    if !infeasible {
        has.raise(&wanted);
    }
    Ok(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cpu(pod: serde_json::Value) -> i64 {
        effective(&serde_json::from_value(pod).unwrap()).unwrap().cpu
    }

    fn container(name: &str, cpu: &str) -> serde_json::Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(name: &str, cpu: &str) -> serde_json::Value {
        let mut it = container(name, cpu);
        it["restartPolicy"] = json!("Always");
        it
    }

    #[test]
    fn containers_add_up_and_steps_do_not() {
        let containers = json!([container("a", "100m"), container("b", "200m")]);
        assert_eq!(cpu(json!({"spec": {"containers": containers}})), 300);
        let init = json!([container("i", "250m"), container("j", "400m")]);
        let pod = json!({"spec": {"containers": containers, "initContainers": init}});
        assert_eq!(cpu(pod), 400);
    }

    #[test]
    fn sidecars_count_from_when_they_start() {
        let containers = json!([container("a", "100m")]);
        // The sidecar runs beside the later step (50 + 300) and beside the container (100 + 50).
        let init = json!([sidecar("s", "50m"), container("i", "300m")]);
        let pod = json!({"spec": {"containers": containers, "initContainers": init}});
        assert_eq!(cpu(pod), 350);
        let init = json!([container("i", "300m"), sidecar("s", "250m")]);
        let pod = json!({"spec": {"containers": containers, "initContainers": init}});
        assert_eq!(cpu(pod), 350);
    }

    #[test]
    fn overhead_and_the_pods_own_requests() {
        let spec = json!({
            "containers": [container("a", "100m")],
            "resources": {"requests": {"cpu": "500m"}},
            "overhead": {"cpu": "30m"},
        });
        assert_eq!(cpu(json!({"spec": spec})), 530);
    }

    #[test]
    fn a_resize_counts_as_the_larger() {
        let pod = |reason: &str| {
            json!({
                "spec": {"containers": [container("a", "100m")]},
                "status": {
                    "containerStatuses": [{
                        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                        "resources": {"requests": {"cpu": "70m"}},
                        "allocatedResources": {"cpu": "80m"},
                    }],
                    "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                },
            })
        };
        assert_eq!(cpu(pod("Deferred")), 100);
        assert_eq!(cpu(pod("Infeasible")), 80);
    }
}
