//! What a guest is given on its first boot: a volume as cloud-init's NoCloud reads it.

use std::{io::Cursor, sync::Arc};

use hadris_iso::{
    joliet::JolietLevel,
    read::PathSeparator,
    rrip::RripOptions,
    write::{
        File, InputFiles, IsoImageWriter,
        options::{BaseIsoLevel, CreationFeatures, IsoFormatOptions},
    },
};
use serde_json::{Map, Value, json};
use sutler_provider::{CreateRequest, Error, Nic, Result};
use uuid::Uuid;

use crate::tools::Policy;

/// The label by which a guest knows the volume.
const LABEL: &str = "cidata";

/// The volume's contents. `macs` are the hardware addresses of the request's cards, in their order.
pub(crate) fn volume(machine: Uuid, request: &CreateRequest, macs: &[String]) -> Result<Vec<u8>> {
    // Nobody gets in by a default: without user data there is neither a key nor a password.
    let user_data = request.user_data.clone().unwrap_or_else(|| b"#cloud-config\n{}\n".to_vec());
    let mut files = vec![("user-data", user_data), ("meta-data", meta_data(machine, request)?)];
    let policy = request.class.as_ref().and_then(|class| class.guest_tools.as_deref());
    if let Some(script) = policy.map(Policy::read).transpose()?.and_then(Policy::script) {
        files.push(("vendor-data", script.into_bytes()));
    }
    if !request.nics.is_empty() {
        files.push(("network-config", pretty(&network_config(&request.nics, macs))));
    }
    write(files)
}

/// The user's own metadata with the two things that every guest needs: an ID that changes with the
/// machine, and its name.
fn meta_data(machine: Uuid, request: &CreateRequest) -> Result<Vec<u8>> {
    let ours = [("instance-id", machine.to_string()), ("local-hostname", request.hostname.clone())];
    let Some(given) = &request.meta_data else {
        let all = ours.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value)));
        return Ok(pretty(&Value::Object(all.collect())));
    };
    if let Ok(Value::Object(mut all)) = serde_json::from_slice::<Value>(given) {
        for (key, value) in ours {
            all.entry(key).or_insert(Value::String(value));
        }
        return Ok(pretty(&Value::Object(all)));
    }
    let field = "spec.metaData";
    let text = std::str::from_utf8(given)
        .map_err(|_| Error::invalid(field, "metadata is text: JSON or YAML"))?;
    let has =
        |key: &str| text.lines().any(|line| line.trim_start().starts_with(&format!("{key}:")));
    let mut all = String::new();
    for (key, value) in ours.into_iter().filter(|(key, _)| !has(key)) {
        all.push_str(&format!("{key}: {}\n", Value::String(value)));
    }
    all.push_str(text);
    Ok(all.into_bytes())
}

/// How the guest sets up its cards: version 2 of the format, in JSON, which is YAML too.
fn network_config(nics: &[Nic], macs: &[String]) -> Value {
    let mut cards = Map::new();
    for (index, (nic, mac)) in nics.iter().zip(macs).enumerate() {
        let mut card = json!({ "match": { "macaddress": mac } });
        match &nic.ip {
            None => card["dhcp4"] = json!(true),
            Some(ip) => {
                let six = ip.contains(':');
                let prefix = nic.prefix.unwrap_or(if six { 64 } else { 24 });
                card["dhcp4"] = json!(false);
                card["addresses"] = json!([format!("{ip}/{prefix}")]);
                if let Some(gateway) = &nic.gateway {
                    let to = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
                    card["routes"] = json!([{ "to": to, "via": gateway }]);
                }
            }
        }
        if !nic.dns.is_empty() {
            card["nameservers"] = json!({ "addresses": nic.dns });
        }
        if let Some(mtu) = nic.mtu {
            card["mtu"] = json!(mtu);
        }
        cards.insert(format!("card{index}"), card);
    }
    json!({ "version": 2, "ethernets": cards })
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

fn write(files: Vec<(&str, Vec<u8>)>) -> Result<Vec<u8>> {
    let room: usize = files.iter().map(|(_, contents)| contents.len() + 2048).sum();
    let files = InputFiles {
        path_separator: PathSeparator::ForwardSlash,
        files: files
            .into_iter()
            .map(|(name, contents)| File::File { name: Arc::new(name.to_owned()), contents })
            .collect(),
    };
    let options = IsoFormatOptions {
        volume_name: LABEL.to_owned(),
        system_id: None,
        volume_set_id: None,
        publisher_id: None,
        preparer_id: None,
        application_id: None,
        sector_size: 2048,
        features: CreationFeatures {
            filenames: BaseIsoLevel::Level1 { supports_lowercase: false, supports_rrip: true },
            long_filenames: false,
            joliet: Some(JolietLevel::Level3),
            rock_ridge: Some(RripOptions::default()),
            ..CreationFeatures::default()
        },
        path_separator: PathSeparator::ForwardSlash,
        strict_charset: false,
    };
    // The writer fills what it is given; what it did not need is cut off.
    let mut image = Cursor::new(vec![0_u8; room + (1 << 20)]);
    IsoImageWriter::create(&mut image, files, options)
        .map_err(|error| Error::internal(format!("the first-boot volume: {error}")))?;
    let mut image = image.into_inner();
    let used = image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    image.truncate(used.next_multiple_of(2048) + 2048 * 16);
    Ok(image)
}

#[cfg(test)]
mod tests {
    use sutler_provider::{Owner, Token};

    use super::*;

    fn request() -> CreateRequest {
        let owner = Owner {
            token: Token::new("u", 1),
            installation: "i".to_owned(),
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
        };
        CreateRequest { hostname: "web".to_owned(), ..CreateRequest::new(owner, "web-abcde") }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_default_lets_nobody_in() {
        let image = volume(Uuid::nil(), &request(), &[]).unwrap();
        let text = String::from_utf8_lossy(&image);
        assert!(text.contains("#cloud-config\n{}\n") && text.contains("cidata"));
        for word in ["ssh-", "passw", "sudo"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn the_agent_is_a_matter_of_the_class() {
        let with = |policy: &str| {
            let mut class = sutler_provider::Class::new(1, 512);
            class.guest_tools = Some(policy.to_owned());
            let request = CreateRequest { class: Some(class), ..request() };
            let image = volume(Uuid::nil(), &request, &[]).unwrap();
            String::from_utf8_lossy(&image).contains("qemu-guest-agent")
        };
        assert!(with("install") && with("upgrade") && !with("skip"));
    }

    #[test]
    fn the_metadata_always_has_an_instance() {
        let of = |given: Option<&str>| {
            let meta_data = given.map(|given| given.as_bytes().to_vec());
            text(meta_data_of(CreateRequest { meta_data, ..request() }))
        };
        fn meta_data_of(request: CreateRequest) -> Vec<u8> {
            meta_data(Uuid::nil(), &request).unwrap()
        }
        let nil = Uuid::nil().to_string();
        assert!(of(None).contains(&nil) && of(None).contains("\"local-hostname\": \"web\""));
        assert!(of(Some("{\"a\": 1}")).contains(&nil));
        assert_eq!(
            of(Some("a: 1\n")),
            format!("instance-id: \"{nil}\"\nlocal-hostname: \"web\"\na: 1\n")
        );
        assert!(!of(Some("instance-id: mine\n")).contains(&nil));
    }

    #[test]
    fn cards_are_found_by_their_addresses() {
        let fixed = Nic {
            name: "lan".to_owned(),
            ip: Some("10.0.0.7".to_owned()),
            prefix: Some(16),
            gateway: Some("10.0.0.1".to_owned()),
            dns: vec!["10.0.0.2".to_owned()],
            ..Nic::default()
        };
        let macs = ["52:00:00:00:00:01".to_owned(), "52:00:00:00:00:02".to_owned()];
        let config = network_config(&[Nic::default(), fixed], &macs);
        assert_eq!(config["ethernets"]["card0"]["dhcp4"], true);
        let card = &config["ethernets"]["card1"];
        assert_eq!(card["match"]["macaddress"], macs[1]);
        assert_eq!(card["addresses"][0], "10.0.0.7/16");
        assert_eq!(card["routes"][0]["via"], "10.0.0.1");
        assert_eq!(card["nameservers"]["addresses"][0], "10.0.0.2");
    }
}
