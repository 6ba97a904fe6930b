//! Real machines, each an overlay of one image: how long they take from apply to running, and what of that
//! is QEMU's. The same machines are then made once more, with the same disks and definitions, by libvirt
//! alone.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    fleet::Fleet,
    server::{Server, used},
};

const MACHINES: usize = 50;
const POOL: &str = "sutler-test";
/// Machines that libvirt alone starts at once: as many as our provider does.
const AT_ONCE: usize = 4;

/// Measures machines that halt, and then those of the guest image, which boot.
pub(crate) async fn measure(guest: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let halting = halting(folder.path());
    run("halt", Image { path: &halting, format: "raw", memory: "128Mi" }).await;
    run("boot", Image { path: guest, format: "qcow2", memory: "256Mi" }).await;
}

struct Image<'a> {
    path: &'a Path,
    format: &'a str,
    memory: &'a str,
}

/// A disk that halts whoever boots from it. Guests that boot keep the host's processors busy, so that what
/// is ours is lost in their time.
fn halting(folder: &Path) -> PathBuf {
    let mut disk = vec![0; 1 << 20];
    // cli; hlt; and the same again.
    disk[..4].copy_from_slice(&[0xfa, 0xf4, 0xeb, 0xfd]);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    let path = folder.join("halting.img");
    std::fs::write(&path, disk).unwrap();
    path
}

async fn run(what: &str, image: Image<'_>) {
    let Image { path, format, memory } = image;
    let server = Server::embedded();
    let provider = json!({"type": "libvirt", "endpoint": "qemu:///system", "options":
        {"pool": POOL, "accelerator": "tcg", "folders": [path.parent()]}});
    let source = json!({"libvirt": {"path": path, "format": format}});
    let fleet = Fleet::furnish_with(&server, provider, memory, source).await;
    let on = |vm: &serde_json::Value| vm["status"]["powerState"] == "On";
    // With the first one comes the image.
    tokio::join!(fleet.apply(0..1), fleet.until_all(1, on));
    let (before, ours) = (Spent::now(), (server.cpu(), server.cpu_of_children()));
    let begun = Instant::now();
    let all = MACHINES + 1;
    tokio::join!(fleet.apply(1..all), fleet.until_all(all, on));
    let took = begun.elapsed();
    let spent = Spent::now().since(&before);
    let ours = (server.cpu() - ours.0, server.cpu_of_children() - ours.1);
    let definitions: Vec<Definition> = domains().iter().map(|name| Definition::of(name)).collect();
    fleet.remove_all(all).await;
    // It would take the next ones for machines of its own that it has no record of.
    drop(server);
    let alone = alone(&definitions[..MACHINES], format);
    definitions.first().unwrap().remove_image();

    let each = |seconds: f64| seconds / MACHINES as f64 * 1000.0;
    let (took, alone) = (took.as_secs_f64(), alone.as_secs_f64());
    println!("{MACHINES} linked clones on QEMU without KVM, which {what}: from apply to running");
    println!("  ours                  {took:>6.1} s  {:>6.0} ms each", each(took));
    println!("  libvirt alone         {alone:>6.1} s  {:>6.0} ms each", each(alone));
    println!("  ours on top           {:>6.1} s  {:>6.2} times", took - alone, took / alone);
    println!(
        "  CPU each              {:.0} ms QEMU's, {:.0} ms libvirt's; ours {:.0} ms in sutler and \
         {:.0} ms in its provider",
        each(spent.qemu),
        each(spent.libvirt),
        each(ours.0),
        each(ours.1),
    );
}

fn virsh(args: &[&str]) -> String {
    let output = Command::new("virsh").args(["-q", "-c", "qemu:///system"]).args(args).output();
    let output = output.unwrap();
    assert!(output.status.success(), "virsh {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The machines of the bench.
fn domains() -> Vec<String> {
    let all = virsh(&["list", "--name"]);
    all.lines()
        .map(str::trim)
        .filter(|name| name.starts_with("bench-"))
        .map(str::to_owned)
        .collect()
}

/// A machine, as libvirt can make it again.
struct Definition {
    name: String,
    xml: String,
    /// The volumes of its disks, each with its size in bytes.
    root: (String, u64),
    seed: (String, u64),
    image: String,
}

impl Definition {
    fn of(name: &str) -> Self {
        let xml = virsh(&["dumpxml", "--inactive", name]);
        let mut disks = xml.split("<source file='").skip(1).map(|rest| rest.split('\'').next());
        let mut disk = || disks.next().flatten().unwrap().to_owned();
        let (root, seed) = (disk(), disk());
        let about = virsh(&["vol-dumpxml", &root]);
        let backing = between(&about, "<backingStore>", "</backingStore>");
        let image = between(backing, "<path>", "</path>").to_owned();
        let volume = |path: &str| {
            let about = virsh(&["vol-dumpxml", path]);
            let bytes = between(&about, "<capacity unit='bytes'>", "</capacity>").parse().unwrap();
            (path.rsplit('/').next().unwrap().to_owned(), bytes)
        };
        Self { name: name.to_owned(), root: volume(&root), seed: volume(&seed), image, xml }
    }

    /// Everything that libvirt is told to make it, but for what is in the volume of the first boot.
    fn make(&self, file: &Path, format: &str) -> [String; 4] {
        let Self { name, root, seed, image, .. } = self;
        [
            format!(
                "vol-create-as {POOL} {} {} --format qcow2 --backing-vol {image} \
                 --backing-vol-format {format}",
                root.0, root.1
            ),
            format!("vol-create-as {POOL} {} {} --format raw", seed.0, seed.1),
            format!("define {}", file.display()),
            format!("start {name}"),
        ]
    }

    fn unmake(&self) -> [String; 4] {
        let Self { name, root, seed, .. } = self;
        [
            format!("destroy {name}"),
            format!("undefine {name}"),
            format!("vol-delete {} --pool {POOL}", root.0),
            format!("vol-delete {} --pool {POOL}", seed.0),
        ]
    }

    /// The image was brought by a server that is gone.
    fn remove_image(&self) {
        let name = self.image.rsplit('/').next().unwrap();
        for volume in virsh(&["vol-list", POOL]).split_whitespace() {
            if volume.starts_with(name) {
                virsh(&["vol-delete", volume, "--pool", POOL]);
            }
        }
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

/// Makes machines over a few connections, with nobody in between.
fn alone(definitions: &[Definition], format: &str) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let mut batches = vec![Vec::new(); AT_ONCE];
    let mut ends = Vec::new();
    for (index, definition) in definitions.iter().enumerate() {
        let file = folder.path().join(&definition.name);
        std::fs::write(&file, &definition.xml).unwrap();
        batches[index % AT_ONCE].extend(definition.make(&file, format));
        ends.extend(definition.unmake());
    }
    let begun = Instant::now();
    let begin = |batch: &Vec<String>| {
        let mut virsh = Command::new("virsh");
        let virsh = virsh.args(["-q", "-c", "qemu:///system", &batch.join("; ")]);
        virsh.stdout(Stdio::null()).spawn().unwrap()
    };
    let running: Vec<_> = batches.iter().map(begin).collect();
    for mut virsh in running {
        virsh.wait().unwrap();
    }
    let took = begun.elapsed();
    let made = domains().len();
    virsh(&[&ends.join("; ")]);
    assert_eq!(made, definitions.len(), "libvirt alone has not made them all");
    took
}

/// CPU-seconds that others have used.
struct Spent {
    qemu: f64,
    libvirt: f64,
}

impl Spent {
    fn now() -> Self {
        let mut spent = Self { qemu: 0.0, libvirt: 0.0 };
        for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let read = |file: &str| std::fs::read_to_string(entry.path().join(file));
            let (Ok(stat), Ok(words)) = (read("stat"), read("cmdline")) else { continue };
            if words.contains("guest=bench-") {
                spent.qemu += used(&stat).1;
            } else if stat.contains("(libvirtd)") || stat.contains("(virtqemud)") {
                spent.libvirt += used(&stat).1;
            }
        }
        spent
    }

    fn since(&self, before: &Self) -> Self {
        Self { qemu: self.qemu - before.qemu, libvirt: self.libvirt - before.libvirt }
    }
}
