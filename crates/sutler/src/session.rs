//! One run of a client command: the server it talks to, what that serves, and the namespace.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::{
    cli::Globals,
    client::{
        api::{Api, JSON},
        discovery::{Discovery, Resource},
        errors::{Peer, chain},
        kubeconfig::{self, Source},
        target,
    },
    error::Error,
};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// A server and how we look at it.
pub(crate) struct Session {
    /// The server.
    pub(crate) api: Api,
    /// The namespace that is meant where none is named.
    pub(crate) namespace: String,
    /// Whether `-n` named it.
    pub(crate) namespace_given: bool,
    /// How the server is reached, for kubeconfigs that are made from this one.
    pub(crate) config: kube::Config,
    discovery: Mutex<Option<Arc<Discovery>>>,
}

/// A kind that the server has, and one object of it or all.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The kind.
    pub(crate) resource: Resource,
    /// The object; absent is every one.
    pub(crate) name: Option<String>,
}

impl Resolved {
    /// `virtualmachine.infra.virtrigaud.io/web`.
    pub(crate) fn label(&self) -> String {
        label(&self.resource, self.name.as_deref().unwrap_or("*"))
    }
}

/// `virtualmachine.infra.virtrigaud.io/web`.
pub(crate) fn label(resource: &Resource, name: &str) -> String {
    format!("{}/{name}", resource.qualified())
}

impl Session {
    /// Reads the kubeconfig and makes a client; nothing is sent yet.
    pub(crate) async fn open(globals: &Globals) -> Result<Self, Error> {
        let (mut config, mut peer) = load(globals).await?;
        if let Some(server) = &globals.server {
            config.cluster_url = server
                .parse()
                .map_err(|e| Error::Usage(format!("--server {server:?} is no address: {e}")))?;
        }
        if let Some(user) = &globals.as_user {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !globals.as_group.is_empty() {
            config.auth_info.impersonate_groups = Some(globals.as_group.clone());
        }
        config.connect_timeout = Some(CONNECT);
        peer.server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace =
            globals.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config.clone()).map_err(|e| {
            Error::Kubeconfig(kubeconfig::Error::Load {
                file: peer.source.clone(),
                detail: chain(&e),
            })
        })?;
        let timeout = Some(globals.request_timeout).filter(|t| !t.is_zero());
        Ok(Self {
            api: Api::new(client, peer, timeout),
            namespace,
            namespace_given: globals.namespace.is_some(),
            config,
            discovery: Mutex::new(None),
        })
    }

    /// What the server serves, asked once.
    pub(crate) async fn discovery(&self) -> Result<Arc<Discovery>, Error> {
        let known = self.discovery.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(known) => Ok(known),
            None => self.rediscover().await,
        }
    }

    /// Asks again, after something was applied that changes it.
    pub(crate) async fn rediscover(&self) -> Result<Arc<Discovery>, Error> {
        let fresh = Arc::new(Discovery::fetch(&self.api).await?);
        *self.discovery.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
        Ok(fresh)
    }

    /// Finds the kinds of what the words after a command name.
    pub(crate) async fn resolve(
        &self,
        command: &'static str,
        words: &[String],
    ) -> Result<Vec<Resolved>, Error> {
        let targets = target::parse(command, words)?;
        let discovery = self.discovery().await?;
        let mut resolved = Vec::new();
        for target in targets {
            for resource in discovery.find(&target.kind)? {
                resolved.push(Resolved { resource: resource.clone(), name: target.name.clone() });
            }
        }
        Ok(resolved)
    }

    /// The namespace in the path of requests about a kind.
    pub(crate) fn scope<'a>(&'a self, resource: &Resource, everywhere: bool) -> Option<&'a str> {
        (resource.namespaced && !everywhere).then_some(self.namespace.as_str())
    }

    /// Reads one object.
    pub(crate) async fn object(&self, resource: &Resource, name: &str) -> Result<Value, Error> {
        let path = resource.object_path(self.scope(resource, false), name);
        Ok(self.api.get(&path, JSON).await?)
    }
}

/// The configuration of the kubeconfig that counts, or of the pod we run in.
async fn load(globals: &Globals) -> Result<(kube::Config, Peer), Error> {
    let Some(source) = Source::detect(globals.kubeconfig.as_deref()) else {
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
            && let Ok(config) = kube::Config::incluster()
        {
            let peer = Peer { source: "the pod's service account".into(), ..Peer::default() };
            return Ok((config, peer));
        }
        return Err(kubeconfig::Error::Missing.into());
    };
    let kubeconfig: Kubeconfig = source.load()?;
    let context = source.context(&kubeconfig, globals.context.as_deref())?;
    let options = KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| {
        kubeconfig::Error::Load {
            file: source.to_string(),
            detail: format!("context {context}: {}", chain(&e)),
        }
    })?;
    Ok((config, Peer { source: source.to_string(), context, ..Peer::default() }))
}
