//! Every manifest survives its Rust type.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sutler_api::{autoscaler, corpus, infra, sutler};

#[test]
fn nothing_is_lost() {
    for manifest in corpus::valid() {
        let object = &manifest.object;
        let back = match object["kind"].as_str().unwrap() {
            "Provider" => through::<infra::Provider>(object),
            "VirtualMachine" => through::<infra::VirtualMachine>(object),
            "VMClass" => through::<infra::VMClass>(object),
            "VMClone" => through::<infra::VMClone>(object),
            "VMImage" => through::<infra::VMImage>(object),
            "VMMigration" => through::<infra::VMMigration>(object),
            "VMNetworkAttachment" => through::<infra::VMNetworkAttachment>(object),
            "VMPlacementPolicy" => through::<infra::VMPlacementPolicy>(object),
            "VMSet" => through::<infra::VMSet>(object),
            "VMSnapshot" => through::<infra::VMSnapshot>(object),
            "AutoscalerConfig" => through::<autoscaler::AutoscalerConfig>(object),
            "NodeGroup" => through::<autoscaler::NodeGroup>(object),
            "VPSieNode" => through::<autoscaler::VPSieNode>(object),
            "Agent" => through::<sutler::Agent>(object),
            "Application" => through::<sutler::Application>(object),
            "Operation" => through::<sutler::Operation>(object),
            "PendingAdoption" => through::<sutler::PendingAdoption>(object),
            "VMDisk" => through::<sutler::VMDisk>(object),
            "VMTemplate" => through::<sutler::VMTemplate>(object),
            kind => panic!("{kind} is not known here"),
        };
        assert_kept("", object, &back, manifest.name);
    }
}

fn through<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let mut object = object.clone();
    // A server gives objects the spec that they may be written without.
    if object.get("spec").is_none() {
        object["spec"] = Value::Object(serde_json::Map::new());
    }
    let typed: K = serde_json::from_value(object).expect("the type reads the manifest");
    serde_json::to_value(typed).expect("the type writes what it read")
}

/// Everything in `before` is in `after`; defaults may have come on top.
fn assert_kept(path: &str, before: &Value, after: &Value, name: &str) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let path = format!("{path}/{key}");
                assert!(after.contains_key(key), "{name}: {path} is lost");
                assert_kept(&path, value, &after[key], name);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{name}: {path}");
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                assert_kept(&format!("{path}/{index}"), before, after, name);
            }
        }
        // A quantity may be a number, and comes back as its digits.
        (Value::Number(number), Value::String(text)) => {
            assert_eq!(&number.to_string(), text, "{name}: {path}");
        }
        _ => assert_eq!(before, after, "{name}: {path}"),
    }
}
