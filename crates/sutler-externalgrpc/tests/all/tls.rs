//! Whoever can connect can remove nodes: only who shows a certificate can.

use std::sync::{Arc, Mutex};

use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, crypto::ring::default_provider,
    server::WebPkiClientVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sutler_externalgrpc::{
    CloudProvider, Cluster, listen_tls,
    pb::{self, cloud_provider_client::CloudProviderClient},
    serve,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Endpoint, Uri};

use crate::support::{api, client_of};

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Ca {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test");
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn pair(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Arc::new(roots)
    }

    fn server(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots(), provider.clone()).build();
        let (certificates, key) = self.pair("localhost");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(certificates, key)
            .unwrap();
        Arc::new(config)
    }

    fn client(&self, pair: Option<Pair>) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match pair {
            Some((certificates, key)) => config.with_client_auth_cert(certificates, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

/// One call over a connection of its own.
async fn call(port: u16, config: Arc<ClientConfig>) -> Result<(), String> {
    let connector = tower::service_fn(move |_: Uri| {
        let connector = TlsConnector::from(config.clone());
        async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            let name = ServerName::try_from("localhost").unwrap();
            let stream = connector.connect(name, stream).await?;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.map_err(|e| e.to_string())?;
    let mut client = CloudProviderClient::new(channel);
    client.refresh(pb::RefreshRequest {}).await.map_err(|e| e.to_string())?;
    Ok(())
}

#[tokio::test]
async fn only_who_shows_a_certificate_is_let_in() {
    let (ca, next) = (Ca::new(), Ca::new());
    let current = Arc::new(Mutex::new(ca.server()));
    let asked = current.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let incoming = listen_tls(listener, move || asked.lock().unwrap().clone());
    let provider = CloudProvider::new(client_of(&api().await), Cluster::Own);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(provider, incoming, async move {
        drop(stopped.await);
    }));

    call(port, ca.client(Some(ca.pair("autoscaler")))).await.unwrap();
    assert!(call(port, ca.client(None)).await.is_err());
    assert!(call(port, ca.client(Some(next.pair("autoscaler")))).await.is_err());

    // Certificates are exchanged while it listens.
    *current.lock().unwrap() = next.server();
    call(port, next.client(Some(next.pair("autoscaler")))).await.unwrap();
    assert!(call(port, ca.client(Some(ca.pair("autoscaler")))).await.is_err());

    drop(stop);
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}
