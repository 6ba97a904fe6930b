//! Nothing on the wire changes its number, type or name: it is another project's wire.
//! `FREEZE_PROTO=1` adds lines that are new to `proto/frozen.txt`.

use std::{collections::BTreeSet, fs};

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

/// Every message, field, enum value and call on a line of its own.
fn lines() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(sutler_externalgrpc::pb::DESCRIPTORS).unwrap();
    let mut lines = BTreeSet::new();
    for file in &set.file {
        assert_eq!(file.package(), "clusterautoscaler.cloudprovider.v1.externalgrpc");
        for message in &file.message_type {
            describe(&mut lines, "", message);
        }
        for service in &file.service {
            for call in &service.method {
                let (takes, gives) = (short(call.input_type()), short(call.output_type()));
                lines.insert(format!("{}/{}({takes}) -> {gives}", service.name(), call.name()));
            }
        }
    }
    lines
}

fn short(name: &str) -> &str {
    name.strip_prefix(".clusterautoscaler.cloudprovider.v1.externalgrpc.").unwrap_or(name)
}

fn describe(lines: &mut BTreeSet<String>, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}{}", message.name());
    lines.insert(format!("{name} message"));
    for field in &message.field {
        let kind = match field.type_name() {
            "" => format!("{:?}", field.r#type()).to_lowercase(),
            name => short(name).to_owned(),
        };
        let label = format!("{:?}", field.label()).to_lowercase();
        lines.insert(format!("{name} {} {} {label} {kind}", field.number(), field.name()));
    }
    for inner in &message.nested_type {
        describe(lines, &format!("{name}."), inner);
    }
    for EnumDescriptorProto { name: kind, value, .. } in &message.enum_type {
        for value in value {
            let kind = kind.as_deref().unwrap_or_default();
            lines.insert(format!("{name}.{kind} {} = {}", value.name(), value.number()));
        }
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

/// The numbers that are easily got wrong, as cluster-autoscaler has them.
#[test]
fn the_wire_is_as_documented() {
    let lines = lines();
    assert_eq!(lines.iter().filter(|line| line.starts_with("CloudProvider/")).count(), 15);
    for line in [
        "NodeGroupIncreaseSizeRequest 1 delta optional int32",
        "NodeGroupIncreaseSizeRequest 2 id optional string",
        "NodeGroupDeleteNodesRequest 1 nodes repeated ExternalGrpcNode",
        "NodeGroupTemplateNodeInfoResponse 2 nodeBytes optional bytes",
        "PricingPodPriceRequest 4 pod_bytes optional bytes",
        "InstanceStatus.InstanceState instanceCreating = 2",
        "InstanceErrorInfo 3 instanceErrorClass optional int32",
        "NodeGroupAutoscalingOptions 8 scaleDownUnneededDuration optional .google.protobuf.Duration",
        "NodeGroupAutoscalingOptions 10 MaxNodeProvisionDuration optional .google.protobuf.Duration",
    ] {
        assert!(lines.contains(line), "{line}");
    }
}
