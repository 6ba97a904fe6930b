//! How addresses are given out on a network.

use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How addresses are given out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocation {
    /// By whom.
    #[serde(rename = "type", default)]
    pub type_: IpAllocationType,
    /// The address, for type Static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_config: Option<StaticIp>,
    /// The pool, for type Pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_config: Option<IpPool>,
    /// What is asked of the DHCP server, for type DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp_config: Option<Dhcp>,
    /// Name resolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<Dns>,
}

string_enum! {
    /// Who gives out addresses.
    pub enum IpAllocationType {
        /// A DHCP server.
        Dhcp = "DHCP",
        /// This object.
        Static = "Static",
        /// A pool.
        Pool = "Pool",
        /// Nobody.
        None = "None",
    }
    default Dhcp
}

/// A fixed address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticIp {
    /// The address with its prefix, such as 10.0.0.5/24.
    #[schemars(regex(pattern = patterns::IPV4_CIDR))]
    pub address: String,
    /// Default gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub gateway: Option<String>,
    /// Further routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub routes: Vec<StaticRoute>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    /// Where to.
    #[schemars(regex(pattern = patterns::IPV4_CIDR))]
    pub destination: String,
    /// By which way.
    #[schemars(regex(pattern = patterns::IPV4))]
    pub gateway: String,
    /// Cost; the cheapest route wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub metric: Option<i32>,
}

/// A pool of addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPool {
    /// The pool.
    pub pool_ref: LocalObjectRef,
    /// The address that is taken if it is free.
    #[serde(rename = "preferredIP", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub preferred_ip: Option<String>,
}

/// What is asked of a DHCP server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dhcp {
    /// Client identifier.
    #[serde(rename = "clientID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub client_id: Option<String>,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub hostname: Option<String>,
    /// Options by number or name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub options: BTreeMap<String, String>,
}

/// Name resolution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub servers: Vec<String>,
    /// Domains that are tried for short names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub search_domains: Vec<String>,
    /// Options of the resolver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10))]
    pub options: BTreeMap<String, String>,
}
