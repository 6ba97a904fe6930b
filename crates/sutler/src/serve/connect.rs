//! Providers: in this process, or dialled.

pub(super) mod children;
mod folder;
mod remote;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use children::Children;
use remote::Remotes;
use sutler_control::fleet::{Connector, Key, Target};
use sutler_provider::{Clock, Error, ErrorKind, Provider, Result};
use sutler_sim::{Settings, Sim};
use sutler_vpsie::Vpsie;
use tokio::sync::watch;

/// Types of Providers that this build can connect to.
const TYPES: [&str; 3] = ["sim", "libvirt", "vpsie"];
/// The program that serves libvirt.
pub(super) const LIBVIRT: &str = "sutler-libvirt";

/// Makes providers. A simulated hypervisor lives as long as the process: two Providers that name the
/// same one share it, and a folder cannot be opened twice.
pub(super) struct Platforms {
    clock: Arc<dyn Clock>,
    /// Where simulated hypervisors are kept; in memory when absent.
    folder: Option<PathBuf>,
    sims: watch::Sender<BTreeMap<String, Sim>>,
    remotes: Remotes,
    children: Children,
}

impl Platforms {
    /// Keeps simulated hypervisors in `folder`, or in memory where there is none.
    pub(super) fn new(clock: Arc<dyn Clock>, folder: Option<PathBuf>) -> Self {
        Self {
            clock,
            folder,
            sims: watch::Sender::default(),
            remotes: Remotes::default(),
            children: Children::default(),
        }
    }

    /// The simulated hypervisors that there are, now and later.
    pub(super) fn sims(&self) -> watch::Receiver<BTreeMap<String, Sim>> {
        self.sims.subscribe()
    }

    fn sim(&self, target: &Target) -> Result<Sim> {
        let name = sim_name(&target.endpoint)?;
        let wanted = Settings::from_options(&target.options)?;
        let mut answer =
            Err(Error::new(ErrorKind::Internal, "no simulated hypervisor was looked for"));
        // What is looked for and made within is not made twice.
        self.sims.send_if_modified(|sims| {
            answer = match sims.get(name) {
                Some(sim) => same_or_refused(name, sim, wanted).map(|()| sim.clone()),
                None => self.open(name, wanted),
            };
            match &answer {
                Ok(sim) => sims.insert(name.to_owned(), sim.clone()).is_none(),
                Err(_) => false,
            }
        });
        answer
    }

    fn open(&self, name: &str, settings: Settings) -> Result<Sim> {
        match &self.folder {
            Some(folder) => Sim::open(&folder.join(name), settings, self.clock.clone()),
            None => Sim::in_memory(settings, self.clock.clone()),
        }
    }
}

#[async_trait]
impl Connector for Platforms {
    async fn connect(&self, target: &Target) -> Result<Arc<dyn Provider>> {
        if let Some(dial) = &target.dial {
            return self.remotes.connect(target, dial);
        }
        match target.type_.as_str() {
            "sim" => Ok(Arc::new(self.sim(target)?)),
            "libvirt" => self.children.connect(target, LIBVIRT),
            "vpsie" => Ok(Arc::new(Vpsie::new(
                &target.endpoint,
                &target.credentials,
                target.insecure_skip_verify,
                sutler_vpsie::Settings::from_options(&target.options)?,
                self.clock.clone(),
            )?)),
            other => Err(Error::unsupported(format!(
                "spec.type: no provider of type {other} is in this build, which has: {}; others are \
                 reached with spec.runtime.mode: Remote",
                TYPES.join(", ")
            ))),
        }
    }

    fn makes_another(&self, target: &Target) -> bool {
        // Others are one program or one simulation, however often they are connected to.
        target.dial.is_none() && target.type_ == "vpsie"
    }

    fn release(&self, key: &Key) {
        self.remotes.release(key);
        self.children.release(key);
    }
}

/// The name in `sim://NAME`. It becomes the name of a folder.
fn sim_name(endpoint: &str) -> Result<&str> {
    let name = endpoint.strip_prefix("sim://").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
        return Err(Error::invalid(
            "spec.endpoint",
            format!(
                "{endpoint:?} names no simulated hypervisor: write sim://NAME, with letters, \
                 digits, - and _ in the name"
            ),
        ));
    }
    Ok(name)
}

/// What goes wrong can change while it runs; what kind of platform it is cannot.
fn same_or_refused(name: &str, sim: &Sim, wanted: Settings) -> Result<()> {
    let chances = wanted.faults;
    if (Settings { faults: sim.settings().faults, ..wanted }) != *sim.settings() {
        return Err(Error::invalid(
            "spec.options",
            format!(
                "sim://{name} runs with other options, and of those only faults can change while \
                 it does: put them back, name another endpoint, or restart the server"
            ),
        ));
    }
    sim.calm();
    sim.set_chances(chances);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sutler_provider::{Credentials, SystemClock};

    use super::*;

    fn target(type_: &str, endpoint: &str, options: Value) -> Target {
        Target {
            key: Key::new("default", "p"),
            uid: "u".to_owned(),
            type_: type_.to_owned(),
            endpoint: endpoint.to_owned(),
            insecure_skip_verify: false,
            options: options.as_object().cloned().unwrap_or_default(),
            credentials: Credentials::default(),
            dial: None,
        }
    }

    async fn refused(platforms: &Platforms, target: &Target) -> Error {
        match platforms.connect(target).await {
            Ok(_) => panic!("{target:?} was accepted"),
            Err(error) => error,
        }
    }

    #[tokio::test]
    async fn other_types_are_refused_and_the_error_says_which_there_are() {
        let platforms = Platforms::new(Arc::new(SystemClock), None);
        let error = refused(&platforms, &target("vsphere", "https://vc", json!({}))).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.message().contains("vsphere") && error.message().contains("has: sim, libvirt")
        );
    }

    #[tokio::test]
    async fn names_that_are_no_folder_are_refused() {
        let platforms = Platforms::new(Arc::new(SystemClock), None);
        for endpoint in ["sim://", "sim://../x", "sim://a/b", "sim://.", "https://lab"] {
            let error = refused(&platforms, &target("sim", endpoint, json!({}))).await;
            assert_eq!(error.field(), Some("spec.endpoint"), "{endpoint}");
        }
    }

    #[tokio::test]
    async fn one_folder_is_opened_once_and_only_its_faults_change() {
        let folder = tempfile::tempdir().unwrap();
        let platforms = Platforms::new(Arc::new(SystemClock), Some(folder.path().to_owned()));
        platforms.connect(&target("sim", "sim://lab", json!({}))).await.unwrap();
        let down = json!({"faults": {"refuse": 1.0}});
        let provider = platforms.connect(&target("sim", "sim://lab", down)).await.unwrap();
        assert!(provider.list().await.is_err());
        let provider = platforms.connect(&target("sim", "sim://lab", json!({}))).await.unwrap();
        assert!(provider.list().await.is_ok());
        let error = refused(&platforms, &target("sim", "sim://lab", json!({"seed": 7}))).await;
        assert_eq!(error.field(), Some("spec.options"));
        assert!(folder.path().join("lab").is_dir());
    }
}
