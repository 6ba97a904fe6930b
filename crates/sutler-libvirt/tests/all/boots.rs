//! Guests that boot in other ways than most, and tell what they were given.

use futures::StreamExt as _;
use serde_json::json;
use sutler_provider::{Console, Firmware, Machine, Nic, Provider as _};

use crate::corner::{Corner, LONG};

/// The address of an interface by its name, and its hardware address.
fn card<'a>(machine: &'a Machine, name: &str) -> (&'a [String], Option<&'a str>) {
    let all = machine.interfaces.as_deref().unwrap_or_default();
    let found = all.iter().find(|card| card.name.as_deref() == Some(name));
    found.map_or((&[], None), |card| (card.ips.as_slice(), card.mac.as_deref()))
}

/// Secure Boot, an address by DHCP and one that is fixed, on a card with a hardware address of its own,
/// and a console.
#[tokio::test(flavor = "multi_thread")]
async fn a_signed_guest_by_uefi_with_its_cards_and_its_console() {
    let Some(corner) = Corner::open() else { return };
    let image = corner.bring(corner.image_from(&corner.image.clone())).await.unwrap();
    let mut request = corner.request(Some(&image));
    let class = request.class.as_mut().unwrap();
    (class.firmware, class.memory_mib) = (Firmware::Uefi, 512);
    let secure = json!({"secureBoot": true});
    class.profiles.insert("securityProfile".to_owned(), secure);
    let pairs: Vec<&str> = (0..4).map(|at| &corner.word[2 * at..2 * at + 2]).collect();
    let mac = format!("52:54:{}", pairs.join(":"));
    let lan = Nic { name: "lan".to_owned(), ..Nic::default() };
    let fixed = Nic {
        name: "fixed".to_owned(),
        mac: Some(mac.clone()),
        ip: Some("10.77.0.5".to_owned()),
        prefix: Some(24),
        ..Nic::default()
    };
    request.nics = vec![lan, fixed];
    request.power_on = true;
    let made = corner.make(request).await.unwrap();

    corner.until(&made, "dmesg | grep -q 'secureboot: Secure boot enabled'").await;
    let leased =
        |machine: &Machine| card(machine, "lan").0.iter().any(|ip| ip.starts_with("192.168."));
    let shown = corner.until_shown(&made, "leased an address", leased).await;
    let (ips, its_mac) = card(&shown, "fixed");
    assert!(ips.contains(&"10.77.0.5".to_owned()), "{shown:?}");
    assert_eq!(its_mac, Some(mac.as_str()));
    assert!(shown.ips.contains(&"10.77.0.5".to_owned()), "{:?}", shown.ips);

    let opened = corner.provider.console(&made.id, &made.proof()).await.unwrap();
    let Console { mut output, input } = opened;
    input.send(b"\necho $((6 * 7)) are told\n".to_vec()).await.unwrap();
    let mut said = String::new();
    let told = async {
        while !said.contains("42 are told") {
            let bytes = output.next().await.unwrap();
            said.push_str(&String::from_utf8_lossy(&bytes));
        }
    };
    let told = tokio::time::timeout(LONG, told).await;
    assert!(told.is_ok(), "the console says {said:?}");

    corner.delete(&made).await;
    corner.remove_image(&corner.image_from(&corner.image).target).await;
    corner.assert_empty();
}

/// The guest reads it where Ignition would. Whether it runs with KVM is tried out on this host.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignition_config_where_its_guest_looks_for_it() {
    let Some(corner) = Corner::open_with(json!({"accelerator": "auto"})) else { return };
    let image = corner.bring(corner.image_from(&corner.image.clone())).await.unwrap();
    let config = json!({"ignition": {"version": "3.4.0"}, "systemd": {}}).to_string();
    let mut request = corner.request(Some(&image));
    request.ignition = true;
    request.user_data = Some(config.clone().into_bytes());
    request.power_on = true;
    let made = corner.make(request).await.unwrap();
    let place = "/sys/firmware/qemu_fw_cfg/by_name/opt/com.coreos/config/raw";
    assert_eq!(corner.until(&made, &format!("cat {place}")).await, config);
    corner.until_shown(&made, "told an address", |machine| !machine.ips.is_empty()).await;
    corner.delete(&made).await;
    corner.remove_image(&corner.image_from(&corner.image).target).await;
    corner.assert_empty();
}
