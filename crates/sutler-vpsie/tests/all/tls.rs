//! Certificates.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sutler_provider::{Credentials, ErrorKind};
use sutler_vpsie::{Connection, Dialect, client::connect, fake::Shape};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, pem::PemObject as _},
    },
};

use crate::lab::Lab;

#[tokio::test]
async fn a_server_is_known_by_the_ca_in_the_secret_and_by_no_other() {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let private = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let lab = Arc::new(Lab::with(Shape::new(Dialect::V2), serde_json::json!({})).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = lab.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(socket).await {
                served.fake.serve(stream).await;
            }
        }
    });
    let list = async |more: Option<(&'static str, Vec<u8>)>, host: &str| {
        let token = lab.fake.credentials().get("token").unwrap().expose().to_vec();
        let credentials: Credentials = [("token", token)].into_iter().chain(more).collect();
        let connection = Connection {
            endpoint: format!("https://{host}:{port}"),
            credentials,
            insecure_skip_verify: false,
            dialect: Dialect::V2,
            project: None,
            clock: lab.clock.clone(),
        };
        match connect(&connection) {
            Ok(api) => api.list_vms().await.map(drop),
            Err(error) => Err(error),
        }
    };
    let pem = ca.pem().into_bytes();
    list(Some(("ca.crt", pem.clone())), "localhost").await.unwrap();
    // Nothing was sent to a server that could not prove itself.
    for (more, host) in [(None, "localhost"), (Some(("ca.crt", pem)), "127.0.0.1")] {
        let error = list(more, host).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let error = list(Some(("ca.crt", b"no PEM".to_vec())), "localhost").await.unwrap_err();
    assert_eq!(error.field(), Some("spec.credentialSecretRef"));
}
