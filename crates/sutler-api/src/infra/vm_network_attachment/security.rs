//! Who may talk to whom on a network.

use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may talk to whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSecurity {
    /// Rules for packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Firewall>,
    /// Networks that are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Encryption of traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<NetworkEncryption>,
}

/// Rules for packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Firewall {
    /// Whether the rules apply.
    #[serde(default)]
    pub enabled: bool,
    /// What happens to packets that no rule speaks of.
    #[serde(default)]
    pub default_policy: FirewallAction,
    /// The rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub rules: Vec<FirewallRule>,
}

string_enum! {
    /// What happens to a packet.
    pub enum FirewallAction {
        Accept = "ACCEPT",
        Drop = "DROP",
        Reject = "REJECT",
    }
    default Accept
}

/// A rule for packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirewallRule {
    /// Its name.
    #[schemars(length(max = 255))]
    pub name: String,
    /// What happens to packets that match.
    pub action: FirewallAction,
    /// Which way they go.
    pub direction: TrafficDirection,
    /// Their protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<IpProtocol>,
    /// Where they come from.
    #[serde(rename = "sourceCIDR", skip_serializing_if = "Option::is_none")]
    pub source_cidr: Option<String>,
    /// Where they go.
    #[serde(rename = "destinationCIDR", skip_serializing_if = "Option::is_none")]
    pub destination_cidr: Option<String>,
    /// Their destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortRange>,
    /// Order among the rules; the lowest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub priority: Option<i32>,
}

string_enum! {
    /// Which way packets go.
    pub enum TrafficDirection {
        In = "in",
        Out = "out",
        InOut = "inout",
    }
}

string_enum! {
    /// Protocols.
    pub enum IpProtocol {
        Tcp = "tcp",
        Udp = "udp",
        Icmp = "icmp",
        All = "all",
    }
}

/// A range of ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.end) || self.end >= self.start",
        "message": "end must not be below start",
        "reason": "FieldValueInvalid",
        "fieldPath": ".end",
    },
]))]
pub struct PortRange {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub start: i32,
    /// The last port; the first when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub end: Option<i32>,
}

/// Networks that are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// How strictly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<IsolationMode>,
    /// Networks that may be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub allowed_networks: Vec<String>,
    /// Networks that may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub denied_networks: Vec<String>,
}

string_enum! {
    /// How strictly networks are kept apart.
    pub enum IsolationMode {
        None = "none",
        Strict = "strict",
        Custom = "custom",
    }
}

/// Encryption of traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkEncryption {
    /// Whether traffic is encrypted.
    #[serde(default)]
    pub enabled: bool,
    /// By what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<EncryptionProtocol>,
    /// Secret with the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<LocalObjectRef>,
}

string_enum! {
    /// Protocols that encrypt traffic.
    pub enum EncryptionProtocol {
        Ipsec = "ipsec",
        Wireguard = "wireguard",
        Openvpn = "openvpn",
    }
}
