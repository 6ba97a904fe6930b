//! Hosts to test on.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::{Duration, Instant, UNIX_EPOCH},
};

use serde_json::{Value, json};
use sutler_libvirt::{Libvirt, Settings};
use sutler_provider::{Credentials, Image, PrepareRequest, Provider as _, TaskId, TaskState};
use tempfile::TempDir;
use virt::{connect::Connect, storage_pool::StoragePool, storage_vol::StorageVol};

/// Where images are kept while they are fetched.
static DOWNLOADS: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

pub(crate) fn provider(endpoint: &str, options: Value) -> Arc<Libvirt> {
    provider_with(endpoint, &Credentials::default(), options)
}

pub(crate) fn provider_with(
    endpoint: &str,
    credentials: &Credentials,
    options: Value,
) -> Arc<Libvirt> {
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    let downloads = DOWNLOADS.path().to_owned();
    Arc::new(Libvirt::new(endpoint, credentials, false, settings, downloads).unwrap())
}

/// The guest image, where `hack/libvirt.sh up` has set up a host for it. The environment says so, and then
/// it has to work.
pub(crate) fn guest() -> Option<PathBuf> {
    let Some(path) = std::env::var_os("SUTLER_GUEST_IMAGE").map(PathBuf::from) else {
        println!("SKIPPED: there is no guest; hack/tests.sh makes one where it can");
        return None;
    };
    assert!(path.is_file(), "{} is not there", path.display());
    Some(path)
}

/// Options of a provider that may bring in and send out files of the guest's folder and of temporary ones.
pub(crate) fn options(pool: &str) -> Value {
    let guest = guest().and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
    json!({ "pool": pool, "accelerator": "tcg", "folders": [guest, std::env::temp_dir()] })
}

/// The pool of the lab.
pub(crate) fn pool() -> String {
    std::env::var("SUTLER_LIBVIRT_TEST_POOL").unwrap_or("sutler-test".to_owned())
}

/// libvirt's own driver for tests, with something to make machines from. It lives while one connection
/// is open.
pub(crate) fn driver() -> (Connect, Arc<Libvirt>) {
    let provider = provider("test:///default", json!({ "pool": "default-pool" }));
    let connect = Connect::open(Some("test:///default")).unwrap();
    let pool = connect.lookup_storage_pool_by_name("default-pool").unwrap();
    let xml = "<volume><name>base</name><capacity unit='GiB'>1</capacity>
        <target><format type='qcow2'/></target></volume>";
    // Another test may have been first.
    if StorageVol::create_xml(&pool, xml, 0).is_err() {
        pool.lookup_storage_vol_by_name("base").unwrap();
    }
    (connect, provider)
}

/// A host with QEMU, and the guest image that was made for it.
pub(crate) struct Lab {
    pub(crate) provider: Arc<Libvirt>,
    /// The image's name in the pool.
    pub(crate) template: String,
    pub(crate) path: PathBuf,
    pool: String,
}

impl Lab {
    /// The lab, where it was set up.
    pub(crate) async fn open() -> Option<Self> {
        let path = guest()?;
        let pool = pool();
        let provider = provider("qemu:///system", options(&pool));
        // Another guest than last time is another image.
        let file = std::fs::metadata(&path).unwrap();
        let made = file.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let target = format!("guest-{}-{made}", file.len());
        let lab = Self { provider, template: format!("sutler-image-{target}"), path, pool };
        let request = PrepareRequest { image: lab.image(), target, ..PrepareRequest::default() };
        // Two tests bring the same image.
        static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _one = ONE.lock().await;
        let prepared = lab.provider.image_prepare(request).await.unwrap();
        if let Some(task) = prepared.task {
            lab.ended(&task).await;
        }
        Some(lab)
    }

    /// The guest image as a file of this host.
    pub(crate) fn image(&self) -> Image {
        Image {
            path: Some(self.path.display().to_string()),
            format: Some("qcow2".to_owned()),
            ..Image::default()
        }
    }

    /// Waits for a task, which has to end well.
    pub(crate) async fn ended(&self, task: &TaskId) {
        loop {
            match self.provider.task(task).await.unwrap() {
                TaskState::Running { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
                TaskState::Done { .. } => return,
                other => unreachable!("{task}: {other:?}"),
            }
        }
    }

    /// Removes disks that were brought in under names with this word and became no machine's: no call does.
    pub(crate) fn remove_imports(&self, word: &str) {
        let connect = Connect::open(Some("qemu:///system")).unwrap();
        let pool = connect.lookup_storage_pool_by_name(&self.pool).unwrap();
        for name in pool.list_volumes().unwrap() {
            if name.starts_with("sutler-import-") && name.contains(word) {
                pool.lookup_storage_vol_by_name(&name).unwrap().delete(0).unwrap();
            }
        }
    }

    /// No machine whose name has the word in it, and no volume of any machine, is left. A volume that
    /// another test makes for a machine is soon there no more, or that machine's.
    pub(crate) async fn assert_nothing_left(&self, word: &str) {
        let left = async || {
            let machines = self.provider.list().await.unwrap().machines;
            let named: Vec<_> = machines
                .iter()
                .map(|m| m.name.clone())
                .filter(|name| name.contains(word))
                .collect();
            let connect = Connect::open(Some("qemu:///system")).unwrap();
            let pool = connect.lookup_storage_pool_by_name(&self.pool).unwrap();
            refresh(&pool).await;
            let is_machines = |name: &String| {
                let uuid = name.strip_prefix("sutler-").and_then(|rest| rest.get(..36));
                let uuid = uuid.and_then(|uuid| uuid.parse::<uuid::Uuid>().ok());
                uuid.is_some_and(|uuid| machines.iter().all(|m| m.id.0 != uuid.to_string()))
            };
            let volumes = pool.list_volumes().unwrap().into_iter();
            let volumes: BTreeSet<String> =
                volumes.filter(|name| is_machines(name) || name.contains(word)).collect();
            (named, volumes)
        };
        let end = Instant::now() + Duration::from_secs(60);
        let mut always: Option<BTreeSet<String>> = None;
        loop {
            let (machines, volumes) = left().await;
            let volumes = match always {
                Some(always) => always.intersection(&volumes).cloned().collect(),
                None => volumes,
            };
            if machines.is_empty() && volumes.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left: {machines:?} and {volumes:?}");
            always = Some(volumes);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Lets a pool look at what is there: not while somebody writes a volume of it.
async fn refresh(pool: &StoragePool) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = pool.refresh(0) {
        assert!(Instant::now() < end, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A word that no other run has.
pub(crate) fn word() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..8].to_owned()
}
