//! A host that is shared: with another namespace, and with people who know nothing of us.

use std::{path::PathBuf, process::Command};

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    first::sutler,
    lab::{self, INFRA, Lab},
    libvirt::{POOL, furnish, image, virsh, volumes},
    server::Form,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn namesakes_and_strangers_are_left_alone() {
    let Some(image) = image() else { return };
    lab::run(Form::Embedded, |lab| neighbours(lab, image)).await;
}

/// A domain with a disk that somebody else made. It goes with this.
struct Foreign(String);

impl Foreign {
    fn define() -> Self {
        let name = format!("foreign-{:08x}", rand::random::<u32>());
        let disk = format!("{name}.qcow2");
        virsh(&["vol-create-as", POOL, &disk, "1G", "--format", "qcow2"]);
        let path = virsh(&["vol-path", &disk, "--pool", POOL]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("domain.xml");
        let xml = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
             <os><type arch='x86_64' machine='q35'>hvm</type></os><devices>
             <disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
             <source file='{}'/><target dev='vda' bus='virtio'/></disk></devices></domain>",
            path.trim()
        );
        std::fs::write(&file, xml).unwrap();
        virsh(&["define", file.to_str().unwrap()]);
        Self(name)
    }

    /// All that there is of it.
    fn state(&self) -> [String; 3] {
        let volume = virsh(&["vol-info", &format!("{}.qcow2", self.0), "--pool", POOL]);
        [virsh(&["dumpxml", &self.0]), virsh(&["domstate", &self.0]), volume]
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let disk = format!("{}.qcow2", self.0);
        for args in [&["undefine", &self.0][..], &["vol-delete", &disk, "--pool", POOL]] {
            let virsh =
                Command::new("virsh").args(["-q", "-c", "qemu:///system"]).args(args).status();
            // Another failure is not hidden by this one.
            drop(virsh);
        }
    }
}

async fn neighbours(lab: Lab, image: PathBuf) {
    let foreign = Foreign::define();
    let before = foreign.state();
    let other = lab.neighbour().await;
    let off = json!({"powerState": "Off", "disks": [{"name": "data", "sizeGiB": 1}]});
    let mut ids = Vec::new();
    for lab in [&lab, &other] {
        furnish(lab, &image).await;
        let vm = lab.ready("web", off.clone()).await;
        ids.push(vm["status"]["id"].as_str().unwrap().to_owned());
    }
    assert_ne!(ids[0], ids[1], "one name, and two machines");

    let uuid = virsh(&["domuuid", &foreign.0]).trim().to_owned();
    let known = uuid.clone();
    let told = move |provider: &Value| unmanaged(provider).contains(&known);
    let provider = lab.until_of(INFRA, "Provider", "sim", "telling of the stranger", told).await;
    let told = unmanaged(&provider.unwrap());
    assert!(!ids.iter().any(|id| told.contains(id)), "{told:?}");
    let said = sutler(&["orphans", "--unmanaged", "-n", &lab.namespace]);
    assert!(said.contains(&uuid) && said.contains(&foreign.0), "{said}");
    assert!(!said.contains(&ids[0]) && !said.contains(&ids[1]), "{said}");

    let theirs = virsh(&["dumpxml", &ids[1]]);
    remove(&lab).await;
    assert_eq!(volumes(&ids[0]), Vec::<String>::new());
    assert_eq!(virsh(&["dumpxml", &ids[1]]), theirs, "the namesake stays as it is");
    assert_eq!(volumes(&ids[1]).len(), 3, "its root disk, its data and its first boot's");
    remove(&other).await;
    assert_eq!(volumes(&ids[1]), Vec::<String>::new());
    assert_eq!(foreign.state(), before);
}

/// The IDs of machines that a Provider tells of as others'.
fn unmanaged(provider: &Value) -> Vec<String> {
    let told = provider["status"]["unmanaged"].as_array().cloned().unwrap_or_default();
    told.iter().filter_map(|machine| Some(machine["id"].as_str()?.to_owned())).collect()
}

/// Removes the machine of a namespace, and the image.
async fn remove(lab: &Lab) {
    lab.delete("web").await;
    lab.until_gone("web").await;
    lab.api(INFRA, "VMImage").delete("debian", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "VMImage", "debian", "gone", Value::is_null).await;
}
