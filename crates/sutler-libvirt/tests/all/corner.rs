//! A corner of a host for one test: a storage pool of its own, and machines that have its word in their
//! names. Others may be at work on the same host.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sutler_libvirt::Libvirt;
use sutler_provider::{
    Class, CreateRequest, DeleteRequest, Error, GuestCommand, GuestOutput, Image, Machine,
    MachineId, Owner, PowerOp, PowerRequest, PrepareRequest, Proof, Provider as _,
    ReconfigureRequest, TaskId, TaskState, Token,
};
use tempfile::TempDir;
use virt::{connect::Connect, storage_pool::StoragePool};

use crate::lab;

/// The longest that anything may take here: guests may be slow.
pub(crate) const LONG: Duration = Duration::from_secs(240);

pub(crate) struct Corner {
    pub(crate) provider: Arc<Libvirt>,
    pub(crate) word: String,
    /// The guest image, as a file.
    pub(crate) image: PathBuf,
    pool: StoragePool,
    connect: Connect,
    machines: AtomicU32,
    /// What the pool is mounted from.
    _device: Option<Device>,
}

impl Corner {
    /// A pool that is a folder.
    pub(crate) fn open() -> Option<Self> {
        Self::open_with(json!({}))
    }

    /// A pool that is a folder, for a provider that has options of its own.
    pub(crate) fn open_with(options: Value) -> Option<Self> {
        Self::with(None, options)
    }

    /// A pool that has this much room; none where there is no loop device for it.
    pub(crate) fn small(mib: u64) -> Option<Self> {
        let device = Device::new(mib);
        if device.is_none() {
            println!("SKIPPED: there is no mke2fs, or no loop device");
        }
        Self::with(Some(device?), json!({}))
    }

    fn with(device: Option<Device>, more: Value) -> Option<Self> {
        let image = lab::guest()?;
        let connect = Connect::open(Some("qemu:///system")).unwrap();
        let word = lab::word();
        let shared = connect.lookup_storage_pool_by_name(&lab::pool()).unwrap();
        let xml = shared.xml_desc(0).unwrap();
        // QEMU's user gets there.
        let path = xml.split_once("<path>").unwrap().1.split_once("</path>").unwrap().0;
        let path = Path::new(path).parent().unwrap().join(format!("sutler-{word}"));
        let (kind, source) = match &device {
            None => ("dir", String::new()),
            Some(device) => ("fs", format!("<source><device path='{}'/></source>", device.path)),
        };
        let xml = format!(
            "<pool type='{kind}'><name>sutler-{word}</name>{source}<target><path>{}</path>
             <permissions><mode>0711</mode></permissions></target></pool>",
            path.display()
        );
        let pool = connect.define_storage_pool_xml(&xml, 0).unwrap();
        pool.build(0).unwrap();
        pool.create(0).unwrap();
        let mut options = lab::options(&format!("sutler-{word}"));
        let more = more.as_object().cloned().unwrap_or_default();
        options.as_object_mut().unwrap().extend(more);
        Some(Self {
            provider: lab::provider("qemu:///system", options),
            word,
            image,
            pool,
            connect,
            machines: AtomicU32::new(0),
            _device: device,
        })
    }

    /// An image from the guest's file, or from another.
    pub(crate) fn image_from(&self, path: &Path) -> PrepareRequest {
        let path = Some(path.display().to_string());
        let image = Image { path, format: Some("qcow2".to_owned()), ..Image::default() };
        PrepareRequest {
            image,
            target: format!("{}-image", self.word),
            verify: true,
            ..PrepareRequest::default()
        }
    }

    /// Brings an image in, and says what it is called.
    pub(crate) async fn bring(&self, request: PrepareRequest) -> Result<String, Error> {
        let prepared = self.provider.image_prepare(request).await?;
        self.ended(prepared.task).await?;
        Ok(prepared.id.unwrap())
    }

    /// A small machine, which is off unless something else is asked for.
    pub(crate) fn request(&self, image: Option<&str>) -> CreateRequest {
        let number = self.machines.fetch_add(1, Ordering::Relaxed);
        let owner = Owner {
            token: Token::new(format!("{}-{number}", self.word), 1),
            installation: "corner".to_owned(),
            namespace: "default".to_owned(),
            name: format!("m{number}"),
        };
        let image =
            image.map(|id| Image { id: Some(id.to_owned()), linked: true, ..Image::default() });
        CreateRequest {
            class: Some(Class::new(1, 256)),
            image,
            power_on: false,
            ..CreateRequest::new(owner, format!("{}-m{number}", self.word))
        }
    }

    /// Makes a machine.
    pub(crate) async fn make(&self, request: CreateRequest) -> Result<Made, Error> {
        let accepted = self.provider.create(request.clone()).await?;
        self.ended(accepted.task).await?;
        Ok(Made { id: accepted.id.unwrap(), request })
    }

    /// Waits for a task.
    pub(crate) async fn ended(&self, task: Option<TaskId>) -> Result<(), Error> {
        let Some(task) = task else { return Ok(()) };
        let end = Instant::now() + LONG;
        loop {
            match self.provider.task(&task).await? {
                TaskState::Running { .. } => assert!(Instant::now() < end, "{task} does not end"),
                TaskState::Done { .. } => return Ok(()),
                TaskState::Failed(error) => return Err(error),
                TaskState::Unknown => unreachable!("{task} is not known"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn power(&self, made: &Made, op: PowerOp) {
        let request = PowerRequest { id: made.id.clone(), proof: made.proof(), op };
        let started = self.provider.power(request).await.unwrap();
        self.ended(started.task).await.unwrap();
    }

    pub(crate) async fn shown(&self, made: &Made) -> Machine {
        self.provider.describe(&made.id).await.unwrap().unwrap()
    }

    /// Waits until a machine is shown to be as wanted.
    pub(crate) async fn until_shown(
        &self,
        made: &Made,
        what: &str,
        wanted: impl Fn(&Machine) -> bool,
    ) -> Machine {
        let end = Instant::now() + LONG;
        loop {
            let shown = self.shown(made).await;
            if wanted(&shown) {
                return shown;
            }
            assert!(Instant::now() < end, "it has never {what}: {shown:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Changes a machine until it is like this.
    pub(crate) async fn change(&self, made: &Made, desired: &CreateRequest) {
        self.try_change(made, desired).await.unwrap();
    }

    pub(crate) async fn try_change(
        &self,
        made: &Made,
        desired: &CreateRequest,
    ) -> Result<(), Error> {
        let request = ReconfigureRequest {
            id: made.id.clone(),
            proof: made.proof(),
            desired: desired.clone(),
            remove_disks: Vec::new(),
            remove_nics: Vec::new(),
        };
        let started = self.provider.reconfigure(request).await?;
        self.ended(started.task).await
    }

    /// Runs a shell's command in a guest, once its agent is there.
    pub(crate) async fn run(&self, made: &Made, command: &str) -> GuestOutput {
        let command = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
        let end = Instant::now() + LONG;
        loop {
            let command = GuestCommand {
                id: made.id.clone(),
                proof: made.proof(),
                command: command.clone(),
                timeout: LONG,
            };
            match self.provider.guest_exec(command).await {
                Ok(output) => return output,
                Err(error) => assert!(Instant::now() < end, "the guest is never up: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Waits until a shell's command in a guest succeeds, and gives what it says.
    pub(crate) async fn until(&self, made: &Made, command: &str) -> String {
        let end = Instant::now() + LONG;
        loop {
            let output = self.run(made, command).await;
            if output.exit_code == 0 {
                return output.stdout;
            }
            assert!(Instant::now() < end, "{command} never succeeds: {output:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) async fn delete(&self, made: &Made) {
        self.try_delete(made).await.unwrap();
    }

    pub(crate) async fn try_delete(&self, made: &Made) -> Result<(), Error> {
        let request = DeleteRequest { id: made.id.clone(), proof: made.proof() };
        let started = self.provider.delete(request).await?;
        self.ended(started.task).await
    }

    /// Removes an image. While another test has stopped its own pool, nobody can tell what is built upon it.
    pub(crate) async fn remove_image(&self, target: &str) {
        let end = Instant::now() + LONG;
        let others = |error: &Error| {
            error.message().contains("is not started") && !error.message().contains(&self.word)
        };
        while let Err(error) = self.provider.image_remove(target).await {
            assert!(others(&error) && Instant::now() < end, "{error:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Takes a disk out of a machine that is off, and leaves its volume.
    pub(crate) async fn unplug(&self, made: &Made, disk: &str) {
        let shown = self.shown(made).await.disks.unwrap();
        let path = shown.into_iter().find(|one| one.name == disk).unwrap().path.unwrap();
        let domain = self.connect.lookup_domain_by_uuid_string(&made.id.0).unwrap();
        let xml = domain.xml_desc(0).unwrap();
        let disk = xml.split("<disk ").skip(1).find(|disk| disk.contains(&path)).unwrap();
        let disk = disk.split("</disk>").next().unwrap();
        let xml = format!("<disk {disk}</disk>");
        domain.detach_device_flags(&xml, virt_sys::VIR_DOMAIN_AFFECT_CONFIG).unwrap();
    }

    /// Stops the pool, or starts it again.
    pub(crate) fn run_pool(&self, runs: bool) {
        match runs {
            true => self.pool.create(0).unwrap(),
            false => self.pool.destroy().unwrap(),
        }
    }

    /// Domains with the word in their names, and all volumes of the pool.
    fn left(&self) -> (Vec<String>, Vec<String>) {
        let domains = self.connect.list_all_domains(0).unwrap();
        let names = domains.iter().filter_map(|domain| domain.name().ok());
        self.pool.refresh(0).unwrap();
        (
            names.filter(|name| name.contains(&self.word)).collect(),
            // A file system of its own has this.
            self.pool
                .list_volumes()
                .unwrap()
                .into_iter()
                .filter(|name| name != "lost+found")
                .collect(),
        )
    }

    /// There is neither a machine nor a volume here.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.left(), (Vec::new(), Vec::new()));
    }
}

impl Drop for Corner {
    /// Also after a failure nothing is left on the host.
    fn drop(&mut self) {
        for domain in self.connect.list_all_domains(0).unwrap_or_default() {
            if domain.name().is_ok_and(|name| name.contains(&self.word)) {
                drop(domain.destroy());
                let flags = virt_sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
                    | virt_sys::VIR_DOMAIN_UNDEFINE_NVRAM;
                drop(domain.undefine_flags(flags));
            }
        }
        drop(self.pool.refresh(0));
        for volume in self.pool.list_all_volumes(0).unwrap_or_default() {
            drop(volume.delete(0));
        }
        drop(self.pool.destroy());
        drop(self.pool.delete(0));
        drop(self.pool.undefine());
    }
}

/// A small file system in a file.
struct Device {
    path: String,
    _folder: TempDir,
}

impl Device {
    fn new(mib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("device");
        std::fs::File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let mut mke2fs = Command::new("/sbin/mke2fs");
        let made = mke2fs.args(["-q", "-t", "ext4", "-m", "0"]).arg(&file).status();
        made.ok().filter(ExitStatus::success)?;
        let loop_ = Command::new("/sbin/losetup").args(["--find", "--show"]).arg(&file).output();
        let path = loop_.ok().filter(|output| output.status.success())?.stdout;
        let path = String::from_utf8(path).unwrap().trim().to_owned();
        Some(Self { path, _folder: folder })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(Command::new("/sbin/losetup").args(["--detach", &self.path]).status());
    }
}

/// A machine of a test.
pub(crate) struct Made {
    pub(crate) id: MachineId,
    pub(crate) request: CreateRequest,
}

impl Made {
    pub(crate) fn proof(&self) -> Proof {
        Proof { owner: self.request.owner.clone(), name: Some(self.request.name.clone()) }
    }
}
