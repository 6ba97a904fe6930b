//! Role-based authorization with the decisions and texts of Kubernetes' RBAC authorizer.
//!
//! A [`Policy`] is an immutable snapshot of the four RBAC kinds, indexed by subject: a check costs
//! what the asking user's bindings hold, not what the cluster holds. Cluster-wide objects and each
//! namespace are shards of their own behind `Arc`s, so a change rebuilds the shard it touches and
//! shares the rest.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{MASTERS, User, gofmt};

pub mod aggregate;
mod cover;
pub mod escalation;
mod rule;
mod scope;

pub use rule::Rule;

use scope::{Binding, BindingIndex, RoleKind, Rules, Subject, roles_by_name};

/// The group of the four RBAC kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What a request wants to do, as the authorizer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a User,
    /// `get`, `list`, `create`, `impersonate`…; for paths the lower-case HTTP method.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version; no rule looks at it.
    pub version: &'a str,
    /// The plural resource name.
    pub resource: &'a str,
    /// Empty when the resource itself is meant.
    pub subresource: &'a str,
    /// Empty at the cluster scope; for a Namespace object itself, its own name.
    pub namespace: &'a str,
    /// The object's name; empty for lists and creates.
    pub name: &'a str,
    /// The URL path; looked at only when `is_resource` is false.
    pub path: &'a str,
    /// Whether the request is about a resource or about a bare path.
    pub is_resource: bool,
}

impl<'a> Attributes<'a> {
    /// A resource request with every optional part empty; set what is known with struct update.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            user,
            verb,
            group,
            version: "",
            resource,
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: true,
        }
    }

    /// A request for a bare path such as `/version`.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self { path, is_resource: false, ..Self::resource(user, verb, "", "") }
    }
}

/// What the policy says to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may go ahead.
    pub allowed: bool,
    /// The binding that allows it, or the role references that could not be followed; often empty.
    pub reason: String,
}

/// The rules that hold for one user in one namespace.
#[derive(Debug, Clone, Default)]
pub struct RuleList<'p> {
    /// In the order of the bindings that grant them; a rule may come twice.
    pub rules: Vec<&'p Rule>,
    /// One text for each role reference that leads nowhere.
    pub errors: Vec<String>,
}

impl RuleList<'_> {
    /// The `status` of a SelfSubjectRulesReview.
    pub fn review_status(&self) -> Value {
        let resource_rules: Vec<Value> = self
            .rules
            .iter()
            .filter(|rule| !rule.resources.is_empty())
            .map(|rule| {
                let mut out = json!({"verbs": rule.verbs, "resources": rule.resources});
                rule::put(&mut out, "apiGroups", &rule.api_groups);
                rule::put(&mut out, "resourceNames", &rule.resource_names);
                out
            })
            .collect();
        let paths: Vec<Value> = self
            .rules
            .iter()
            .filter(|rule| !rule.non_resource_urls.is_empty())
            .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
            .collect();
        let mut status = json!({
            "resourceRules": resource_rules,
            "nonResourceRules": paths,
            "incomplete": false,
        });
        if !self.errors.is_empty() {
            status["evaluationError"] = Value::String(gofmt::join_errors(&self.errors));
        }
        status
    }
}

/// An immutable snapshot of all roles and bindings.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    cluster: Arc<ClusterScope>,
    namespaces: Arc<HashMap<String, Arc<NamespaceScope>>>,
}

#[derive(Debug, Default)]
struct ClusterScope {
    roles: HashMap<String, Rules>,
    bindings: BindingIndex,
}

#[derive(Debug, Default)]
struct NamespaceScope {
    roles: HashMap<String, Rules>,
    bindings: BindingIndex,
}

/// A role reference that could not be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unresolved<'p> {
    Missing(RoleKind, &'p str),
    UnknownKind(&'p str),
}

impl Unresolved<'_> {
    /// As the authorizer says it: the singular name of the resource.
    fn text(&self) -> String {
        match self {
            Self::Missing(kind, name) => {
                format!("{}.{GROUP} {} not found", kind.singular(), gofmt::quote(name))
            }
            Self::UnknownKind(kind) => unknown_kind(kind),
        }
    }

    /// As the registry says it: whatever is looked up, it names the resource of the request.
    fn registry_text(&self, resource: &str) -> String {
        match self {
            Self::Missing(_, name) => {
                format!("{resource}.{GROUP} {} not found", gofmt::quote(name))
            }
            Self::UnknownKind(kind) => unknown_kind(kind),
        }
    }
}

fn unknown_kind(kind: &str) -> String {
    format!("unsupported role reference kind: {}", gofmt::quote(kind))
}

/// One step of a walk over the bindings that apply to a user.
enum Step<'p> {
    Grant { binding: &'p Binding, subject: &'p Subject, rules: &'p [Rule] },
    Dangling(Unresolved<'p>),
}

impl Policy {
    /// Builds the snapshot from all objects of the four kinds, in any order.
    pub fn build<'v>(
        cluster_roles: impl IntoIterator<Item = &'v Value>,
        roles: impl IntoIterator<Item = &'v Value>,
        cluster_role_bindings: impl IntoIterator<Item = &'v Value>,
        role_bindings: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let mut by_namespace: HashMap<&str, (Vec<&Value>, Vec<&Value>)> = HashMap::new();
        for role in roles {
            by_namespace.entry(scope::namespace_of(role)).or_default().0.push(role);
        }
        for binding in role_bindings {
            by_namespace.entry(scope::namespace_of(binding)).or_default().1.push(binding);
        }
        let namespaces = by_namespace
            .into_iter()
            .map(|(namespace, (roles, bindings))| {
                (namespace.to_owned(), Arc::new(namespace_scope(namespace, roles, bindings)))
            })
            .collect();
        Self { cluster: Arc::default(), namespaces: Arc::new(namespaces) }
            .with_cluster(cluster_roles, cluster_role_bindings)
    }

    /// The same policy with all ClusterRoles and ClusterRoleBindings replaced by these.
    pub fn with_cluster<'v>(
        &self,
        cluster_roles: impl IntoIterator<Item = &'v Value>,
        cluster_role_bindings: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let cluster = ClusterScope {
            roles: aggregate::resolve(cluster_roles),
            bindings: BindingIndex::build("", cluster_role_bindings),
        };
        Self { cluster: Arc::new(cluster), namespaces: Arc::clone(&self.namespaces) }
    }

    /// The same policy with all Roles and RoleBindings of one namespace replaced by these.
    pub fn with_namespace<'v>(
        &self,
        namespace: &str,
        roles: impl IntoIterator<Item = &'v Value>,
        role_bindings: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let scope = namespace_scope(namespace, roles, role_bindings);
        let mut namespaces = HashMap::clone(&self.namespaces);
        if scope.roles.is_empty() && scope.bindings.is_empty() {
            namespaces.remove(namespace);
        } else {
            namespaces.insert(namespace.to_owned(), Arc::new(scope));
        }
        Self { cluster: Arc::clone(&self.cluster), namespaces: Arc::new(namespaces) }
    }

    /// Decides, and says by which binding.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut errors = Vec::new();
        let walk = self.walk(attributes.user, attributes.namespace, &mut |step| match step {
            Step::Grant { binding, subject, rules } => {
                if rules.iter().any(|rule| rule.allows(attributes)) {
                    ControlFlow::Break(format!("RBAC: allowed by {}", binding.describe(subject)))
                } else {
                    ControlFlow::Continue(())
                }
            }
            Step::Dangling(unresolved) => {
                errors.push(unresolved.text());
                ControlFlow::Continue(())
            }
        });
        match walk {
            ControlFlow::Break(reason) => Decision { allowed: true, reason },
            ControlFlow::Continue(()) if errors.is_empty() => {
                Decision { allowed: false, reason: String::new() }
            }
            ControlFlow::Continue(()) => {
                let reason = format!("RBAC: {}", gofmt::join_errors(&errors));
                Decision { allowed: false, reason }
            }
        }
    }

    /// Decides without saying why; for paths that are taken on every request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        attributes.user.is_in(MASTERS)
            || self
                .walk(attributes.user, attributes.namespace, &mut |step| match step {
                    Step::Grant { rules, .. } if rules.iter().any(|r| r.allows(attributes)) => {
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                })
                .is_break()
    }

    /// Every rule that holds for the user in the namespace (cluster-wide ones when it is empty).
    ///
    /// Membership in `system:masters` does not show here: it is no rule.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleList<'_> {
        let (rules, unresolved) = self.collect(user, namespace);
        RuleList { rules, errors: unresolved.iter().map(Unresolved::text).collect() }
    }

    /// The atoms of `rules` that the user does not hold in the namespace: what granting them
    /// would add to the user's own power. Each has one verb and one resource or path.
    pub fn missing(&self, user: &User, namespace: &str, rules: &[Rule]) -> Vec<Rule> {
        let (held, _) = self.collect(user, namespace);
        cover::uncovered(&held, rules)
    }

    fn collect(&self, user: &User, namespace: &str) -> (Vec<&Rule>, Vec<Unresolved<'_>>) {
        let (mut held, mut unresolved) = (Vec::new(), Vec::new());
        // The walk never breaks, so there is nothing to read off its outcome.
        let _: ControlFlow<()> = self.walk(user, namespace, &mut |step| {
            match step {
                Step::Grant { rules, .. } => held.extend(rules),
                Step::Dangling(error) => unresolved.push(error),
            }
            ControlFlow::Continue(())
        });
        (held, unresolved)
    }

    /// The rules of the role that a binding in `namespace` refers to.
    fn role_rules<'p>(
        &'p self,
        kind: &RoleKind,
        name: &'p str,
        namespace: &str,
    ) -> Result<&'p [Rule], Unresolved<'p>> {
        let found = match kind {
            RoleKind::ClusterRole => self.cluster.roles.get(name),
            RoleKind::Role => self.namespaces.get(namespace).and_then(|ns| ns.roles.get(name)),
            RoleKind::Other(_) => None,
        };
        found.map(|rules| &rules[..]).ok_or_else(|| Unresolved::Missing(kind.clone(), name))
    }

    /// Visits the bindings that apply to the user, cluster-wide ones first, each set by name.
    fn walk<'p, B>(
        &'p self,
        user: &User,
        namespace: &str,
        visit: &mut dyn FnMut(Step<'p>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let namespaced = match namespace {
            "" => None,
            namespace => self.namespaces.get(namespace),
        };
        let indexes =
            [Some(&self.cluster.bindings), namespaced.map(|ns| &ns.bindings)].into_iter().flatten();
        for index in indexes {
            for (binding, subject) in index.applying_to(user) {
                let step = match &binding.role_kind {
                    RoleKind::Other(kind) => Step::Dangling(Unresolved::UnknownKind(kind)),
                    kind => match self.role_rules(kind, &binding.role_name, &binding.namespace) {
                        Ok(rules) => Step::Grant { binding, subject, rules },
                        Err(unresolved) => Step::Dangling(unresolved),
                    },
                };
                visit(step)?;
            }
        }
        ControlFlow::Continue(())
    }
}

fn namespace_scope<'v>(
    namespace: &str,
    roles: impl IntoIterator<Item = &'v Value>,
    bindings: impl IntoIterator<Item = &'v Value>,
) -> NamespaceScope {
    NamespaceScope {
        roles: roles_by_name(roles),
        bindings: BindingIndex::build(namespace, bindings),
    }
}

/// The atoms of `wanted` that `held` does not cover.
pub(super) fn missing_rules(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    cover::uncovered(&held.iter().collect::<Vec<_>>(), wanted)
}

/// The message of a 403, with the reason the authorizer gave (usually empty).
pub fn forbidden_message(attributes: &Attributes<'_>, reason: &str) -> String {
    let gr = match (attributes.group, attributes.resource) {
        ("", "") => String::new(),
        ("", resource) => resource.to_owned(),
        (group, resource) => format!("{resource}.{group}"),
    };
    let subject = match (gr.as_str(), attributes.name) {
        ("", _) => "forbidden: ".to_owned(),
        (gr, "") => format!("{gr} is forbidden: "),
        (gr, name) => format!("{gr} {} is forbidden: ", gofmt::quote(name)),
    };
    subject + &forbidden_cause(attributes, reason)
}

/// The part of a 403's message behind `is forbidden: `.
pub fn forbidden_cause(attributes: &Attributes<'_>, reason: &str) -> String {
    let mut text = sanitize(&denial(attributes));
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    text
}

fn denial(attributes: &Attributes<'_>) -> String {
    let user = gofmt::quote(&attributes.user.name);
    let verb = attributes.verb;
    if !attributes.is_resource {
        return format!("User {user} cannot {verb} path {}", gofmt::quote(attributes.path));
    }
    let resource = match attributes.subresource {
        "" => gofmt::quote(attributes.resource),
        subresource => gofmt::quote(&format!("{}/{subresource}", attributes.resource)),
    };
    let group = gofmt::quote(attributes.group);
    let place = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", gofmt::quote(namespace)),
    };
    format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
}

/// Keeps a refusal from being read as HTML by a browser.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
