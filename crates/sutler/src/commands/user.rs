//! `sutler user`: people and programs that may use the server.

use std::{fs, path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use rand::{TryRngCore as _, rngs::OsRng};
use serde_json::{Value, json};
use sutler_store::auth::users::{
    LABEL, NAMESPACE, SECRET_TYPE, Token, TokenRecord, UserRecord, label_value, secret_name,
};

use crate::{
    client::{
        api::{JSON, METADATA, METADATA_LIST, Query, encode},
        kubeconfig, watch,
    },
    clock,
    error::Error,
    output::table,
    session::Session,
    ui::Ui,
};

/// How often a write is tried again when somebody else wrote first.
const ATTEMPTS: u32 = 5;
const SECRETS: &str = "/api/v1/namespaces/sutler-system/secrets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What to do with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user and its first token
    Add(AddArgs),
    /// List the users and their tokens
    List,
    /// Remove a user with its tokens and the rights given to it here
    Remove {
        /// Its name
        name: String,
    },
    /// Make another token for a user, or revoke one
    Token(TokenArgs),
}

/// Flags of `user add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The name that bindings refer to
    pub(crate) name: String,
    /// A group that the user is in; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Give these rights: everywhere, or with -n in one namespace
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<Role>,
    /// How long the token is valid, as in 30d; without, until it is revoked
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub(crate) expires: Option<Duration>,
    /// Write a kubeconfig with the token here, instead of printing the token
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

/// Flags of `user token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The user's name
    pub(crate) name: String,
    /// How long the new token is valid, as in 30d; without, until it is revoked
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub(crate) expires: Option<Duration>,
    /// Revoke the token with this ID instead of making one
    #[arg(long, value_name = "ID", conflicts_with_all = ["expires", "kubeconfig_out"])]
    pub(crate) revoke: Option<String>,
    /// Write a kubeconfig with the token here, instead of printing the token
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

/// The roles that every server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// See everything but Secrets
    View,
    /// Change everything but rights
    Edit,
    /// Change everything, and give rights
    Admin,
    /// Do anything
    ClusterAdmin,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Edit => "edit",
            Self::Admin => "admin",
            Self::ClusterAdmin => "cluster-admin",
        }
    }
}

/// Keeps users.
pub(crate) async fn run(session: &Session, command: &UserCommand, ui: &Ui) -> Result<(), Error> {
    match command {
        UserCommand::Add(args) => add(session, args, ui).await,
        UserCommand::List => list(session, ui).await,
        UserCommand::Remove { name } => remove(session, name, ui).await,
        UserCommand::Token(args) => match &args.revoke {
            Some(id) => revoke(session, &args.name, id, ui).await,
            None => token(session, args, ui).await,
        },
    }
}

async fn add(session: &Session, args: &AddArgs, ui: &Ui) -> Result<(), Error> {
    for (what, name) in std::iter::once(("the name", &args.name))
        .chain(args.groups.iter().map(|group| ("the group", group)))
    {
        if let Some(problem) = name_problem(name) {
            return Err(Error::Usage(format!("{what} {name:?} {problem}")));
        }
    }
    check_out(args.kubeconfig_out.as_deref())?;
    let (token, record) = make_token(args.expires)?;
    let user = UserRecord {
        username: args.name.clone(),
        uid: String::new(),
        groups: args.groups.clone(),
        tokens: vec![record],
    };
    let mut secret = json!({});
    user.write_to(&mut secret);
    create_namespace(session).await?;
    session.api.post(SECRETS, &secret).await.map_err(|error| match error.is_conflict() {
        true => Error::Failed(format!(
            "there is a user {:?} already: `sutler user token` makes another token, `sutler user remove` removes it",
            args.name
        )),
        false => error.into(),
    })?;
    ui.note(&format!("user {} created", args.name));
    if let Some(role) = args.role {
        let namespace = session.namespace_given.then_some(session.namespace.as_str());
        let (path, binding) = binding(&args.name, role, namespace);
        session.api.post(&path, &binding).await?;
        let place = namespace.map_or("everywhere".to_owned(), |ns| format!("in namespace {ns}"));
        ui.note(&format!("user {} has role {} {place}", args.name, role.name()));
    }
    hand_over(session, &args.name, &token, args.kubeconfig_out.as_deref(), ui)
}

async fn list(session: &Session, ui: &Ui) -> Result<(), Error> {
    let query = Query::default().with("fieldSelector", format!("type={SECRET_TYPE}"));
    let found = watch::list(&session.api, SECRETS, &query, JSON).await?;
    let now = clock::now();
    let mut rows = Vec::new();
    for secret in found["items"].as_array().into_iter().flatten() {
        match read(secret) {
            Ok(user) => rows.extend(rows_of(&user, now)),
            Err(error) => ui.error(&error.to_string()),
        }
    }
    if rows.is_empty() {
        ui.note("no users; `sutler user add NAME` makes one");
        return Ok(());
    }
    rows.sort();
    ui.print(&table::simple(&["USER", "GROUPS", "TOKEN", "AGE", "EXPIRES"], rows, ui.color))?;
    Ok(())
}

fn rows_of(user: &UserRecord, now: DateTime<Utc>) -> Vec<Vec<String>> {
    let groups = if user.groups.is_empty() { "-".into() } else { user.groups.join(",") };
    let row = |cells: [String; 3]| {
        let mut row = vec![user.username.clone(), groups.clone()];
        row.extend(cells);
        row
    };
    if user.tokens.is_empty() {
        return vec![row(["-".into(), "-".into(), "-".into()])];
    }
    user.tokens
        .iter()
        .map(|token| {
            let expires = match token.expires {
                None => "never".to_owned(),
                Some(_) if token.has_expired(now) => "expired".to_owned(),
                Some(at) => clock::rfc3339(at),
            };
            row([token.id.clone(), clock::age((now - token.created).num_seconds()), expires])
        })
        .collect()
}

async fn remove(session: &Session, name: &str, ui: &Ui) -> Result<(), Error> {
    // Rights go first: were this cut off, the user is left without them, not the other way round.
    let query = Query::default().with("labelSelector", format!("{LABEL}={}", label_value(name)));
    for kind in ["clusterrolebindings", "rolebindings"] {
        let found =
            watch::list(&session.api, &format!("{RBAC}/{kind}"), &query, METADATA_LIST).await?;
        for item in found["items"].as_array().into_iter().flatten() {
            let text = |key: &str| item["metadata"][key].as_str().unwrap_or_default();
            let path = match text("namespace") {
                "" => format!("{RBAC}/{kind}/{}", encode(text("name"))),
                ns => format!("{RBAC}/namespaces/{}/{kind}/{}", encode(ns), encode(text("name"))),
            };
            session.api.delete(&path, &json!({})).await?;
            ui.note(&format!("{} {} removed", kind.trim_end_matches('s'), text("name")));
        }
    }
    let path = format!("{SECRETS}/{}", encode(&secret_name(name)));
    session.api.delete(&path, &json!({})).await.map_err(|e| unknown_user(e, name))?;
    ui.line(&format!("user {name} removed"))?;
    Ok(())
}

async fn token(session: &Session, args: &TokenArgs, ui: &Ui) -> Result<(), Error> {
    check_out(args.kubeconfig_out.as_deref())?;
    let (token, record) = make_token(args.expires)?;
    let now = clock::now();
    change(session, &args.name, |user| {
        // What is refused anyway need not be kept.
        user.tokens.retain(|t| !t.has_expired(now));
        user.tokens.push(record.clone());
        Ok(())
    })
    .await?;
    hand_over(session, &args.name, &token, args.kubeconfig_out.as_deref(), ui)
}

async fn revoke(session: &Session, name: &str, id: &str, ui: &Ui) -> Result<(), Error> {
    change(session, name, |user| {
        let before = user.tokens.len();
        user.tokens.retain(|t| t.id != id);
        if user.tokens.len() < before {
            return Ok(());
        }
        let known: Vec<&str> = user.tokens.iter().map(|t| t.id.as_str()).collect();
        Err(Error::Failed(format!("user {name} has no token {id:?}; it has {}", known.join(", "))))
    })
    .await?;
    ui.line(&format!("token {id} of user {name} revoked"))?;
    Ok(())
}

/// Reads a user, changes it and writes it back, again where somebody else wrote first.
async fn change(
    session: &Session,
    name: &str,
    change: impl Fn(&mut UserRecord) -> Result<(), Error>,
) -> Result<(), Error> {
    let path = format!("{SECRETS}/{}", encode(&secret_name(name)));
    for attempt in 1.. {
        let mut secret = session.api.get(&path, JSON).await.map_err(|e| unknown_user(e, name))?;
        let mut user = read(&secret)?;
        change(&mut user)?;
        user.write_to(&mut secret);
        match session.api.put(&path, &secret).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read(secret: &Value) -> Result<UserRecord, Error> {
    UserRecord::from_secret(secret).map_err(|problems| {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let problems = problems.join("; ");
        Error::Failed(format!("Secret {NAMESPACE}/{name} is no user: {problems}"))
    })
}

/// Why a name or group cannot be given to a user here; the server itself refuses less.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("must not be empty")
    } else if name.len() > 253 {
        Some("must have at most 253 bytes")
    } else if name.trim() != name || name.chars().any(char::is_control) {
        Some("must not hold control characters, or begin or end with a blank")
    } else if name.starts_with("system:") {
        Some("must not begin with system:, which is for the server itself; give rights with --role")
    } else {
        None
    }
}

fn unknown_user(error: crate::client::errors::Error, name: &str) -> Error {
    match error.is_not_found() {
        true => Error::Failed(format!("there is no user {name:?}; `sutler user list` shows all")),
        false => error.into(),
    }
}

async fn create_namespace(session: &Session) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    match session.api.get(&path, METADATA).await {
        Err(error) if error.is_not_found() => {}
        // Whoever may not read it may still write into it: the write itself will tell.
        _ => return Ok(()),
    }
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    match session.api.post("/api/v1/namespaces", &body).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The path and the object that give a role to a user, everywhere or in a namespace.
fn binding(username: &str, role: Role, namespace: Option<&str>) -> (String, Value) {
    let name = format!("{}-{}", secret_name(username), role.name());
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {LABEL: label_value(username)}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role.name()},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": username}],
    });
    match namespace {
        None => (format!("{RBAC}/clusterrolebindings"), binding),
        Some(ns) => {
            binding["kind"] = "RoleBinding".into();
            binding["metadata"]["namespace"] = ns.into();
            (format!("{RBAC}/namespaces/{}/rolebindings", encode(ns)), binding)
        }
    }
}

fn make_token(expires: Option<Duration>) -> Result<(Token, TokenRecord), Error> {
    let now = clock::now();
    let expires = match expires {
        None => None,
        Some(after) => Some(
            chrono::Duration::from_std(after)
                .ok()
                .and_then(|after| now.checked_add_signed(after))
                .ok_or_else(|| Error::Usage("--expires is too far away".into()))?,
        ),
    };
    Ok(TokenRecord::issue(&mut OsRng.unwrap_err(), now, expires))
}

/// A file that is there is not overwritten, and that is found out before anything is made.
fn check_out(path: Option<&std::path::Path>) -> Result<(), Error> {
    match path {
        Some(path) if path.exists() => Err(Error::Usage(format!(
            "{} is there already: remove it or name another file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn hand_over(
    session: &Session,
    name: &str,
    token: &Token,
    out: Option<&std::path::Path>,
    ui: &Ui,
) -> Result<(), Error> {
    let Some(path) = out else {
        ui.note("this token is shown once and cannot be shown again:");
        ui.line(token.reveal())?;
        return Ok(());
    };
    let namespace = session.namespace_given.then(|| session.namespace.clone());
    let config = kubeconfig_for(&session.config, name, token.reveal(), namespace);
    kubeconfig::write(path, &config)?;
    let size = fs::metadata(path).map(|m| m.len()).unwrap_or_default();
    tracing::info!("kubeconfig of {size} bytes written");
    ui.note(&format!("kubeconfig written to {}", path.display()));
    Ok(())
}

/// A kubeconfig that reaches the same server as we do, as somebody else.
fn kubeconfig_for(
    config: &kube::Config,
    username: &str,
    token: &str,
    namespace: Option<String>,
) -> Kubeconfig {
    let authority = config.root_cert.as_ref().map(|certificates| {
        let pem: String = certificates.iter().map(|der| pem(der)).collect();
        STANDARD.encode(pem)
    });
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let context = format!("{username}@sutler");
    Kubeconfig {
        api_version: Some("v1".into()),
        kind: Some("Config".into()),
        current_context: Some(context.clone()),
        clusters: vec![NamedCluster {
            name: "sutler".into(),
            cluster: Some(Cluster {
                server: Some(server),
                certificate_authority_data: authority,
                insecure_skip_tls_verify: config.accept_invalid_certs.then_some(true),
                tls_server_name: config.tls_server_name.clone(),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: username.into(),
            auth_info: Some(AuthInfo {
                token: Some(token.to_owned().into()),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: context,
            context: Some(Context {
                cluster: "sutler".into(),
                user: Some(username.into()),
                namespace,
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    }
}

fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> = encoded
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
        .collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_bound_everywhere_or_in_a_namespace() {
        let (path, object) = binding("jane", Role::ClusterAdmin, None);
        assert_eq!(path, format!("{RBAC}/clusterrolebindings"));
        assert_eq!(object["metadata"]["name"], "user-jane-cluster-admin");
        assert_eq!(object["roleRef"]["name"], "cluster-admin");
        let (path, object) = binding("jane", Role::View, Some("prod"));
        assert_eq!(path, format!("{RBAC}/namespaces/prod/rolebindings"));
        assert_eq!(object["kind"], "RoleBinding");
        assert_eq!(object["metadata"]["labels"][LABEL], "jane");
    }

    #[test]
    fn broken_secrets_are_named_and_names_of_the_server_refused() {
        let secret = json!({"metadata": {"name": "s"}, "data": {"tokens": "%"}});
        let error = read(&secret).unwrap_err().to_string();
        assert!(error.starts_with("Secret sutler-system/s is no user: "), "{error}");
        assert!(error.contains("data.username") && error.contains("data.tokens"), "{error}");
        assert!(name_problem("system:masters").is_some() && name_problem("jane@x").is_none());
    }

    #[test]
    fn users_are_listed_with_their_tokens() {
        let now = clock::parse("2026-01-02T00:00:00Z").unwrap();
        let token = |id: &str, expires: Option<&str>| TokenRecord {
            id: id.into(),
            sha256: [0; 32],
            created: clock::parse("2026-01-01T23:00:00Z").unwrap(),
            expires: expires.and_then(clock::parse),
        };
        let tokens = vec![token("a", None), token("b", Some("2026-01-01T23:30:00Z"))];
        let groups = vec!["x".into(), "y".into()];
        let user = UserRecord { username: "jane".into(), uid: String::new(), groups, tokens };
        let rows = rows_of(&user, now);
        assert_eq!(rows[0], ["jane", "x,y", "a", "60m", "never"]);
        assert_eq!(rows[1][4], "expired");
    }

    #[test]
    fn a_kubeconfig_for_somebody_else_reaches_the_same_server() {
        let mut config = kube::Config::new("https://h:1/".parse().unwrap());
        config.root_cert = Some(vec![vec![1; 100]]);
        let made = kubeconfig_for(&config, "jane", "sutler_x", Some("prod".into()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        kubeconfig::write(&path, &made).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let read = Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("jane@sutler"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://h:1"));
        let data = STANDARD.decode(cluster.certificate_authority_data.as_ref().unwrap()).unwrap();
        assert!(String::from_utf8(data).unwrap().starts_with("-----BEGIN CERTIFICATE-----\nAQEB"));
        assert!(text.contains("sutler_x") && text.contains("namespace: prod"), "{text}");
        assert!(check_out(Some(&path)).is_err());
    }
}
