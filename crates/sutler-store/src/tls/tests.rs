use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The verifiers of the TLS library look at the system's clock, so handshakes need the real time.
fn now() -> SystemTime {
    SystemTime::now()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

/// A client that trusts what the kubeconfig of `trusts` says, and shows `identity`.
fn client(trusts: &Pki, identity: Option<&Pem>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = trusts.server_ca.as_deref().unwrap();
    for der in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(der.unwrap()).unwrap();
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_webpki_verifier(verifier.build().unwrap());
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let chain = CertificateDer::pem_slice_iter(pem.cert.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Shakes hands in memory and returns the server's side, or what either side refused.
fn handshake(pki: &Pki, client: ClientConfig, name: &str) -> Result<ServerConnection, String> {
    let mut server = ServerConnection::new(server_config(pki)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client.into(), name).unwrap();
    while client.is_handshaking() || server.is_handshaking() || client.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
    }
    Ok(server)
}

#[test]
fn the_first_start_makes_everything_and_later_ones_keep_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("a/pki");
    Pki::ensure(&dir, &names(&["box"]), now()).unwrap();
    let files = ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"];
    let made: Vec<String> = files.iter().map(|file| read(&dir, file)).collect();
    assert_eq!(mode(&dir), 0o700);
    for file in files {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), files.len(), "no drafts are left");

    Pki::ensure(&dir, &names(&["box"]), now() + DAY).unwrap();
    let kept: Vec<String> = files.iter().map(|file| read(&dir, file)).collect();
    assert_eq!(made, kept);

    let admin = load::certificates(&dir.join("admin.crt"), "").unwrap();
    let user = crate::auth::authn::certificate_user(&admin[0], now()).unwrap();
    assert_eq!(user.name, "sutler-admin");
    assert!(user.is_in("system:masters"));
}

#[test]
fn modes_that_let_others_in_are_corrected() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("pki");
    Pki::ensure(&dir, &[], now()).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    Pki::ensure(&dir, &[], now()).unwrap();
    assert_eq!((mode(&dir), mode(&dir.join("ca.key"))), (0o700, 0o600));
}

#[test]
fn certificates_are_renewed_in_time_and_keep_their_keys() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let start = now();
    Pki::ensure(dir, &[], start).unwrap();
    let before = ["ca.crt", "server.crt", "server.key", "admin.crt"].map(|file| read(dir, file));
    Pki::ensure(dir, &[], start + DAY * 330).unwrap();
    let same = ["ca.crt", "server.crt", "server.key", "admin.crt"].map(|file| read(dir, file));
    assert_eq!(before, same);
    Pki::ensure(dir, &[], start + DAY * 340).unwrap();
    let after = ["ca.crt", "server.crt", "server.key", "admin.crt"].map(|file| read(dir, file));
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    assert_eq!(before[2], after[2]);
    assert_ne!(before[3], after[3]);
    // Long before it ends the authority is renewed with its old key, and what it signed stands.
    Pki::ensure(dir, &[], start + DAY * 365 * 9 + DAY * 60).unwrap();
    assert_ne!(before[0], read(dir, "ca.crt"));
    Pki::ensure(dir, &[], start + DAY * 365 * 9 + DAY * 61).unwrap();
}

#[test]
fn a_new_name_renews_the_server_certificate_alone() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    Pki::ensure(dir, &names(&["one"]), now()).unwrap();
    let (server, admin) = (read(dir, "server.crt"), read(dir, "admin.crt"));
    let pki =
        Pki::ensure(dir, &names(&["one", "two.example.org", "10.0.0.9:6443"]), now()).unwrap();
    assert_ne!(server, read(dir, "server.crt"));
    assert_eq!(admin, read(dir, "admin.crt"));
    for name in ["localhost", "127.0.0.1", "::1", "one", "two.example.org", "10.0.0.9"] {
        handshake(&pki, client(&pki, None), name).unwrap();
    }
    let error = handshake(&pki, client(&pki, None), "three").err().unwrap();
    assert!(error.starts_with("client:"), "{error}");
    // A name that is no longer asked for does no harm.
    let server = read(dir, "server.crt");
    Pki::ensure(dir, &names(&["one"]), now()).unwrap();
    assert_eq!(server, read(dir, "server.crt"));
}

#[test]
fn a_running_server_can_renew() {
    let home = tempfile::tempdir().unwrap();
    let start = now();
    let pki = Pki::ensure(home.path(), &[], start - DAY * 340).unwrap();
    let shown = |pki: &Pki| pki.resolver.0.load().cert.clone();
    let old = shown(&pki);
    assert_eq!(pki.renew(start - DAY * 339).unwrap(), Renewal::Unchanged);
    assert_eq!(pki.renew(start).unwrap(), Renewal::Renewed);
    assert_ne!(old, shown(&pki));
    handshake(&pki, client(&pki, None), "localhost").unwrap();
}

#[test]
fn clients_come_with_or_without_a_certificate_of_ours() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pki = Pki::ensure(one.path(), &[], now()).unwrap();
    let other = Pki::ensure(two.path(), &[], now()).unwrap();

    let without = handshake(&pki, client(&pki, None), "localhost").unwrap();
    assert_eq!(without.peer_certificates(), None);
    assert_eq!(without.alpn_protocol(), Some(&b"h2"[..]));

    let with = handshake(&pki, client(&pki, Some(&pki.admin)), "localhost").unwrap();
    let leaf = with.peer_certificates().unwrap()[0].clone();
    let user = crate::auth::authn::certificate_user(&leaf, now()).unwrap();
    assert_eq!(user.name, "sutler-admin");

    let wrong = handshake(&pki, client(&pki, Some(&other.admin)), "localhost").err().unwrap();
    assert!(wrong.starts_with("server: invalid peer certificate"), "{wrong}");
    // The server's own certificate is not good for a client.
    let server = Pem { cert: read(one.path(), "server.crt"), key: read(one.path(), "server.key") };
    let wrong = handshake(&pki, client(&pki, Some(&server)), "localhost").err().unwrap();
    assert!(wrong.starts_with("server: invalid peer certificate"), "{wrong}");
    let wrong = handshake(&pki, client(&other, None), "localhost").err().unwrap();
    assert!(wrong.starts_with("client: invalid peer certificate"), "{wrong}");
}

#[test]
fn tls_1_2_is_spoken_too() {
    let home = tempfile::tempdir().unwrap();
    let pki = Pki::ensure(home.path(), &[], now()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(pki.authority.certificate().clone()).unwrap();
    let old = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = handshake(&pki, old, "localhost").unwrap();
    assert_eq!(server.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
}

#[test]
fn a_crash_between_key_and_certificate_is_healed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    Pki::ensure(dir, &[], now()).unwrap();
    for name in ["ca", "server", "admin"] {
        let key = read(dir, &format!("{name}.key"));
        fs::remove_file(dir.join(format!("{name}.crt"))).unwrap();
        fs::write(dir.join(format!(".{name}.crt.tmp")), "half").unwrap();
        Pki::ensure(dir, &[], now()).unwrap();
        assert_eq!(key, read(dir, &format!("{name}.key")));
        assert!(dir.join(format!("{name}.crt")).exists());
    }
}

#[test]
fn files_that_do_not_fit_are_named_with_the_fix() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, other) = (one.path(), two.path());
    Pki::ensure(dir, &[], now()).unwrap();
    Pki::ensure(other, &[], now()).unwrap();
    let backup: Vec<(String, String)> = ["ca", "server", "admin"]
        .iter()
        .flat_map(|name| [format!("{name}.crt"), format!("{name}.key")])
        .map(|file| (file.clone(), read(dir, &file)))
        .collect();
    let refused = |spoil: &dyn Fn()| {
        spoil();
        let error = Pki::ensure(dir, &[], now()).unwrap_err();
        for (file, text) in &backup {
            fs::write(dir.join(file), text).unwrap();
        }
        Pki::ensure(dir, &[], now()).unwrap();
        let shown = format!("{error} {error:?}");
        let secret = backup[1].1.lines().nth(1).unwrap();
        assert!(!shown.contains(secret), "{shown}");
        error.to_string()
    };
    let write = |file: &str, text: &str| fs::write(dir.join(file), text).unwrap();
    for (name, fix) in [("ca", "move the whole folder away"), ("server", "remove both")] {
        let (crt, key) = (format!("{name}.crt"), format!("{name}.key"));
        let error = refused(&|| write(&key, "garbage"));
        assert!(error.contains(&format!("{name}.key is not a private key")), "{error}");
        assert!(error.contains(fix), "{error}");
        let error = refused(&|| write(&crt, "garbage"));
        assert!(error.contains(&format!("{name}.crt is not a certificate")), "{error}");
        let error = refused(&|| write(&crt, &read(other, &crt)));
        assert!(error.contains("do not belong together") && error.contains(&crt), "{error}");
        let error = refused(&|| fs::remove_file(dir.join(&key)).unwrap());
        assert!(error.contains(&key) && error.contains(fix), "{error}");
    }
    // A pair that fits, but comes from another authority.
    let error = refused(&|| {
        write("admin.crt", &read(other, "admin.crt"));
        write("admin.key", &read(other, "admin.key"));
    });
    assert!(error.contains("admin.crt") && error.contains("ca.crt"), "{error}");
    // A leaf where the authority should be.
    let error = refused(&|| {
        write("ca.crt", &read(dir, "server.crt"));
        write("ca.key", &read(dir, "server.key"));
    });
    assert!(error.contains("ca.crt is not the certificate of an authority"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Pki::ensure(&file.join("pki"), &[], now()).unwrap_err();
    assert!(error.to_string().starts_with("cannot write"), "{error}");
    assert!(error.to_string().contains("file/pki"), "{error}");
}

fn self_signed(dir: &Path, name: &str, ca: bool) -> (PathBuf, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(names(&["my.example.org"])).unwrap();
    if ca {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let (cert, path) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}-key.pem")));
    fs::write(&cert, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&path, key.serialize_pem()).unwrap();
    (cert, path)
}

#[test]
fn supplied_certificates_are_served_and_read_again() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("pki");
    let (cert, key) = self_signed(home.path(), "mine", false);
    let sources = Sources { server: Some((cert.clone(), key.clone())), ..Sources::default() };
    let pki = Pki::ensure_from(&dir, sources, now()).unwrap();
    assert!(!dir.join("server.crt").exists());
    assert_eq!(pki.server_ca, None, "a leaf alone says nothing of its authority");
    assert!(!kubeconfig("https://x", &pki, "default").contains("certificate-authority-data"));
    assert_eq!(pki.renew(now()).unwrap(), Renewal::Unchanged);
    let (other, other_key) = self_signed(home.path(), "other", true);
    fs::copy(&other, &cert).unwrap();
    let error = pki.renew(now()).unwrap_err().to_string();
    assert!(error.contains("mine.pem") && error.contains("mine-key.pem"), "{error}");
    fs::copy(&other_key, &key).unwrap();
    assert_eq!(pki.renew(now()).unwrap(), Renewal::Renewed);

    let sources = Sources { server: Some((other.clone(), other_key)), ..Sources::default() };
    let pki = Pki::ensure_from(&dir, sources, now()).unwrap();
    let ca = pki.server_ca.clone().unwrap();
    let (given, encoded) = (load::certificates(&other, "").unwrap(), ca.as_bytes());
    assert_eq!(CertificateDer::from_pem_slice(encoded).unwrap(), given[0]);
}

#[test]
fn a_supplied_client_authority_is_accepted_beside_ours() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = Pki::ensure(two.path(), &[], now()).unwrap();
    let client_ca = Some(two.path().join("ca.crt"));
    let pki =
        Pki::ensure_from(one.path(), Sources { client_ca, ..Sources::default() }, now()).unwrap();
    for admin in [&pki.admin, &other.admin] {
        handshake(&pki, client(&pki, Some(admin)), "localhost").unwrap();
    }
    let missing = Some(two.path().join("nothing.crt"));
    let sources = Sources { client_ca: missing, ..Sources::default() };
    let error = Pki::ensure_from(one.path(), sources, now()).unwrap_err();
    assert!(error.to_string().contains("nothing.crt"), "{error}");
}

#[test]
fn kubeconfigs_are_understood_by_clients_and_closed_to_others() {
    let home = tempfile::tempdir().unwrap();
    let pki = Pki::ensure(&home.path().join("pki"), &[], now()).unwrap();
    let url = "https://127.0.0.1:6443";
    let text = kubeconfig(url, &pki, "team: a");
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    assert_eq!(config.current_context.as_deref(), Some("sutler"));
    let context = config.contexts[0].context.clone().unwrap();
    assert_eq!(context.namespace.as_deref(), Some("team: a"));
    assert_eq!(context.cluster, config.clusters[0].name);
    assert_eq!(context.user.as_deref(), Some(config.auth_infos[0].name.as_str()));
    let cluster = config.clusters[0].cluster.clone().unwrap();
    assert_eq!(cluster.server.as_deref(), Some(url));
    assert!(cluster.certificate_authority_data.is_some());
    let user = config.auth_infos[0].auth_info.clone().unwrap();
    assert!(user.client_certificate_data.is_some() && user.client_key_data.is_some());

    let text = kubeconfig_with_token(url, &pki, "default", "jane \"x\"", "s3cret:#");
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    assert_eq!(config.auth_infos[0].name, "jane \"x\"");

    let path = home.path().join("admin.kubeconfig");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    write_kubeconfig(&path, &text).unwrap();
    assert_eq!((mode(&path), read(home.path(), "admin.kubeconfig")), (0o600, text));
}

#[test]
fn keys_do_not_show() {
    let home = tempfile::tempdir().unwrap();
    let pki = Pki::ensure(home.path(), &[], now()).unwrap();
    let shown = format!("{pki:?}");
    assert!(!shown.contains("PRIVATE") && !shown.contains(pki.admin.key.lines().nth(1).unwrap()));
}
