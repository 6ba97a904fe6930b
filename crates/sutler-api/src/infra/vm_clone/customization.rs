//! What is changed in the guest of a copy.

use crate::duration::Duration;
use crate::infra::UserData;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is changed in the guest of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Customization {
    /// Its host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::HOSTNAME), length(max = 255))]
    pub hostname: Option<String>,
    /// Its domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub domain: Option<String>,
    /// Its time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub time_zone: Option<String>,
    /// Addresses of its cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub networks: Vec<NetworkCustomization>,
    /// What it is given on its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    /// How Windows is made anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysprep: Option<Sysprep>,
    /// Commands that run in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub guest_commands: Vec<GuestCommand>,
    /// Certificates that it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub certificates: Vec<Certificate>,
    /// Tags that it carries on the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub tags: Vec<String>,
}

/// Addresses of a card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkCustomization {
    /// The card.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Ask a DHCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<bool>,
    /// Static address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub ip_address: Option<String>,
    /// Mask that goes with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub subnet_mask: Option<String>,
    /// Default gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IPV4))]
    pub gateway: Option<String>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub dns: Vec<String>,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::MAC))]
    pub mac_address: Option<String>,
}

/// How Windows is made anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sysprep {
    /// Whether it is.
    #[serde(default)]
    pub enabled: bool,
    /// Product key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_key: Option<String>,
    /// Organisation that it is registered to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub organization: Option<String>,
    /// Person that it is registered to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub owner: Option<String>,
    /// Password of the administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_password: Option<Password>,
    /// The domain that it joins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_domain: Option<DomainJoin>,
    /// Commands that run on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub custom_commands: Vec<String>,
}

/// A password, written here or kept in a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(has(self.value) && has(self.secretRef))",
        "message": "set either value or secretRef: a password has one source",
        "reason": "FieldValueForbidden",
        "fieldPath": ".value",
    },
]))]
pub struct Password {
    /// The password itself; anybody who can read this object sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Secret that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectRef>,
    /// Key of the password in the Secret.
    pub secret_key: String,
}

impl Default for Password {
    fn default() -> Self {
        Self { value: None, secret_ref: None, secret_key: "password".to_owned() }
    }
}

/// A Windows domain to join.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainJoin {
    /// The domain.
    #[schemars(length(max = 255))]
    pub domain: String,
    /// Who joins it.
    #[schemars(length(max = 255))]
    pub username: String,
    /// That user's password.
    pub password: Password,
    /// Where the machine's account goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub organizational_unit: Option<String>,
}

/// A command in the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestCommand {
    /// The program.
    #[schemars(length(max = 1000))]
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub arguments: Vec<String>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub working_directory: Option<String>,
    /// As whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub run_as_user: Option<String>,
    /// When.
    #[serde(default)]
    pub stage: CommandStage,
    /// How long it may take.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

string_enum! {
    /// When a command runs.
    pub enum CommandStage {
        PreCustomization = "pre-customization",
        PostCustomization = "post-customization",
        FirstBoot = "first-boot",
    }
    default PostCustomization
}

/// A certificate for the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(has(self.data) && has(self.secretRef))",
        "message": "set either data or secretRef: a certificate has one source",
        "reason": "FieldValueForbidden",
        "fieldPath": ".data",
    },
]))]
pub struct Certificate {
    /// Its name.
    #[schemars(length(max = 255))]
    pub name: String,
    /// The certificate in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Secret that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectRef>,
    /// Key of the certificate in the Secret.
    #[serde(default = "default_secret_key")]
    pub secret_key: String,
    /// Where it goes.
    #[serde(default)]
    pub store: CertificateStore,
}

string_enum! {
    /// Stores of certificates.
    pub enum CertificateStore {
        Root = "root",
        Ca = "ca",
        My = "my",
        Trust = "trust",
    }
    default Root
}

fn default_timeout() -> Duration {
    Duration::from("5m")
}

fn default_secret_key() -> String {
    "tls.crt".to_owned()
}
