//! What a server serves, read once per run, and the names people may call it by.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use serde_json::Value;

use super::{
    api::{Api, JSON, encode},
    errors::Error,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// One resource of a server, in one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resource {
    /// The API group; empty is the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The kind, as manifests write it.
    pub(crate) kind: String,
    /// The name in URLs.
    pub(crate) plural: String,
    /// The name of one.
    pub(crate) singular: String,
    /// Other names.
    pub(crate) short_names: Vec<String>,
    /// The sets of kinds that it belongs to.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// What can be done with it.
    pub(crate) verbs: Vec<String>,
    /// The subresources that are served.
    pub(crate) subresources: Vec<String>,
    /// Whether this is the version that the group prefers for this resource.
    pub(crate) preferred: bool,
}

impl Resource {
    /// `apiVersion` as manifests write it.
    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of the collection, in a namespace or across all of them.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            Some(ns) if self.namespaced => {
                format!("{root}/namespaces/{}/{}", encode(ns), self.plural)
            }
            _ => format!("{root}/{}", self.plural),
        }
    }

    /// The path of one object.
    pub(crate) fn object_path(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.path(namespace), encode(name))
    }

    /// `singular.group`, the prefix of names in output.
    pub(crate) fn qualified(&self) -> String {
        let singular =
            if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.clone() };
        match self.group.as_str() {
            "" => singular,
            group => format!("{singular}.{group}"),
        }
    }

    /// Whether it can be done.
    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    fn is_called(&self, name: &str) -> bool {
        self.plural == name
            || self.singular == name
            || self.short_names.iter().any(|s| s == name)
            || self.kind.to_lowercase() == name
    }
}

/// No resource has that name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the server has no kind {name:?}{}", suggestion(.near))]
pub(crate) struct UnknownKind {
    /// What was asked for.
    pub(crate) name: String,
    /// Names that look like it.
    pub(crate) near: Vec<String>,
}

fn suggestion(near: &[String]) -> String {
    match near {
        [] => "; `sutler kinds` lists what it has".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

/// Everything that a server serves, groups in the order it gives them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Discovery {
    /// Every resource in every version.
    pub(crate) resources: Vec<Resource>,
}

impl Discovery {
    /// Asks the server: two requests where it can aggregate, one per group version elsewhere.
    pub(crate) async fn fetch(api: &Api) -> Result<Self, Error> {
        let (core, groups) =
            futures::try_join!(api.get("/api", AGGREGATED), api.get("/apis", AGGREGATED))?;
        let mut resources = Vec::new();
        for answer in [&core, &groups] {
            if answer["kind"] == "APIGroupDiscoveryList" {
                read_aggregated(answer, &mut resources);
            } else {
                fetch_lists(api, answer, &mut resources).await?;
            }
        }
        Ok(Self { resources })
    }

    /// The resources that a name from the command line stands for: a plural, singular, short
    /// name or kind, each with `.group` or `.version.group` where it is not plain; or a category.
    pub(crate) fn find(&self, name: &str) -> Result<Vec<&Resource>, UnknownKind> {
        let lower = name.to_lowercase();
        if let Some(found) = self.find_one(&lower) {
            return Ok(vec![found]);
        }
        let members: Vec<_> = self
            .resources
            .iter()
            .filter(|r| r.preferred && r.can("list") && r.categories.contains(&lower))
            .collect();
        if members.is_empty() {
            return Err(UnknownKind { name: name.to_owned(), near: self.near(&lower) });
        }
        Ok(members)
    }

    fn find_one(&self, name: &str) -> Option<&Resource> {
        let preferred = |r: &&Resource| r.preferred;
        if let Some(found) = self.resources.iter().filter(preferred).find(|r| r.plural == name) {
            return Some(found);
        }
        if let Some(found) = self.resources.iter().filter(preferred).find(|r| r.is_called(name)) {
            return Some(found);
        }
        let (short, rest) = name.split_once('.')?;
        let in_group = self.resources.iter().filter(preferred);
        if let Some(found) = in_group.clone().find(|r| r.group == rest && r.is_called(short)) {
            return Some(found);
        }
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        self.resources
            .iter()
            .find(|r| r.version == version && r.group == group && r.is_called(short))
    }

    /// The resource of an object with this `apiVersion` and `kind`.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Result<&Resource, UnknownKind> {
        let found =
            self.resources.iter().find(|r| r.kind == kind && r.api_version() == api_version);
        found.ok_or_else(|| {
            let name = format!("{kind} of {api_version}");
            let mut near: BTreeSet<String> = self
                .resources
                .iter()
                .filter(|r| r.kind == kind)
                .map(|r| format!("{} of {}", r.kind, r.api_version()))
                .collect();
            if near.is_empty() {
                near = self
                    .resources
                    .iter()
                    .filter(|r| is_near(&kind.to_lowercase(), &r.kind.to_lowercase()))
                    .map(|r| format!("{} of {}", r.kind, r.api_version()))
                    .collect();
            }
            UnknownKind { name, near: near.into_iter().take(3).collect() }
        })
    }

    fn near(&self, name: &str) -> Vec<String> {
        let mut near = BTreeSet::new();
        for resource in self.resources.iter().filter(|r| r.preferred) {
            let names = [&resource.plural, &resource.singular];
            let best =
                names.into_iter().filter(|n| is_near(name, n)).map(|n| distance(name, n)).min();
            if let Some(score) = best {
                near.insert((score, resource.plural.clone()));
            }
        }
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

/// Whether somebody who typed `a` may have meant `b`.
pub(crate) fn is_near(a: &str, b: &str) -> bool {
    !b.is_empty() && distance(a, b) <= (b.chars().count() / 3).clamp(1, 3)
}

/// How many characters must be added, removed or changed to get from one to the other.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn read_aggregated(list: &Value, into: &mut Vec<Resource>) {
    for group in items(&list["items"]) {
        let mut seen = BTreeSet::new();
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                let plural = text(&resource["resource"]);
                into.push(Resource {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    singular: text(&resource["singularResource"]),
                    short_names: texts(&resource["shortNames"]),
                    categories: texts(&resource["categories"]),
                    namespaced: resource["scope"] == "Namespaced",
                    verbs: texts(&resource["verbs"]),
                    subresources: items(&resource["subresources"])
                        .map(|s| text(&s["subresource"]))
                        .collect(),
                    preferred: seen.insert(plural.clone()),
                    plural,
                });
            }
        }
    }
}

/// Servers that cannot aggregate are asked for each group version's list.
async fn fetch_lists(api: &Api, answer: &Value, into: &mut Vec<Resource>) -> Result<(), Error> {
    let mut wanted = Vec::new();
    if answer["kind"] == "APIVersions" {
        for version in texts(&answer["versions"]) {
            wanted.push((String::new(), version.clone(), format!("/api/{version}")));
        }
    }
    for group in items(&answer["groups"]) {
        let preferred = text(&group["preferredVersion"]["version"]);
        let mut versions: Vec<String> =
            items(&group["versions"]).map(|v| text(&v["version"])).collect();
        versions.sort_by_key(|v| *v != preferred);
        for version in versions {
            let name = text(&group["name"]);
            let path = format!("/apis/{name}/{version}");
            wanted.push((name, version, path));
        }
    }
    let lists = try_join_all(wanted.iter().map(|(_, _, path)| api.get(path, JSON))).await?;
    let mut seen = BTreeSet::new();
    for ((group, version, _), list) in wanted.into_iter().zip(&lists) {
        read_list(&group, &version, list, &mut seen, into);
    }
    Ok(())
}

fn read_list(
    group: &str,
    version: &str,
    list: &Value,
    seen: &mut BTreeSet<(String, String)>,
    into: &mut Vec<Resource>,
) {
    let first = into.len();
    for resource in items(&list["resources"]) {
        let name = text(&resource["name"]);
        if let Some((parent, sub)) = name.split_once('/') {
            if let Some(parent) = into[first..].iter_mut().find(|r| r.plural == parent) {
                parent.subresources.push(sub.to_owned());
            }
            continue;
        }
        into.push(Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(&resource["kind"]),
            singular: text(&resource["singularName"]),
            short_names: texts(&resource["shortNames"]),
            categories: texts(&resource["categories"]),
            namespaced: resource["namespaced"] == true,
            verbs: texts(&resource["verbs"]),
            subresources: Vec::new(),
            preferred: seen.insert((group.to_owned(), name.clone())),
            plural: name,
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn sample() -> Discovery {
        let resource = |plural: &str, singular: &str, kind: &str, short: &[&str], scope: &str| {
            json!({"resource": plural, "singularResource": singular, "scope": scope,
                "responseKind": {"kind": kind}, "shortNames": short, "categories": ["all"],
                "verbs": ["get", "list", "watch"], "subresources": [{"subresource": "status"}]})
        };
        let list = json!({"items": [
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
                resource("events", "event", "Event", &["ev"], "Namespaced"),
                resource("namespaces", "namespace", "Namespace", &["ns"], "Cluster")]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [
                resource("events", "event", "Event", &["ev"], "Namespaced")]}]},
            {"metadata": {"name": "infra.virtrigaud.io"}, "versions": [
                {"version": "v1beta1", "resources": [
                    resource("virtualmachines", "virtualmachine", "VirtualMachine", &["vm"], "Namespaced")]},
                {"version": "v1alpha1", "resources": [
                    resource("virtualmachines", "virtualmachine", "VirtualMachine", &["vm"], "Namespaced")]}]},
        ]});
        let mut resources = Vec::new();
        read_aggregated(&list, &mut resources);
        Discovery { resources }
    }

    #[test]
    fn kinds_are_found_by_all_their_names() {
        let discovery = sample();
        for name in [
            "virtualmachines",
            "virtualmachine",
            "vm",
            "VirtualMachine",
            "VM",
            "vm.infra.virtrigaud.io",
            "virtualmachines.v1beta1.infra.virtrigaud.io",
        ] {
            let found = discovery.find(name).unwrap();
            assert_eq!(found[0].version, "v1beta1", "{name}");
        }
        let old = discovery.find("vm.v1alpha1.infra.virtrigaud.io").unwrap();
        assert_eq!(old[0].version, "v1alpha1");
        assert_eq!(discovery.find("ev").unwrap()[0].group, "");
        assert_eq!(discovery.find("events.events.k8s.io").unwrap()[0].group, "events.k8s.io");
        assert_eq!(discovery.find("all").unwrap().len(), 4);
    }

    #[test]
    fn unknown_kinds_get_a_suggestion() {
        let error = sample().find("virtualmachin").unwrap_err();
        assert_eq!(error.near, ["virtualmachines"]);
        assert!(error.to_string().contains("did you mean virtualmachines?"));
        let error = sample().find("zebra").unwrap_err();
        assert!(error.to_string().contains("sutler kinds"));
        let error = sample().of_kind("infra.virtrigaud.io/v1", "VirtualMachine").unwrap_err();
        assert!(error.to_string().contains("VirtualMachine of infra.virtrigaud.io/v1beta1"));
    }

    #[test]
    fn paths_follow_group_and_scope() {
        let discovery = sample();
        let vm = discovery.find("vm").unwrap()[0];
        assert_eq!(
            vm.object_path(Some("a"), "b"),
            "/apis/infra.virtrigaud.io/v1beta1/namespaces/a/virtualmachines/b"
        );
        let ns = discovery.find("ns").unwrap()[0];
        assert_eq!(ns.object_path(Some("a"), "b"), "/api/v1/namespaces/b");
        assert_eq!(vm.qualified(), "virtualmachine.infra.virtrigaud.io");
    }

    #[test]
    fn lists_of_older_servers_are_read() {
        let list = json!({"resources": [
            {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": true, "verbs": ["get"]},
            {"name": "pods/status", "kind": "Pod", "namespaced": true, "verbs": ["get"]}]});
        let mut into = Vec::new();
        read_list("", "v1", &list, &mut BTreeSet::new(), &mut into);
        assert_eq!(into.len(), 1);
        assert_eq!(into[0].subresources, ["status"]);
    }

    #[test]
    fn distances_are_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("same", "same"), 0);
    }
}
