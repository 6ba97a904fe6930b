//! A request, as a case writes it.

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use serde_json::Value;

use crate::target::USERS;

/// Short names of collections in paths: `cm/a` is the ConfigMap `a` in the case's namespace.
const ALIASES: &[(&str, &str)] = &[
    ("cm", "/api/v1/namespaces/{ns}/configmaps"),
    ("secret", "/api/v1/namespaces/{ns}/secrets"),
    ("pod", "/api/v1/namespaces/{ns}/pods"),
    ("svc", "/api/v1/namespaces/{ns}/services"),
    ("sa", "/api/v1/namespaces/{ns}/serviceaccounts"),
    ("event", "/api/v1/namespaces/{ns}/events"),
    ("pvc", "/api/v1/namespaces/{ns}/persistentvolumeclaims"),
    ("ns", "/api/v1/namespaces"),
    ("node", "/api/v1/nodes"),
    ("pv", "/api/v1/persistentvolumes"),
    ("sc", "/apis/storage.k8s.io/v1/storageclasses"),
    ("deploy", "/apis/apps/v1/namespaces/{ns}/deployments"),
    ("rs", "/apis/apps/v1/namespaces/{ns}/replicasets"),
    ("ds", "/apis/apps/v1/namespaces/{ns}/daemonsets"),
    ("pdb", "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"),
    ("lease", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"),
    ("role", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"),
    ("rb", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"),
    ("crole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("crb", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("toy", "/apis/parity.sutler.dev/v1/namespaces/{ns}/toys"),
    ("plain", "/apis/parity.sutler.dev/v1/namespaces/{ns}/plains"),
    ("world", "/apis/parity.sutler.dev/v1/worlds"),
    ("ssar", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("ssrr", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
    ("ssr", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
];

/// A request that is being put together.
#[derive(Debug, Clone)]
pub struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Bytes>,
    user: Option<&'static str>,
    pub(super) quiet: bool,
    label: Option<String>,
}

impl Call {
    /// A request without a body, as the administrator.
    pub fn new(method: &'static str, path: &str) -> Self {
        let headers = vec![
            ("user-agent".to_owned(), "parity/1".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ];
        let path = path.to_owned();
        Self { method, path, headers, body: None, user: Some("admin"), quiet: false, label: None }
    }

    /// Sets a header, in place of one of that name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header that is sent by default.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self
    }

    /// Sets what answers are accepted.
    pub fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// Sets a JSON body.
    pub fn json(self, body: &Value) -> Self {
        self.text("application/json", &body.to_string())
    }

    /// Sets a body of any text.
    pub fn text(self, content_type: &str, body: &str) -> Self {
        self.bytes(content_type, Bytes::from(body.to_owned()))
    }

    /// Sets a body of any bytes; `{ns}` in it is not replaced when it is no UTF-8.
    pub fn bytes(self, content_type: &str, body: Bytes) -> Self {
        let mut call = self.header("content-type", content_type);
        call.body = Some(body);
        call
    }

    /// Sends it as another user.
    pub fn user(mut self, name: &'static str) -> Self {
        self.user = Some(name);
        self
    }

    /// Sends no credentials.
    pub fn anonymous(mut self) -> Self {
        self.user = None;
        self
    }

    /// Leaves it out of the transcript.
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Calls it so in the transcript.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    /// The path as it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The body, where it is text.
    pub fn body_text(&self) -> &str {
        self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default()
    }

    /// The same with this version in the body's metadata; a body that is no object is left alone.
    pub fn with_version(&self, version: Option<&str>) -> Self {
        let mut call = self.clone();
        if let (Some(version), Ok(mut body)) =
            (version, serde_json::from_str::<Value>(self.body_text()))
            && body.is_object()
        {
            body["metadata"]["resourceVersion"] = version.into();
            call.body = Some(Bytes::from(body.to_string()));
        }
        call
    }

    pub(super) fn title(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let mut label = format!("{} {}", self.method, self.path);
        let content = self.headers.iter().find(|(key, _)| key == "content-type");
        if let (Some((_, content)), true) = (content, self.body.is_some()) {
            label.push_str(&format!(" [{content}]"));
        }
        match self.user {
            Some("admin") => {}
            Some(user) => label.push_str(&format!(" as {user}")),
            None => label.push_str(" as nobody"),
        }
        label
    }

    pub(super) fn request(&self, ns: &str) -> Result<Request<Bytes>> {
        let mut request = Request::builder().method(self.method).uri(expand(&self.path, ns));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(user) = self.user {
            let token = USERS.iter().find(|known| known.name == user).map(|user| user.token);
            request = request.header("authorization", format!("Bearer {}", token.unwrap_or(user)));
        }
        let body = match &self.body {
            Some(body) => match std::str::from_utf8(body) {
                Ok(text) if text.contains("{ns}") => Bytes::from(text.replace("{ns}", ns)),
                _ => body.clone(),
            },
            None => Bytes::new(),
        };
        Ok(request.body(body)?)
    }
}

fn expand(path: &str, ns: &str) -> String {
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (alias, rest) = path.split_at(end);
    let path = match ALIASES.iter().find(|(name, _)| *name == alias) {
        Some((_, full)) => format!("{full}{rest}"),
        None => path.to_owned(),
    };
    path.replace("{ns}", ns)
}
