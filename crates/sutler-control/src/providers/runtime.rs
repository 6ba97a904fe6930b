//! Where a Provider runs, and how it is reached from here.

use std::time::Duration;

use kube::ResourceExt as _;
use sutler_api::{
    conditions::ConditionStatus,
    infra::{
        Provider, ProviderRuntime, ProviderRuntimeStatus, ProviderTls, RuntimeMode, RuntimePhase,
    },
    names::reasons,
};
use sutler_provider::Error as ProviderError;

use super::{Problem, deploy};
use crate::{
    context::Context,
    fleet::{Certificates, Dial, Key},
    machine::Error,
};

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Said {
    pub(super) fn new(
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self { status: status.into(), reason: reason.to_owned(), message: message.into() }
    }
}

impl From<&Problem> for Said {
    fn from(problem: &Problem) -> Self {
        Self::new(false, &problem.reason, problem.message.clone())
    }
}

/// How a Provider runs, as its status tells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Runtime {
    pub(crate) status: ProviderRuntimeStatus,
    /// Whether it is up, as far as that is ours to know.
    pub(crate) up: Said,
    /// How the connection is protected; none where there is none to protect.
    pub(crate) tls: Option<Said>,
    /// What is wrong with the credentials that are there and not used.
    pub(crate) credentials: Option<Said>,
}

impl Runtime {
    fn here() -> Self {
        Self::running(RuntimeMode::InProcess, "it runs in this process")
    }

    fn running(mode: RuntimeMode, message: &str) -> Self {
        Self {
            status: ProviderRuntimeStatus {
                mode: Some(mode),
                phase: Some(RuntimePhase::Running),
                message: Some(message.to_owned()),
                ..ProviderRuntimeStatus::default()
            },
            up: Said::new(true, reasons::READY, message),
            tls: None,
            credentials: None,
        }
    }

    fn failed(mode: RuntimeMode, problem: &Problem) -> Self {
        Self {
            status: ProviderRuntimeStatus {
                mode: Some(mode),
                phase: Some(RuntimePhase::Failed),
                message: Some(problem.message.clone()),
                ..ProviderRuntimeStatus::default()
            },
            up: problem.into(),
            tls: None,
            credentials: None,
        }
    }

    /// Whether calls can be expected to be taken.
    pub(super) fn is_up(&self) -> bool {
        self.up.status == ConditionStatus::True
    }

    /// Says that the Secret holds what cannot be used, and that the old certificates stay.
    pub(super) fn keeps_old_certificates(&mut self, error: &ProviderError) {
        let problem = Problem::from(error);
        let message = format!("{}; the old certificates stay in use", problem.message);
        self.tls = Some(Said::new(false, &problem.reason, message));
    }

    /// Says that the platform refuses what the Secret holds now, and that the old credentials stay.
    pub(super) fn keeps_old_credentials(&mut self, error: &ProviderError) {
        let problem = Problem::from(error);
        let message = format!(
            "spec.credentialSecretRef: {}; the old credentials stay in use: correct the Secret",
            problem.message
        );
        self.credentials = Some(Said::new(false, &problem.reason, message));
    }
}

/// The Secret with the certificates that a Provider is dialled with, in its own namespace.
pub(crate) fn certificates_of(provider: &Provider) -> Option<&str> {
    let tls = provider.spec.runtime.as_ref()?.service.as_ref()?.tls.as_ref()?;
    tls.secret_ref.as_ref().filter(|_| tls.enabled).map(|reference| reference.name.as_str())
}

/// Brings about what is needed to reach a Provider, and says how; no way is needed to one that runs
/// in this process.
pub(super) async fn prepare(
    context: &Context,
    provider: &Provider,
    key: &Key,
) -> Result<(Runtime, Result<Option<Dial>, Problem>), Error> {
    let wanted = provider.spec.runtime.as_ref();
    if wanted.is_none_or(|wanted| wanted.mode != RuntimeMode::Remote || wanted.endpoint.is_some()) {
        deploy::remove(context, provider).await?;
    }
    let Some(wanted) = wanted else { return Ok((Runtime::here(), Ok(None))) };
    match wanted.mode {
        RuntimeMode::InProcess => return Ok((Runtime::here(), Ok(None))),
        RuntimeMode::Agent => {
            let message = "spec.runtime.mode: agents are not served by this release: reach the \
                           provider with mode Remote, or remove spec.runtime to run it in process";
            let problem = Problem::new(reasons::NOT_YET_SERVED, message);
            return Ok((Runtime::failed(wanted.mode, &problem), Err(problem)));
        }
        RuntimeMode::Remote => {}
    }
    let failed = |problem: Problem, tls: bool| {
        let mut runtime = Runtime::failed(RuntimeMode::Remote, &problem);
        // What was deployed before stays known, so that it can be removed.
        let old = provider.status.as_ref().and_then(|status| status.runtime.as_ref());
        let deployed = old.and_then(|old| old.service_ref.clone());
        runtime.status.service_ref = deployed.filter(|_| wanted.endpoint.is_none());
        runtime.tls = tls.then(|| Said::from(&problem));
        (runtime, Err(problem))
    };
    let local = wanted.endpoint.as_deref().is_some_and(|address| address.starts_with("unix:"));
    let protection = match protection(wanted, local) {
        Ok(protection) => protection,
        Err(problem) => return Ok(failed(problem, true)),
    };
    let certificates = match certificates(context, key, &protection).await? {
        Ok(certificates) => certificates,
        Err(problem) => return Ok(failed(problem, true)),
    };
    let mut runtime = match &wanted.endpoint {
        Some(_) => Runtime::running(RuntimeMode::Remote, "it runs where its endpoint says"),
        None if context.settings.cluster => match deploy::apply(context, provider, wanted).await? {
            Ok(runtime) => runtime,
            Err(problem) => return Ok(failed(problem, false)),
        },
        None => {
            let message = "spec.runtime.endpoint: this control plane has a cluster's API and no \
                           cluster, so nothing can be deployed on it: start the provider where it \
                           should run and say here where it listens, as host:port or unix:/path, \
                           or serve with --cluster";
            return Ok(failed(Problem::new(reasons::ENDPOINT_MISSING, message), false));
        }
    };
    let deployed = wanted.endpoint.is_none();
    let address = wanted.endpoint.clone().unwrap_or_else(|| deploy::address(provider, wanted));
    runtime.status.endpoint = Some(address.clone());
    runtime.tls = Some(protection.said());
    let pooling = provider.spec.connection_pooling.as_ref();
    let timeout = pooling.and_then(|pooling| pooling.connection_timeout.to_std().ok());
    let timeout = timeout.filter(|timeout: &Duration| !timeout.is_zero());
    Ok((runtime, Ok(Some(Dial { address, certificates, deployed, timeout }))))
}

/// How a connection is to be protected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Protection {
    /// By the permissions of a socket's file.
    Local,
    /// Not at all, because that was asked for.
    Plaintext,
    /// By the certificates in this Secret.
    Certificates { secret: String, skip_verify: bool },
}

impl Protection {
    fn said(&self) -> Said {
        match self {
            Self::Local => {
                Said::new(true, reasons::LOCAL, "the connection does not leave this host")
            }
            Self::Plaintext => Said::new(
                false,
                reasons::TLS_EXPLICITLY_DISABLED,
                "the connection is not encrypted and nobody is verified, because \
                 spec.runtime.service.tls.enabled is false",
            ),
            Self::Certificates { secret, skip_verify: true } => Said::new(
                false,
                reasons::TLS_VERIFICATION_DISABLED,
                format!(
                    "the connection is encrypted with the certificate in Secret {secret}, and the \
                     provider may be anybody, because \
                     spec.runtime.service.tls.insecureSkipVerify is true"
                ),
            ),
            Self::Certificates { secret, skip_verify: false } => Said::new(
                true,
                reasons::TLS_ENABLED,
                format!("both ends prove who they are, with the certificates in Secret {secret}"),
            ),
        }
    }
}

/// What the Provider says about it: no certificates and no word that there should be none is an
/// error, as it is upstream.
fn protection(runtime: &ProviderRuntime, local: bool) -> Result<Protection, Problem> {
    let tls = runtime.service.as_ref().and_then(|service| service.tls.as_ref());
    match tls {
        None if local => Ok(Protection::Local),
        None => Err(Problem::new(
            reasons::TLS_BLOCK_MISSING,
            "spec.runtime.service.tls: nothing is sent to a provider without protection unless \
             that is asked for: name a Secret with tls.crt, tls.key and ca.crt in secretRef, or \
             write enabled: false",
        )),
        Some(ProviderTls { enabled: false, .. }) if local => Ok(Protection::Local),
        Some(ProviderTls { enabled: false, .. }) => Ok(Protection::Plaintext),
        Some(ProviderTls { enabled: true, secret_ref: None, .. }) => Err(Problem::new(
            reasons::TLS_SECRET_REF_MISSING,
            "spec.runtime.service.tls.secretRef: name a Secret with tls.crt, tls.key and ca.crt",
        )),
        Some(ProviderTls { enabled: true, secret_ref: Some(secret), insecure_skip_verify }) => {
            Ok(Protection::Certificates {
                secret: secret.name.clone(),
                skip_verify: *insecure_skip_verify,
            })
        }
    }
}

/// What the Secret holds, if all of it is there.
async fn certificates(
    context: &Context,
    key: &Key,
    protection: &Protection,
) -> Result<Result<Option<Certificates>, Problem>, Error> {
    let Protection::Certificates { secret: name, skip_verify } = protection else {
        return Ok(Ok(None));
    };
    let field = "spec.runtime.service.tls.secretRef";
    let Some(secret) = context.secret(&Key::new(&key.namespace, name)).await? else {
        let message = format!(
            "{field}: Secret {name} is not in namespace {}: create it with tls.crt, tls.key and \
             ca.crt",
            key.namespace
        );
        return Ok(Err(Problem::new(reasons::REFERENCE_NOT_FOUND, message)));
    };
    let data = secret.data.clone().unwrap_or_default();
    let wanted = ["tls.crt", "tls.key", "ca.crt"];
    let lacks = |key: &&&str| data.get(**key).is_none_or(|value| value.0.is_empty());
    let missing: Vec<&str> = wanted.iter().filter(lacks).copied().collect();
    if !missing.is_empty() {
        let message = format!(
            "{field}: Secret {name} lacks {}: nothing is sent without a certificate of our own and \
             a CA to check the provider's with",
            missing.join(" and ")
        );
        return Ok(Err(Problem::new(reasons::INVALID, message)));
    }
    let pem = data.into_iter().filter(|(key, _)| wanted.contains(&key.as_str()));
    let pem = pem.map(|(key, value)| (key, value.0)).collect();
    Ok(Ok(Some(Certificates { pem, skip_verify: *skip_verify })))
}

/// The name of what a Provider deploys: upstream's, or one with a hash in it where that is no name of
/// a Service.
pub(super) fn object_name(provider: &Provider) -> String {
    use sha2::{Digest as _, Sha256};
    let (namespace, name) = (provider.namespace().unwrap_or_default(), provider.name_any());
    let plain = format!("virtrigaud-provider-{namespace}-{name}");
    if plain.len() <= 63 && !plain.contains('.') {
        return plain;
    }
    let digest = Sha256::digest(format!("{namespace}/{name}").as_bytes());
    let hash: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    let begin: String = plain.replace('.', "-").chars().take(52).collect();
    format!("{}-{hash}", begin.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn runtime(value: Value) -> ProviderRuntime {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn plaintext_is_never_the_answer_to_something_missing() {
        let reason = |value: Value, local| match protection(&runtime(value), local) {
            Ok(protection) => protection.said().reason,
            Err(problem) => problem.reason,
        };
        let tls = |tls: Value| json!({"service": {"tls": tls}});
        for (value, want) in [
            (json!({}), "TLSBlockMissing"),
            (json!({"service": {}}), "TLSBlockMissing"),
            (tls(json!({})), "SecretRefMissing"),
            (tls(json!({"insecureSkipVerify": true})), "SecretRefMissing"),
            (tls(json!({"enabled": false})), "ExplicitlyDisabled"),
            (tls(json!({"secretRef": {"name": "s"}})), "Enabled"),
            (
                tls(json!({"secretRef": {"name": "s"}, "insecureSkipVerify": true})),
                "VerificationDisabled",
            ),
        ] {
            assert_eq!(reason(value.clone(), false), want, "{value}");
        }
        assert_eq!(reason(json!({}), true), "Local");
        assert_eq!(reason(tls(json!({"enabled": false})), true), "Local");
        assert_eq!(reason(tls(json!({"secretRef": {"name": "s"}})), true), "Enabled");
    }

    #[test]
    fn names_are_upstreams_where_they_fit_and_never_clash() {
        let named = |namespace: &str, name: &str| {
            let provider: Provider = serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"type": "sim", "endpoint": "sim://x"},
            }))
            .unwrap();
            object_name(&provider)
        };
        assert_eq!(named("ns", "lab"), "virtrigaud-provider-ns-lab");
        let long = "a".repeat(253);
        let names = [named("ns", "a.b"), named("ns", "a-b"), named("ns", &long), named("n", &long)];
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 63 && !name.contains('.'), "{name}");
            assert!(!names[..index].contains(name), "{name} is there twice");
        }
    }
}
