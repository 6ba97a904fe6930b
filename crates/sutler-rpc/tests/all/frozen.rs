//! Nothing that is on the wire changes its number, type or name. `proto/frozen.txt` is what was
//! published: lines are only ever added to it (`FREEZE_PROTO=1` adds those that are new).

use std::{collections::BTreeSet, fs};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Label};

/// Every message, field, enum value and call on a line of its own.
fn lines() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(sutler_rpc::pb::DESCRIPTORS).unwrap();
    let mut lines = BTreeSet::new();
    for file in &set.file {
        let package = file.package();
        for message in &file.message_type {
            describe(&mut lines, package, message);
        }
        for kind in &file.enum_type {
            for value in &kind.value {
                lines.insert(format!(
                    "{package}.{} {} = {}",
                    kind.name(),
                    value.name(),
                    value.number()
                ));
            }
        }
        for service in &file.service {
            for call in &service.method {
                let stream = |streams: bool| if streams { "stream " } else { "" };
                lines.insert(format!(
                    "{package}.{}/{}({}{}) -> {}{}",
                    service.name(),
                    call.name(),
                    stream(call.client_streaming()),
                    call.input_type(),
                    stream(call.server_streaming()),
                    call.output_type()
                ));
            }
        }
    }
    lines
}

fn describe(lines: &mut BTreeSet<String>, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}.{}", message.name());
    lines.insert(format!("{name} message"));
    for field in &message.field {
        let label = match field.label() {
            Label::Repeated => "repeated ",
            _ if field.proto3_optional() => "optional ",
            _ => "",
        };
        let kind = match field.type_name() {
            "" => format!("{:?}", field.r#type()).to_lowercase(),
            name => name.to_owned(),
        };
        lines.insert(format!("{name} {} {} {label}{kind}", field.number(), field.name()));
    }
    for inner in &message.nested_type {
        describe(lines, &name, inner);
    }
}

#[test]
fn what_was_published_stays_as_it_is() {
    let path = std::path::absolute("proto/frozen.txt").unwrap();
    let now = lines();
    let mut frozen: BTreeSet<String> =
        fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
    let broken: Vec<&String> = frozen.difference(&now).collect();
    assert!(broken.is_empty(), "gone from the wire, or changed: {broken:#?}");
    if std::env::var_os("FREEZE_PROTO").is_some() {
        frozen.extend(now.iter().cloned());
        let text: String = frozen.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, text).unwrap();
    }
    let new: Vec<&String> = now.difference(&frozen).collect();
    assert!(new.is_empty(), "not frozen yet, FREEZE_PROTO=1 does it: {new:#?}");
}

/// The base service is the one that is documented, number by number.
#[test]
fn the_base_service_is_as_documented() {
    let lines = lines();
    let base: Vec<&String> = lines.iter().filter(|line| line.starts_with("provider.v1.")).collect();
    assert_eq!(base.iter().filter(|line| line.starts_with("provider.v1.Provider/")).count(), 18);
    for line in [
        "provider.v1.CreateRequest 9 meta_data bytes",
        "provider.v1.CreateRequest 11 owner .provider.v1.ObjectIdentity",
        "provider.v1.DeleteRequest 3 owner .provider.v1.ObjectIdentity",
        "provider.v1.PowerRequest 5 owner .provider.v1.ObjectIdentity",
        "provider.v1.ReconfigureRequest 4 owner .provider.v1.ObjectIdentity",
        "provider.v1.DescribeRequest 3 owner .provider.v1.ObjectIdentity",
        "provider.v1.ImagePrepareResponse 1 task .provider.v1.TaskRef",
        "provider.v1.PowerOp POWER_OP_SHUTDOWN_GRACEFUL = 4",
        "provider.v1.VMInfo 6 memory_mib int64",
        "provider.v1.GetCapabilitiesResponse 16 supported_transfer_modes repeated string",
        "provider.v1.Provider/ListVMs(.provider.v1.ListVMsRequest) -> .provider.v1.ListVMsResponse",
    ] {
        assert!(lines.contains(line), "{line}");
    }
}
