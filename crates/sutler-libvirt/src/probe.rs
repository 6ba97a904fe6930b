//! Whether guests run on the host's own processor. A host may offer `/dev/kvm` on which nothing boots, so
//! a machine without a disk is started and watched: its firmware finds nothing to boot, and resets it.

use std::time::{Duration, Instant};

use sutler_provider::Result;
use uuid::Uuid;
use virt::connect::Connect;

use crate::{
    domain::Accel,
    fault::{Done, if_there},
    host::{Facts, Libvirt},
    xml::element,
};

/// How long the firmware may take; a program that emulates a processor takes two seconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// How guests' instructions are run best.
pub(crate) async fn accel(host: &Libvirt, facts: &Facts) -> Result<Accel> {
    let arch = facts.arch.clone();
    let works = host.0.link.long(move |connect| Ok(boots(connect, &arch))).await?;
    let accel = match works {
        Ok(true) => Accel::Kvm,
        Ok(false) => {
            tracing::warn!("guests do not boot with KVM on this host: they run without it, slowly");
            Accel::Tcg
        }
        Err(fault) => {
            tracing::info!("the host has no KVM, so guests run without it: {}", fault.error);
            Accel::Tcg
        }
    };
    Ok(accel)
}

/// Starts a machine that has nothing to boot, and says whether its firmware came to its end.
fn boots(connect: &Connect, arch: &str) -> Done<bool> {
    let uuid = Uuid::new_v4();
    let xml = element("domain")
        .with("type", "kvm")
        .child(element("name").text(format!("sutler-probe-{}", uuid.simple())))
        .child(element("uuid").text(uuid))
        .child(element("memory").with("unit", "MiB").text(32))
        .child(element("vcpu").text(1))
        .child(
            element("os")
                .child(element("type").with("arch", arch).text("hvm"))
                .child(element("boot").with("dev", "hd"))
                .child(element("bios").with("rebootTimeout", 0)),
        )
        .child(element("cpu").with("mode", "host-model"))
        .child(element("on_reboot").text("destroy"))
        .child(element("on_crash").text("destroy"))
        .child(element("devices"));
    // It goes with this connection, whatever happens.
    let flags = virt_sys::VIR_DOMAIN_START_AUTODESTROY;
    let domain = connect.create_domain_xml(&xml.to_string(), flags)?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if if_there(connect.lookup_domain_by_uuid(uuid))?.is_none() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(domain.destroy());
    Ok(false)
}
