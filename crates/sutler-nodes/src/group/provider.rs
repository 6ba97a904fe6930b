//! The Provider that stands for VPSie where a group names none, as upstream's groups do.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;
use sutler_api::infra::Provider;

use crate::{
    context::Context,
    node::{Error, IMPLICIT_PROVIDER},
};

/// The Secret with VPSie's credentials, where upstream keeps it.
const SECRET: &str = "vpsie-secret";

/// Where VPSie is, unless the Secret says otherwise.
const ENDPOINT: &str = "https://api.vpsie.com";

/// Makes sure of the Provider; what stands in the way comes back.
pub(super) async fn ensure(context: &Context) -> Result<Result<(), String>, Error> {
    let (namespace, name) = IMPLICIT_PROVIDER;
    let providers: Api<Provider> = Api::namespaced(context.client.clone(), namespace);
    if providers.get_opt(name).await?.is_some() {
        return Ok(Ok(()));
    }
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let Some(secret) = secrets.get_opt(SECRET).await? else {
        return Ok(Err(format!(
            "the group names no providerRef, and Secret {namespace}/{SECRET} is not there: create it \
             with token, or clientId and clientSecret, or set spec.providerRef"
        )));
    };
    let url = secret.data.and_then(|data| String::from_utf8(data.get("url")?.0.clone()).ok());
    let endpoint = url.map_or_else(|| ENDPOINT.to_owned(), |url| url.trim().to_owned());
    let provider = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "Provider",
        "metadata": ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        "spec": {
            "type": "vpsie",
            "endpoint": endpoint,
            "credentialSecretRef": { "name": SECRET },
            "naming": "Exact",
        },
    });
    let provider: Provider = match serde_json::from_value(provider) {
        Ok(provider) => provider,
        Err(error) => return Ok(Err(format!("the Provider for VPSie cannot be made: {error}"))),
    };
    match providers.create(&PostParams::default(), &provider).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Err(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}
