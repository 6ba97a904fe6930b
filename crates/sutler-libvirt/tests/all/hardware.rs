//! Virtual hardware that most machines do not have, and what becomes of it while they run.

use serde_json::json;
use sutler_provider::{
    Disk, Error, ErrorKind, Firmware, Power, PowerOp, Provider as _, SnapshotId, SnapshotRequest,
};

use crate::corner::{Corner, Made};

fn disk(name: &str, size_gib: u64) -> Disk {
    Disk { name: name.to_owned(), size_gib, ..Disk::default() }
}

/// More disks than fit into what libvirt gives out by itself; one more while it runs; and growth, which
/// its guest sees.
#[tokio::test(flavor = "multi_thread")]
async fn scsi_disks_are_many_and_grow_under_their_guest() {
    let Some(corner) = Corner::open() else { return };
    let image = corner.bring(corner.image_from(&corner.image.clone())).await.unwrap();
    let mut request = corner.request(Some(&image));
    let class = request.class.as_mut().unwrap();
    class.extra.insert("libvirt.bus".to_owned(), "scsi".to_owned());
    class.root_gib = Some(1);
    request.disks = (1..=8).map(|number| disk(&format!("data{number}"), 1)).collect();
    request.power_on = true;
    let made = corner.make(request.clone()).await.unwrap();
    let count = "test $(ls -d /sys/block/sd* | wc -l) = ";
    corner.until(&made, &format!("{count}9")).await;

    request.disks.push(disk("late", 1));
    corner.change(&made, &request).await;
    corner.until(&made, &format!("{count}10")).await;

    // One has a file system of its own, the root disk has one in a partition.
    let find = "for d in /sys/block/sd*; do \
        [ \"$(tr -dc '[:alnum:]' <$d/device/vpd_pg80)\" != data8 ] || disk=/dev/${d##*/}; done";
    let mount = format!("{find}; mkdir -p /mnt && mke2fs -F $disk >&2 && mount $disk /mnt");
    corner.until(&made, &mount).await;
    request.class.as_mut().unwrap().root_gib = Some(2);
    request.disks[7].size_gib = 3;
    corner.change(&made, &request).await;
    // In blocks of 1 KiB.
    let size = |place: &str| format!("df -k {place} | awk 'END {{ print $2 }}'");
    corner.until(&made, &format!("test $({}) -gt 2900000", size("/mnt"))).await;
    corner.until(&made, &format!("test $({}) -gt 1800000", size("/"))).await;

    corner.delete(&made).await;
    corner.remove_image(&corner.image_from(&corner.image).target).await;
    corner.assert_empty();
}

/// CPUs and memory come and go under a guest that has room for them.
#[tokio::test(flavor = "multi_thread")]
async fn cpus_and_memory_change_while_a_guest_runs() {
    let Some(corner) = Corner::open() else { return };
    let image = corner.bring(corner.image_from(&corner.image.clone())).await.unwrap();
    let mut request = corner.request(Some(&image));
    let room = json!({"cpuHotAddEnabled": true, "memoryHotAddEnabled": true});
    request.class.as_mut().unwrap().profiles.insert("performanceProfile".to_owned(), room);
    request.power_on = true;
    let made = corner.make(request.clone()).await.unwrap();
    let shown = corner.shown(&made).await;
    assert_eq!((shown.cpu, shown.memory_mib), (Some(1), Some(256)));
    assert_eq!(shown.most_memory_mib, Some(1024));
    let cpu = shown.most_cpu.unwrap().min(2);
    // What the guest has of it, in KiB; its kernel keeps some to itself.
    let memory = "awk '/^MemTotal/ { print $2 }' /proc/meminfo";
    corner.until(&made, &format!("test $(nproc) = 1 && test $({memory}) -lt 262144")).await;

    let class = request.class.as_mut().unwrap();
    (class.cpu, class.memory_mib) = (cpu, 512);
    corner.change(&made, &request).await;
    corner.until(&made, &format!("test $(nproc) = {cpu} && test $({memory}) -gt 262144")).await;
    let shown = corner.shown(&made).await;
    assert_eq!((shown.cpu, shown.memory_mib), (Some(cpu), Some(512)));
    request.class.as_mut().unwrap().memory_mib = 256;
    corner.change(&made, &request).await;
    corner.until(&made, &format!("test $({memory}) -lt 262144")).await;

    // There is no room for more than four times as much.
    request.class.as_mut().unwrap().memory_mib = 2048;
    let error = corner.try_change(&made, &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("switch it off first"), "{error}");
    assert_eq!(corner.shown(&made).await.power, Power::On);
    corner.delete(&made).await;
    corner.remove_image(&corner.image_from(&corner.image).target).await;
    corner.assert_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_hang_on_the_bus_of_their_class() {
    let Some(corner) = Corner::open() else { return };
    for bus in ["virtio", "scsi", "sata"] {
        let mut request = corner.request(None);
        let class = request.class.as_mut().unwrap();
        class.extra.insert("libvirt.bus".to_owned(), bus.to_owned());
        class.extra.insert("libvirt.cache".to_owned(), "unsafe".to_owned());
        request.disks = vec![disk("data", 1)];
        request.power_on = true;
        let made = corner.make(request).await.unwrap();
        assert_eq!(corner.shown(&made).await.power, Power::On, "{bus}");
        corner.delete(&made).await;
    }
    corner.assert_empty();
}

/// The program can be ended after a disk was made and before it was plugged in.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_left_half_plugged_in_is_made_again() {
    let Some(corner) = Corner::open() else { return };
    let mut request = corner.request(None);
    request.disks = vec![disk("data", 1)];
    let made = corner.make(request.clone()).await.unwrap();
    corner.unplug(&made, "data").await;
    request.disks[0].size_gib = 2;
    corner.change(&made, &request).await;
    let shown = corner.shown(&made).await.disks.unwrap();
    let data: Vec<u64> =
        shown.iter().filter(|disk| disk.name == "data").map(|disk| disk.size_gib).collect();
    assert_eq!(data, [2], "{shown:?}");
    corner.delete(&made).await;
    corner.assert_empty();
}

async fn snapshot(corner: &Corner, made: &Made, name: &str, memory: bool) -> Result<(), Error> {
    let request = SnapshotRequest {
        id: made.id.clone(),
        proof: made.proof(),
        name: name.to_owned(),
        description: None,
        memory,
        quiesce: false,
    };
    let taken = corner.provider.snapshot_create(request).await?;
    corner.ended(taken.task).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_with_uefi_has_snapshots_while_it_is_off() {
    let Some(corner) = Corner::open() else { return };
    let mut request = corner.request(None);
    request.class.as_mut().unwrap().firmware = Firmware::Uefi;
    let made = corner.make(request).await.unwrap();
    snapshot(&corner, &made, "off", false).await.unwrap();
    corner.power(&made, PowerOp::On).await;
    let error = snapshot(&corner, &made, "on", false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("switch it off first"), "{error}");
    let error = snapshot(&corner, &made, "on", true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.field(), Some("spec.snapshotConfig.includeMemory"));
    // It goes back and runs on, as it ran before.
    let (proof, off) = (made.proof(), SnapshotId::from("off"));
    let started = corner.provider.snapshot_revert(&made.id, &proof, &off).await.unwrap();
    corner.ended(started.task).await.unwrap();
    let shown = corner.shown(&made).await;
    assert_eq!((shown.power, shown.snapshots.unwrap().len()), (Power::On, 1));
    corner.delete(&made).await;
    corner.assert_empty();
}
