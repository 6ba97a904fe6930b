//! The webhook: a small HTTPS server, and the object that leads the API server to it.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    authentication::v1::SelfSubjectReview,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sutler_admission::{review, webhook};
use sutler_api::names::MANAGER;
use sutler_control::Settings;
use sutler_store::serve::{Limits, serve};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::{
    super::ServeArgs,
    authority::Authority,
    door::{self, Door},
};

/// The longest question: two objects as large as an API server takes them.
const LONGEST: usize = 8 << 20;

/// Opens the webhook where one was asked for, until `stopped` turns true.
pub(in super::super) async fn open(
    args: &ServeArgs,
    client: &Client,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<JoinHandle<()>>> {
    let Some(listen) = args.admission else { return Ok(None) };
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("--admission: {listen}"))?;
    let address = listener.local_addr()?;
    let door = door::find(args.admission_url.as_deref(), address)?;
    let user = own_name(client).await.context("--admission")?;
    let keeper = Keeper { client: client.clone(), door, upkeep: args.admission_upkeep };
    let authority = keeper.authority().await?;
    let shown = Arc::new(Shown(RwLock::new(authority.certify(&keeper.door.host)?)));
    let config = tls(shown.clone())?;
    let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
        let user = user.clone();
        async move { Ok::<_, Infallible>(answer(request, &user).await) }
    });
    let mut stop = stopped.clone();
    let serving = tokio::spawn(async move {
        let stopping = async move {
            let _ = stop.wait_for(|stopped| *stopped).await;
        };
        serve(listener, config, service, Limits::default(), stopping).await;
    });
    // Nobody is led here before somebody answers.
    keeper.configure(&authority).await?;
    tracing::info!(%address, place = ?keeper.door.place, "the API server may ask before it writes");
    Ok(Some(tokio::spawn(async move {
        let upkeep = keeper.keep(&shown, authority);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = upkeep => {}
        }
        if let Err(error) = serving.await {
            tracing::warn!(%error, "the webhook ended badly");
        }
    })))
}

/// The user that Sutler is to the API server.
async fn own_name(client: &Client) -> Result<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let asked = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let review = asked.context("the API server did not say who Sutler is to it")?;
    let user = review.status.and_then(|status| status.user_info?.username);
    user.context("the API server does not know who Sutler is")
}

/// Sees to what leads to the webhook.
struct Keeper {
    client: Client,
    door: Door,
    /// How often.
    upkeep: Duration,
}

impl Keeper {
    async fn authority(&self) -> Result<Authority> {
        let namespace = Settings::default().namespace;
        let found = Authority::ensure(&self.client, &namespace).await;
        found.context("--admission: there is no authority for the webhook's certificate")
    }

    /// Writes the configuration as it should be.
    async fn configure(&self, authority: &Authority) -> Result<()> {
        let authority = STANDARD.encode(authority.bundle());
        let object = webhook::configuration(&self.door.place, &authority);
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        let written = api.patch(webhook::NAME, &params, &Patch::Apply(object)).await;
        written.map(drop).with_context(|| {
            format!(
                "--admission: ValidatingWebhookConfiguration {} cannot be written",
                webhook::NAME
            )
        })
    }

    /// Makes certificates anew, and the configuration where somebody changed or deleted it.
    async fn keep(&self, shown: &Shown, mut known: Authority) {
        loop {
            tokio::time::sleep(self.upkeep).await;
            if let Err(error) = self.see_to(shown, &mut known).await {
                let error = format!("{error:#}");
                tracing::warn!(error, "the webhook stays as it is, and is seen to later");
            }
        }
    }

    /// A certificate is shown only if the API server was told of its authority the last time: it takes
    /// note a moment later, and asks nobody whom it does not know.
    async fn see_to(&self, shown: &Shown, known: &mut Authority) -> Result<()> {
        let authority = self.authority().await?;
        self.configure(&authority).await?;
        if authority.pem() == known.pem() {
            shown.set(authority.certify(&self.door.host)?);
        }
        *known = authority;
        Ok(())
    }
}

/// The certificate that is shown to whoever connects.
struct Shown(RwLock<Arc<CertifiedKey>>);

impl Shown {
    fn set(&self, certificate: Arc<CertifiedKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate;
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn tls(shown: Arc<Shown>) -> Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Answers a question of the API server. Who asks is not checked: the answer tells nothing that the
/// question does not.
async fn answer<B>(request: Request<B>, sutler: &str) -> Response<Full<Bytes>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let is_json = request.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.to_str().is_ok_and(|kind| kind.split(';').next() == Some("application/json"))
    });
    match (request.method(), request.uri().path()) {
        (&Method::POST, webhook::PATH) if is_json => {}
        (&Method::POST, webhook::PATH) => {
            return reply(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json\n");
        }
        (_, webhook::PATH) => return reply(StatusCode::METHOD_NOT_ALLOWED, "use POST\n"),
        _ => return reply(StatusCode::NOT_FOUND, "see /admission\n"),
    }
    let Ok(body) = Limited::new(request.into_body(), LONGEST).collect().await else {
        return reply(StatusCode::PAYLOAD_TOO_LARGE, "the question is too long\n");
    };
    match review::answer(&body.to_bytes(), sutler) {
        Ok(review) => {
            let mut response = Response::new(Full::from(review.to_string()));
            let kind = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(error) => reply(StatusCode::BAD_REQUEST, &format!("{error}\n")),
    }
}

fn reply(code: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    async fn ask(method: &str, path: &str, kind: &str, body: Vec<u8>) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, kind)
            .body(Full::<Bytes>::from(body))
            .unwrap();
        let response = answer(request, "sutler").await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn questions_are_answered_and_all_else_is_refused() {
        let node = json!({"metadata": {"name": "n",
            "labels": {"autoscaler.vpsie.com/vpsienode": "web-0001"}}});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "DELETE", "name": "n",
                "resource": {"group": "", "version": "v1", "resource": "nodes"},
                "userInfo": {"username": "jane"}, "object": null, "oldObject": node}});
        let text = review.to_string().into_bytes();
        let json = "application/json; charset=utf-8";
        let (code, said) = ask("POST", "/admission", json, text.clone()).await;
        assert_eq!((code, &said["response"]["allowed"]), (200, &json!(false)), "{said:#}");
        assert_eq!(ask("GET", "/admission", json, text.clone()).await.0, 405);
        assert_eq!(ask("POST", "/", json, text.clone()).await.0, 404);
        assert_eq!(ask("POST", "/admission", "text/plain", text).await.0, 415);
        assert_eq!(ask("POST", "/admission", json, b"{".to_vec()).await.0, 400);
        assert_eq!(ask("POST", "/admission", json, vec![b' '; LONGEST + 1]).await.0, 413);
    }
}
