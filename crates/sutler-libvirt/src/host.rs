//! A host as a provider, and what it is like.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use roxmltree::Document;
use sutler_provider::{
    Capabilities, Clock, Credentials, Deadlines, Error, Host, Result, SystemClock, UniqueBy,
};
use tokio::sync::OnceCell;
use virt::connect::Connect;

use crate::{
    addresses::Addresses,
    domain::Accel,
    endpoint::Endpoint,
    fault::Done,
    find,
    link::Link,
    maker::Maker,
    mark::Making,
    plan::{DISK_TYPES, Limits, NAME_LIMIT},
    probe,
    settings::{Accelerator, Settings},
    storage::Pool,
    tasks::{Locks, Tasks},
    transfer,
    volume::GIB,
    watch::Watch,
};

/// How long calls may take: each waits for its slot and for a connection, and then for libvirt. What
/// takes longer is a task.
const DEADLINES: Deadlines = Deadlines {
    look: Duration::from_secs(60),
    list: Duration::from_secs(120),
    make: Duration::from_secs(90),
    change: Duration::from_secs(90),
    transfer: Duration::from_secs(1800),
};

/// A host that libvirt runs machines on.
#[derive(Clone)]
pub struct Libvirt(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) settings: Settings,
    /// Where images are kept while they are fetched.
    pub(crate) downloads: PathBuf,
    pub(crate) tasks: Tasks,
    pub(crate) locks: Locks,
    pub(crate) watch: Watch,
    pub(crate) addresses: Addresses,
    pub(crate) maker: Maker,
    clock: Arc<dyn Clock>,
    facts: OnceCell<Facts>,
    accel: OnceCell<Accel>,
}

/// What a host is like and stays like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Which hypervisor.
    pub(crate) driver: Driver,
    pub(crate) name: String,
    pub(crate) arch: String,
    pub(crate) limits: Limits,
    version: String,
}

/// Hypervisors that libvirt speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    Qemu,
    /// libvirt's own, which has no guests.
    Test,
}

impl Libvirt {
    /// A provider for the host at this address, which keeps images in `downloads` while they are
    /// fetched. Nothing is sent there yet.
    pub fn new(
        endpoint: &str,
        credentials: &Credentials,
        skip_verify: bool,
        settings: Settings,
        downloads: PathBuf,
    ) -> Result<Self> {
        let endpoint = Endpoint::new(endpoint, credentials, skip_verify)?;
        let (link, told) = Link::new(endpoint);
        let inner = Inner {
            link: link.clone(),
            settings,
            downloads,
            tasks: Tasks::new(),
            locks: Locks::default(),
            watch: Watch::new(),
            addresses: Addresses::default(),
            maker: Maker::new(),
            clock: Arc::new(SystemClock),
            facts: OnceCell::new(),
            accel: OnceCell::new(),
        };
        let host = Self(Arc::new(inner));
        tokio::spawn(crate::watch::run(Arc::downgrade(&host.0), told));
        Ok(host)
    }

    /// What the host is like; asked once.
    pub(crate) async fn facts(&self) -> Result<&Facts> {
        self.0.facts.get_or_try_init(|| self.0.link.look(facts)).await
    }

    /// How guests' instructions are run here; tried once.
    pub(crate) async fn accel(&self) -> Result<Accel> {
        let facts = self.facts().await?;
        let found = self.0.accel.get_or_try_init(|| async {
            match (facts.driver, self.0.settings.accelerator) {
                (Driver::Test, _) => Ok(Accel::Test),
                (Driver::Qemu, Accelerator::Kvm) => Ok(Accel::Kvm),
                (Driver::Qemu, Accelerator::Tcg) => Ok(Accel::Tcg),
                (Driver::Qemu, Accelerator::Auto) => probe::accel(self, facts).await,
            }
        });
        found.await.copied()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The note that this process is making a machine.
    pub(crate) fn making(&self) -> Making {
        Making { by: self.0.maker.write(), since: self.now() }
    }

    /// Lets work go on when its caller is gone.
    pub(crate) async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match tokio::spawn(work).await {
            Ok(result) => result,
            Err(panic) => Err(Error::internal(format!("the work failed: {panic}"))),
        }
    }

    /// What the host can do.
    pub(crate) async fn can(&self) -> Result<Capabilities> {
        let facts = self.facts().await?;
        let qemu = facts.driver == Driver::Qemu;
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Ok(Capabilities {
            unique_by: UniqueBy::Token,
            token: true,
            list: true,
            events: true,
            addresses: qemu,
            returns_id: true,
            // An ID is made from a token, and a token is one machine's.
            reuses_ids: false,
            name_limit: NAME_LIMIT,
            deadlines: DEADLINES,
            concurrency: 16,
            reconfigure: qemu,
            reconfigure_online: qemu,
            disk_growth_online: qemu,
            graceful_shutdown: true,
            pause: true,
            snapshots: true,
            memory_snapshots: true,
            clones: qemu,
            linked_clones: false,
            image_import: qemu,
            kept_disks: qemu,
            disk_export: qemu,
            disk_import: qemu,
            export_formats: texts(&transfer::FORMATS),
            import_formats: texts(&transfer::FORMATS),
            transfer_backends: texts(&transfer::BACKENDS),
            guest_commands: qemu,
            templates: true,
            hosts: true,
            console: qemu,
            disk_types: texts(&DISK_TYPES),
            network_types: texts(&["network", "bridge"]),
            version: Some(facts.version.clone()),
            ..Capabilities::default()
        })
    }

    /// The host with what runs on it.
    pub(crate) async fn hosts(&self) -> Result<Vec<Host>> {
        let facts = self.facts().await?.clone();
        let accel = self.0.accel.get().copied();
        self.0
            .link
            .look(move |connect| {
                let mut host = Host {
                    name: facts.name,
                    online: true,
                    cpu: facts.limits.cpu,
                    memory_mib: facts.limits.memory_mib,
                    ..Host::default()
                };
                for (_, seen) in find::all(connect)? {
                    host.cpu_used += seen.cpu.unwrap_or_default();
                    host.memory_mib_used += seen.memory_mib.unwrap_or_default();
                }
                let (mut all, mut taken) = (0, 0);
                let room = |pool: &Pool| Ok((pool.name.clone(), pool.pool.info()?));
                for (name, info) in Pool::ask_all(connect, room)? {
                    all += info.capacity;
                    taken += info.allocation;
                    host.datastores.push(name);
                }
                host.disk_gib = Some(all / GIB);
                host.disk_gib_used = taken / GIB;
                if accel == Some(Accel::Kvm) {
                    host.features.push("kvm".to_owned());
                }
                Ok(vec![host])
            })
            .await
    }
}

fn facts(connect: &Connect) -> Done<Facts> {
    let driver = match connect.driver_type()?.to_lowercase().as_str() {
        "qemu" => Driver::Qemu,
        "test" => Driver::Test,
        other => {
            let why = format!("libvirt's driver {other} is not served, only QEMU's");
            return Err(Error::unsupported(why).at("spec.endpoint").into());
        }
    };
    let node = connect.node_info()?;
    let number = |version: u32| {
        format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000)
    };
    let hypervisor = connect.hyp_version().map(number).unwrap_or_default();
    Ok(Facts {
        driver,
        name: connect.hostname()?,
        arch: architecture(&connect.capabilities()?).unwrap_or_else(|| "x86_64".to_owned()),
        limits: Limits { cpu: node.cpus, memory_mib: node.memory / 1024 },
        version: format!("libvirt {}, hypervisor {hypervisor}", number(connect.lib_version()?)),
    })
}

/// The host's own architecture.
fn architecture(capabilities: &str) -> Option<String> {
    let document = Document::parse(capabilities).ok()?;
    let mut nodes = document.descendants();
    let cpu = nodes.find(|node| {
        node.has_tag_name("cpu") && node.parent().is_some_and(|parent| parent.has_tag_name("host"))
    })?;
    let arch = cpu.children().find(|node| node.has_tag_name("arch"))?;
    arch.text().map(|text| text.trim().to_owned())
}
