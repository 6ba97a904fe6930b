//! Regular expressions of the schemas, in the syntax that Kubernetes reads (RE2).

/// A DNS label, as names of objects are written in references.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A DNS subdomain: labels joined by dots.
pub const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A host name without a domain.
pub const HOSTNAME: &str = r"^[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?$";

/// A key of a Secret's data.
pub const SECRET_KEY: &str = "^[-._a-zA-Z0-9]+$";

/// An IPv4 address.
pub const IPV4: &str =
    r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$";

/// An IPv4 address with the length of its prefix.
pub const IPV4_CIDR: &str = r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)/([0-9]|[1-2][0-9]|3[0-2])$";

/// A hardware address of a network card.
pub const MAC: &str = "^([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})$";

/// A model of a graphics card.
pub const GPU_TYPE: &str = "^[a-zA-Z0-9-_]+$";

/// An address with a scheme: what providers are given to reach their platform.
pub const ENDPOINT: &str = "^[a-zA-Z][a-zA-Z0-9+.-]*:.*$";

/// What gRPC dials: `host:port` or `unix:path`.
pub const DIAL: &str = r"^(unix:.+|[^\s/]+:[0-9]{1,5})$";

/// A container image with an optional tag and digest.
pub const CONTAINER_IMAGE: &str =
    "^[a-zA-Z0-9._/-]+(:[a-zA-Z0-9._-]+)?(@[a-zA-Z0-9]+:[a-fA-F0-9]{64})?$";

/// A container image with a tag.
pub const TAGGED_IMAGE: &str = "^[a-zA-Z0-9._/-]+:[a-zA-Z0-9._-]+$";

/// An HTTP address.
pub const HTTP_URL: &str = "^https?://.*";

/// An HTTP or FTP address.
pub const DOWNLOAD_URL: &str = "^(https?|ftp)://.*";

/// An HTTP address of an OVA or OVF.
pub const OVA_URL: &str = r"^https?://.*\.(ova|ovf)$";

/// A bridge of Proxmox VE.
pub const PROXMOX_BRIDGE: &str = "^vmbr[0-9]+$";

/// A name of a snapshot.
pub const SNAPSHOT_NAME: &str = r"^[a-zA-Z0-9]([a-zA-Z0-9\-_]*[a-zA-Z0-9])?$";

/// A cron expression or one of its shorthands.
pub const CRON: &str = r"^(@(annually|yearly|monthly|weekly|daily|hourly|reboot))|(@every (\d+(ns|us|µs|ms|s|m|h))+)|((((\d+,)+\d+|(\d+(\/|-)\d+)|\d+|\*) ?){5,7})$";

/// A size of storage with its unit.
pub const STORAGE_SIZE: &str = r"^[0-9]+(\.[0-9]+)?(Ei?|Pi?|Ti?|Gi?|Mi?|Ki?)$";

/// A version of Kubernetes: `v` and a semantic version.
pub const KUBERNETES_VERSION: &str = r"^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$";

/// The hash of a CA certificate, as kubeadm prints it.
pub const CA_HASH: &str = "^sha256:[a-fA-F0-9]{64}$";

/// A duration as Go writes it, such as `1h30m`.
pub const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";

/// Words in lower case, joined by underscores.
pub const SNAKE: &str = "^[a-z][a-z0-9_]*$";

/// A reason: one word in camel case.
pub const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A type of a condition.
pub const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A quantity of Kubernetes.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
