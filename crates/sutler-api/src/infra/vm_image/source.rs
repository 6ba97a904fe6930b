//! Where an image comes from.

use crate::duration::Duration;
use crate::free_form::FreeForm;
use crate::infra::ImageFormat;
use crate::patterns;
use crate::refs::LocalObjectRef;
use crate::refs::ObjectRef;
use crate::strings::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where an image comes from; several entries serve several platforms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.vsphere) || has(self.libvirt) || has(self.proxmox) || has(self.http) || has(self.registry) || has(self.dataVolume) || has(self.custom)",
        "message": "a source is required: set at least one of vsphere, libvirt, proxmox, http, registry, dataVolume or custom",
        "reason": "FieldValueRequired",
    },
]))]
pub struct ImageSource {
    /// A template, library item or OVA for vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereSource>,
    /// A file or download for libvirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtSource>,
    /// A template in Proxmox VE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxSource>,
    /// A download for any platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// A container registry that serves disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// A DataVolume of the Containerized Data Importer, for KubeVirt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<ObjectRef>,
    /// A source in the words of a provider that is not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<FreeForm>,
}

/// An image for vSphere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VsphereSource {
    /// Name of a template in the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub template_name: Option<String>,
    /// An item of a content library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_library: Option<ContentLibrary>,
    /// Where an OVA or OVF can be downloaded.
    #[serde(rename = "ovaURL", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::OVA_URL))]
    pub ova_url: Option<String>,
    /// Checksum of the download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the checksum was made.
    #[serde(default)]
    pub checksum_type: ChecksumType,
    /// The Provider that has it, if only one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<LocalObjectRef>,
}

/// An item of a content library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentLibrary {
    /// The library.
    #[schemars(length(max = 255))]
    pub library: String,
    /// The item.
    #[schemars(length(max = 255))]
    pub item: String,
    /// The item's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

string_enum! {
    /// How a checksum was made.
    pub enum ChecksumType {
        Md5 = "md5",
        Sha1 = "sha1",
        Sha256 = "sha256",
        Sha512 = "sha512",
    }
    default Sha256
}

/// An image for libvirt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibvirtSource {
    /// Path on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it can be downloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DOWNLOAD_URL))]
    pub url: Option<String>,
    /// Its format.
    #[serde(default)]
    pub format: ImageFormat,
    /// Checksum of the download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the checksum was made.
    #[serde(default)]
    pub checksum_type: ChecksumType,
    /// Storage pool that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pool: Option<String>,
}

/// A template in Proxmox VE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxmoxSource {
    /// VMID of the template.
    #[serde(rename = "templateID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 999999999))]
    pub template_id: Option<i64>,
    /// Name of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub template_name: Option<String>,
    /// Node that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub node: Option<String>,
    /// Storage that clones go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage: Option<String>,
    /// Disk format of clones.
    pub format: ProxmoxFormat,
    /// Copy the disks instead of linking to the template's.
    pub full_clone: bool,
}

impl Default for ProxmoxSource {
    fn default() -> Self {
        Self {
            template_id: None,
            template_name: None,
            node: None,
            storage: None,
            format: ProxmoxFormat::Qcow2,
            full_clone: true,
        }
    }
}

string_enum! {
    /// Disk formats of Proxmox VE.
    pub enum ProxmoxFormat {
        Raw = "raw",
        Qcow2 = "qcow2",
        Vmdk = "vmdk",
    }
    default Qcow2
}

/// A disk in a container registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySource {
    /// Image with its tag.
    #[schemars(regex(pattern = patterns::TAGGED_IMAGE))]
    pub image: String,
    /// Format of the disk in it.
    #[serde(default)]
    pub format: ImageFormat,
    /// Secret for pulling it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<LocalObjectRef>,
}

/// A disk image to download.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// Where it is.
    #[schemars(regex(pattern = patterns::HTTP_URL))]
    pub url: String,
    /// Headers that are sent along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub headers: BTreeMap<String, String>,
    /// How to log in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<HttpAuthentication>,
    /// Checksum of the download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the checksum was made.
    #[serde(default)]
    pub checksum_type: ChecksumType,
    /// How long the download may take.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

/// How to log in where an image is downloaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(has(self.basicAuth) && has(self.bearer))",
        "message": "set either basicAuth or bearer: a request carries one Authorization header",
        "reason": "FieldValueForbidden",
        "fieldPath": ".bearer",
    },
]))]
pub struct HttpAuthentication {
    /// User name and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<BearerAuth>,
    /// A client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<ClientCertAuth>,
}

/// User name and password from a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The Secret.
    pub secret_ref: LocalObjectRef,
    /// Key of the user name in it.
    #[serde(default = "default_username_key")]
    pub username_key: String,
    /// Key of the password in it.
    #[serde(default = "default_password_key")]
    pub password_key: String,
}

/// A token from a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerAuth {
    /// The Secret.
    pub secret_ref: LocalObjectRef,
    /// Key of the token in it.
    #[serde(default = "default_token_key")]
    pub token_key: String,
}

/// A client certificate from a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertAuth {
    /// The Secret.
    pub secret_ref: LocalObjectRef,
    /// Key of the certificate in it.
    #[serde(default = "default_cert_key")]
    pub cert_key: String,
    /// Key of the private key in it.
    #[serde(default = "default_key_key")]
    pub key_key: String,
}

fn default_timeout() -> Duration {
    Duration::from("30m")
}

fn default_username_key() -> String {
    "username".to_owned()
}

fn default_password_key() -> String {
    "password".to_owned()
}

fn default_token_key() -> String {
    "token".to_owned()
}

fn default_cert_key() -> String {
    "tls.crt".to_owned()
}

fn default_key_key() -> String {
    "tls.key".to_owned()
}
