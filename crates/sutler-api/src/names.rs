//! Labels, annotations, finalizers, condition types, reasons and stages, each spelt once.

/// The name under which Sutler's controllers own fields and record events.
pub const MANAGER: &str = "sutler";

/// Labels on our objects, and on the machines and nodes that belong to them.
pub mod labels {
    /// `true` on what an autoscaler of this family manages: NodeGroups, VPSieNodes, Nodes.
    pub const MANAGED: &str = "autoscaler.vpsie.com/managed";
    /// The NodeGroup that a VPSieNode or Node belongs to.
    pub const NODE_GROUP: &str = "autoscaler.vpsie.com/nodegroup";
    /// The namespace of that NodeGroup, where its name alone could be another's.
    pub const NODE_GROUP_NAMESPACE: &str = "autoscaler.vpsie.com/nodegroup-namespace";
    /// The VPSieNode that claims a Node.
    pub const VPSIE_NODE: &str = "autoscaler.vpsie.com/vpsienode";
    /// The data centre of a Node.
    pub const DATACENTER: &str = "autoscaler.vpsie.com/datacenter";
    /// The size of a Node.
    pub const OFFERING: &str = "autoscaler.vpsie.com/offering";
    /// `true` on a Node that must not be removed to save costs.
    pub const SCALE_DOWN_DISABLED: &str = "autoscaler.vpsie.com/scale-down-disabled";
    /// `true` on a VirtualMachine whose machine was there before its record.
    pub const ADOPTED: &str = "virtrigaud.io/adopted";
    /// The machine that a VirtualMachine was copied from.
    pub const CLONED_FROM: &str = "virtrigaud.io/cloned-from";
    /// The VMClone that made a VirtualMachine.
    pub const CLONE: &str = "virtrigaud.io/clone";
    /// The machine that a VirtualMachine was moved from.
    pub const MIGRATED_FROM: &str = "virtrigaud.io/migrated-from";
    /// The VMMigration that made a VirtualMachine.
    pub const MIGRATION: &str = "virtrigaud.io/migration";
    /// What a helper object is part of; see [`COMPONENT_MIGRATION_STORAGE`].
    pub const COMPONENT: &str = "virtrigaud.io/component";
    /// The value of [`COMPONENT`] on claims that hold disks on the way.
    pub const COMPONENT_MIGRATION_STORAGE: &str = "migration-storage";
    /// The Application that a VirtualMachine belongs to.
    pub const APPLICATION: &str = "sutler.dev/application";
    /// The node of that Application.
    pub const APPLICATION_NODE: &str = "sutler.dev/application-node";
    /// The VMSet that a VirtualMachine belongs to.
    pub const VM_SET: &str = "sutler.dev/vmset";
    /// The revision of the VMSet's template that a VirtualMachine was made from.
    pub const REVISION: &str = "sutler.dev/revision";
    /// The UID of the VMSet that a kept revision of a template belongs to.
    pub const VM_SET_UID: &str = "sutler.dev/vmset-uid";
    /// The VMTemplate that a VirtualMachine was made from.
    pub const TEMPLATE: &str = "sutler.dev/template";
    /// The Provider that an object is about.
    pub const PROVIDER: &str = "sutler.dev/provider";
    /// The UID of the VMClone that made a VirtualMachine.
    pub const CLONE_UID: &str = "sutler.dev/clone-uid";
    /// The UID of the VMSnapshot whose schedule made a VMSnapshot.
    pub const SCHEDULE_UID: &str = "sutler.dev/schedule-uid";
    /// The VirtualMachine whose lifecycle made a VMSnapshot.
    pub const HOOK_OF: &str = "sutler.dev/hook-of";
    /// The UID of the record whose change an Operation tells of, where no person made it.
    pub const CHANGE_OF: &str = "sutler.dev/change-of";
}

/// Annotations on our objects.
pub mod annotations {
    /// What `kubectl apply` last applied, as it keeps it for itself.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// The ownership token: the record's UID and its incarnation. Written before the provider is called.
    pub const TOKEN: &str = "sutler.dev/token";
    /// What the machine is called on its platform; decided with the token.
    pub const PLATFORM_NAME: &str = "sutler.dev/platform-name";
    /// When creation of the present incarnation was first asked of the provider.
    pub const FIRST_REQUESTED_AT: &str = "sutler.dev/first-requested-at";
    /// Since when members of a VirtualMachine's group may be those that were asked for: when the first of
    /// those was that waited for one when this one was.
    pub const MEMBERS_SINCE: &str = "sutler.dev/members-since";
    /// When creation was last asked of the provider.
    pub const CREATE_REQUESTED_AT: &str = "sutler.dev/create-requested-at";
    /// Where a placement policy put the machine, as JSON; decided with the token.
    pub const PLACED: &str = "sutler.dev/placed";
    /// When a machine was last asked to go back to a snapshot. Written before the provider is called.
    pub const REVERT_REQUESTED_AT: &str = "sutler.dev/revert-requested-at";
    /// The machine that a record had claimed and not written down, once another has it, and since when.
    pub const CLAIM_TAKEN: &str = "sutler.dev/claim-taken";
    /// When the removal of a machine that carries no token was last asked for.
    pub const DELETE_REQUESTED_AT: &str = "sutler.dev/delete-requested-at";
    /// `true` on a VirtualMachine whose machine is not made again once it was there and is gone.
    pub const MADE_ONCE: &str = "sutler.dev/made-once";
    /// When somebody else asked for a VirtualMachine's machine: it is looked for and never asked for.
    pub const ASKED_AT: &str = "sutler.dev/asked-at";
    /// The ID that a VirtualMachine's machine is said to have, where somebody else knew it.
    pub const SAID_ID: &str = "sutler.dev/said-id";
    /// Addresses of Kubernetes nodes that nobody has and that a VirtualMachine's machine may be, where they
    /// joined before it was found; separated by commas.
    pub const NODE_ADDRESSES: &str = "sutler.dev/node-addresses";
    /// `true` stops all changes to an object until it is removed.
    pub const PAUSED: &str = "sutler.dev/paused";
    /// A time; the machine is restarted once when it changes.
    pub const RESTART_REQUESTED_AT: &str = "sutler.dev/restart-requested-at";
    /// `true` takes a record off the books without touching its machine; audited.
    pub const FORGET: &str = "sutler.dev/forget";
    /// Who asked for the last change, where it was not Kubernetes.
    pub const REQUESTED_BY: &str = "sutler.dev/requested-by";
    /// `true` on a Provider removes machines that carry our token and have no record.
    pub const REAP_ORPHANS: &str = "sutler.dev/reap-orphans";
    /// Providers that a VMImage is brought to although no machine there uses it, as
    /// `namespace/name`, separated by commas.
    pub const PREPARE_ON: &str = "sutler.dev/prepare-on";
    /// What a VMImage is called on the platforms that it was brought to, by Provider, as JSON.
    pub const PREPARED_AS: &str = "sutler.dev/prepared-as";
    /// When each Provider was last asked to bring a VMImage, and how often, as JSON. Written before the
    /// provider is called.
    pub const PREPARE_ASKED: &str = "sutler.dev/prepare-asked";
    /// What was asked of a platform for a VMSnapshot, as JSON: the snapshot's name there, the machine
    /// and when. Written before the provider is called.
    pub const SNAPSHOT_INTENT: &str = "sutler.dev/snapshot-intent";
    /// The VMSnapshot whose schedule made a VMSnapshot.
    pub const SCHEDULED_BY: &str = "sutler.dev/scheduled-by";
    /// How often a VMClone was begun, as JSON. Written before the copy's record is.
    pub const CLONE_INTENT: &str = "sutler.dev/clone-intent";
    /// The time of its schedule that a VMSnapshot was made for.
    pub const SCHEDULED_AT: &str = "sutler.dev/scheduled-at";
    /// `true` gives up waiting for a machine that cannot be deleted; audited.
    pub const FORCE_DELETE: &str = "virtrigaud.io/force-delete";
    /// `true` on a Provider finds machines without a record.
    pub const ADOPT_VMS: &str = "virtrigaud.io/adopt-vms";
    /// Which of them are meant, as JSON.
    pub const ADOPT_FILTER: &str = "virtrigaud.io/adopt-filter";
    /// When a move ended.
    pub const MIGRATION_COMPLETED: &str = "virtrigaud.io/migration-completed";
    /// The disk that a move brought.
    pub const IMPORTED_DISK_ID: &str = "virtrigaud.io/imported-disk-id";
    /// The checksum of that disk.
    pub const DISK_CHECKSUM: &str = "virtrigaud.io/disk-checksum";
    /// `true` once creation of a node was asked of the platform.
    pub const CREATION_REQUESTED: &str = "autoscaler.vpsie.com/creation-requested";
    /// When it was; the clock of discovery.
    pub const CREATION_REQUESTED_AT: &str = "autoscaler.vpsie.com/creation-requested-at";
    /// The Kubernetes node that a VPSieNode claims, written down before the node is touched.
    pub const CLAIMED_NODE: &str = "autoscaler.vpsie.com/claimed-node";
    /// Why a node was created: metrics, manual, rebalance or initial.
    pub const CREATION_REASON: &str = "autoscaler.vpsie.com/creation-reason";
    /// VPSie's ID of a node's machine.
    pub const VPS_ID: &str = "autoscaler.vpsie.com/vps-id";
    /// What a machine of a VMClass costs an hour, in any currency.
    pub const PRICE_PER_HOUR: &str = "sutler.dev/price-per-hour";
    /// `true` keeps a node from being removed.
    pub const PROTECTED: &str = "autoscaler.vpsie.com/protected";
    /// `disabled` keeps a node from being removed to save costs.
    pub const SCALE_DOWN: &str = "autoscaler.vpsie.com/scale-down";
    /// Hours in which a node may be removed, as `HH:MM-HH:MM`.
    pub const SCALE_DOWN_ALLOWED_HOURS: &str = "autoscaler.vpsie.com/scale-down-allowed-hours";
    /// When the drain of a node began.
    pub const DRAIN_START_TIME: &str = "autoscaler.vpsie.com/drain-start-time";
    /// `true` on a VPSieNode removes its machine even where pods cannot leave it.
    pub const FORCE_REMOVAL: &str = "autoscaler.vpsie.com/force-removal";
    /// `true` on a Node lets people delete it although a VPSieNode stands behind it.
    pub const ALLOW_DELETION: &str = "autoscaler.vpsie.com/allow-deletion";
    /// The simulated machine, as PLATFORM/ID, that a Node of the playground is played on.
    pub const PLAYED_ON: &str = "sutler.dev/played-on";
    /// What the records of a NodeGroup are to be that are made next, by their names, as JSON.
    pub const NEXT_NODES: &str = "sutler.dev/next-nodes";
    /// How the drain of a node goes.
    pub const DRAIN_STATUS: &str = "autoscaler.vpsie.com/drain-status";
}

/// Finalizers: each comes off only after absence was observed.
pub mod finalizers {
    /// On a Provider, until no machine is left on it.
    pub const PROVIDER: &str = "provider.infra.virtrigaud.io/finalizer";
    /// On a VMImage that was brought to a platform.
    pub const VM_IMAGE: &str = "vmimage.infra.virtrigaud.io/finalizer";
    /// On a VirtualMachine.
    pub const VIRTUAL_MACHINE: &str = "virtualmachine.infra.virtrigaud.io/finalizer";
    /// On a VMSnapshot.
    pub const VM_SNAPSHOT: &str = "snapshot.infra.virtrigaud.io/finalizer";
    /// On a VMClone.
    pub const VM_CLONE: &str = "clone.infra.virtrigaud.io/finalizer";
    /// On a VMSet, until its machines are gone.
    pub const VM_SET: &str = "vmset.infra.virtrigaud.io/finalizer";
    /// On a VMMigration.
    pub const VM_MIGRATION: &str = "vmmigration.infra.virtrigaud.io/finalizer";
    /// On a NodeGroup.
    pub const NODE_GROUP: &str = "nodegroup.autoscaler.vpsie.com/finalizer";
    /// On a VPSieNode.
    pub const VPSIE_NODE: &str = "vpsienode.autoscaler.vpsie.com/finalizer";
    /// On an Application.
    pub const APPLICATION: &str = "application.sutler.dev/finalizer";
    /// On an Operation that is being carried out.
    pub const OPERATION: &str = "operation.sutler.dev/finalizer";
    /// On a VMDisk.
    pub const VM_DISK: &str = "vmdisk.sutler.dev/finalizer";
}

/// Types of conditions.
pub mod condition_types {
    /// The summary of all others.
    pub const READY: &str = "Ready";
    /// Work is under way (read by kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// Work has come to a halt that only a person can end (read by kstatus).
    pub const STALLED: &str = "Stalled";
    /// Changes are held back on request.
    pub const PAUSED: &str = "Paused";
    /// A machine is being made.
    pub const PROVISIONING: &str = "Provisioning";
    /// A machine is being changed.
    pub const RECONFIGURING: &str = "Reconfiguring";
    /// An object is on its way out.
    pub const DELETING: &str = "Deleting";
    /// A snapshot is being taken.
    pub const CREATING: &str = "Creating";
    /// A snapshot is past its time.
    pub const EXPIRED: &str = "Expired";
    /// A policy was checked.
    pub const VALIDATED: &str = "Validated";
    /// A policy disagrees with another one.
    pub const CONFLICTS: &str = "Conflicts";
    /// All providers can keep a policy.
    pub const SUPPORTED: &str = "Supported";
    /// A provider's runtime is up.
    pub const PROVIDER_RUNTIME_READY: &str = "ProviderRuntimeReady";
    /// A provider answers.
    pub const PROVIDER_AVAILABLE: &str = "ProviderAvailable";
    /// How the connection to a provider is secured.
    pub const TLS_CONFIGURED: &str = "TLSConfigured";
    /// Whether new credentials of a provider work; where they do not, the old ones stay in use.
    pub const CREDENTIALS_VALID: &str = "CredentialsValid";
    /// A provider told what it can do.
    pub const CAPABILITIES_REPORTED: &str = "CapabilitiesReported";
    /// A set comes closer to what is wanted.
    pub const PROGRESSING: &str = "Progressing";
    /// A set cannot make or remove a machine.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// A set replaces its machines.
    pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
    /// A set or group changes its size.
    pub const SCALING: &str = "Scaling";
    /// A group cannot shrink.
    pub const AT_MIN_CAPACITY: &str = "AtMinCapacity";
    /// A group cannot grow.
    pub const AT_MAX_CAPACITY: &str = "AtMaxCapacity";
    /// Something went wrong.
    pub const ERROR: &str = "Error";
    /// A node's machine runs.
    pub const VPS_READY: &str = "VPSReady";
    /// A node has joined its cluster.
    pub const NODE_JOINED: &str = "NodeJoined";
    /// A node takes pods.
    pub const NODE_READY: &str = "NodeReady";
    /// A group should grow and does not; the message says why.
    pub const SCALE_UP_HELD: &str = "ScaleUpHeld";
    /// No node of a group goes; the message says why for one of them.
    pub const SCALE_DOWN_HELD: &str = "ScaleDownHeld";
    /// A group could cost less.
    pub const CHEAPER: &str = "Cheaper";
    /// A group does not grow or shrink by itself; the message says why.
    pub const NOT_SCALED: &str = "NotScaled";
    /// Something that a NodeGroup asks for is not carried out.
    pub const PARTLY_SERVED: &str = "PartlyServed";
    /// How busy a group is, is measured; where it is not, what pods ask for counts.
    pub const LOAD_MEASURED: &str = "LoadMeasured";
    /// An agent is connected.
    pub const CONNECTED: &str = "Connected";
}

/// Reasons of conditions and events.
pub mod reasons {
    /// The kind or field has no controller yet; the message names it.
    pub const NOT_YET_SERVED: &str = "NotYetServed";
    /// Everything is as wanted.
    pub const READY: &str = "Ready";
    /// Nothing has been looked at yet.
    pub const PENDING: &str = "Pending";
    /// Something else must come first.
    pub const WAITING: &str = "Waiting";
    /// A referred object is not there.
    pub const REFERENCE_NOT_FOUND: &str = "ReferenceNotFound";
    /// Changes are held back on request.
    pub const PAUSED: &str = "Paused";
    /// No place is left that a placement policy allows; the message names the rule.
    pub const PLACEMENT_NOT_MET: &str = "PlacementNotMet";
    /// A set makes machines or takes some away.
    pub const SCALING: &str = "Scaling";
    /// A set replaces its machines.
    pub const UPDATING: &str = "Updating";
    /// A machine of a set cannot have its name.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// A machine is being made.
    pub const PROVISIONING: &str = "Provisioning";
    /// A machine is being changed.
    pub const RECONFIGURING: &str = "Reconfiguring";
    /// A machine's power is being changed.
    pub const POWERING: &str = "Powering";
    /// A machine is expected on the network.
    pub const WAITING_FOR_NETWORK: &str = "WaitingForNetwork";
    /// A change has to wait until the machine is off.
    pub const NEEDS_POWER_OFF: &str = "NeedsPowerOff";
    /// A change was accepted and cannot be seen on the machine.
    pub const NOT_APPLIED: &str = "NotApplied";
    /// A hook of the machine's lifecycle is under way.
    pub const RUNNING_HOOK: &str = "RunningHook";
    /// The machine went away without us and is made again.
    pub const MACHINE_LOST: &str = "MachineLost";
    /// More than one machine of the record was there; the others are removed.
    pub const EXTRA_MACHINE: &str = "ExtraMachine";
    /// The machine no longer carries our token: nothing is done to it until a person decides.
    pub const OWNERSHIP_LOST: &str = "OwnershipLost";
    /// The outcome of a request is not known: the platform is being looked at.
    pub const OBSERVING: &str = "Observing";
    /// A machine whose ID was not told is being looked for.
    pub const DISCOVERING: &str = "Discovering";
    /// A snapshot is being taken.
    pub const SNAPSHOTTING: &str = "Snapshotting";
    /// A machine goes back to a snapshot.
    pub const REVERTING: &str = "Reverting";
    /// A machine is being copied.
    pub const CLONING: &str = "Cloning";
    /// A snapshot is past its time.
    pub const EXPIRED: &str = "Expired";
    /// What was there is gone, and not by us.
    pub const LOST: &str = "Lost";
    /// It was not done in the time that it had.
    pub const TIMED_OUT: &str = "TimedOut";
    /// Schedules are held back on request.
    pub const SUSPENDED: &str = "Suspended";
    /// A schedule waits for its next time.
    pub const SCHEDULED: &str = "Scheduled";
    /// The record has been edited in a way that cannot be read.
    pub const UNREADABLE: &str = "Unreadable";
    /// The provider is not ready.
    pub const PROVIDER_NOT_READY: &str = "ProviderNotReady";
    /// An image is not ready.
    pub const IMAGE_NOT_READY: &str = "ImageNotReady";
    /// The object is on its way out.
    pub const DELETING: &str = "Deleting";
    /// A machine whose ID was not told did not show up in time.
    pub const DISCOVERY_TIMEOUT: &str = "DiscoveryTimeout";
    /// The request can never work.
    pub const INVALID: &str = "Invalid";
    /// The platform refused us.
    pub const DENIED: &str = "Denied";
    /// What was named is not there.
    pub const NOT_FOUND: &str = "NotFound";
    /// It exists already, or is in the wrong state.
    pub const CONFLICT: &str = "Conflict";
    /// The platform cannot do it.
    pub const UNSUPPORTED: &str = "Unsupported";
    /// Capacity or quota is used up.
    pub const EXHAUSTED: &str = "Exhausted";
    /// The platform cannot be reached; nothing was applied.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// A change was sent and its outcome is not known.
    pub const INDETERMINATE: &str = "Indeterminate";
    /// The platform tried and failed.
    pub const FAILED: &str = "Failed";
    /// An error of ours.
    pub const INTERNAL: &str = "Internal";
    /// A provider's TLS settings are missing.
    pub const TLS_BLOCK_MISSING: &str = "TLSBlockMissing";
    /// A provider's TLS is switched off on purpose.
    pub const TLS_EXPLICITLY_DISABLED: &str = "ExplicitlyDisabled";
    /// A provider's TLS settings name no Secret.
    pub const TLS_SECRET_REF_MISSING: &str = "SecretRefMissing";
    /// A provider's TLS is on.
    pub const TLS_ENABLED: &str = "Enabled";
    /// A provider's certificate is not verified, on purpose.
    pub const TLS_VERIFICATION_DISABLED: &str = "VerificationDisabled";
    /// A provider is reached through a socket of this host.
    pub const LOCAL: &str = "Local";
    /// A provider is neither here nor is it said where.
    pub const ENDPOINT_MISSING: &str = "EndpointMissing";
    /// What was deployed is on its way up.
    pub const STARTING: &str = "Starting";
    /// A group has replaced as many failed nodes as it may.
    pub const TOO_MANY_FAILURES: &str = "TooManyFailures";
    /// VPSie's API answered with an error.
    pub const VPSIE_API_ERROR: &str = "VPSieAPIError";
    /// A machine took too long to be made.
    pub const PROVISIONING_TIMEOUT: &str = "ProvisioningTimeout";
    /// The platform has no room left.
    pub const CAPACITY_LIMIT_REACHED: &str = "CapacityLimitReached";
    /// A node took too long to join.
    pub const JOINING_TIMEOUT: &str = "JoiningTimeout";
    /// A node is not in its cluster.
    pub const NODE_NOT_FOUND: &str = "NodeNotFound";
    /// The nodes of a cluster cannot be looked at.
    pub const CLUSTER_UNREACHABLE: &str = "ClusterUnreachable";
    /// Pods did not leave a node.
    pub const DRAIN_FAILED: &str = "DrainFailed";
    /// A Node could not be deleted.
    pub const NODE_DELETE_FAILED: &str = "NodeDeleteFailed";
    /// A machine could not be deleted.
    pub const VPS_DELETE_FAILED: &str = "VPSDeleteFailed";
    /// A failed record was kept as long as it should be.
    pub const TTL_EXPIRED: &str = "TTLExpired";
}

/// Stages of making a machine, in their order, the same everywhere a person looks.
pub mod stages {
    /// The machine is made from its template.
    pub const CLONE_TEMPLATE: &str = "clone_template";
    /// It gets its CPU, memory, disks and cards.
    pub const CONFIGURE_VM: &str = "configure_vm";
    /// It is switched on.
    pub const START_VM: &str = "start_vm";
    /// It is expected on the network.
    pub const WAIT_NETWORK: &str = "wait_network";
    /// Commands run in it.
    pub const POST_PROVISION: &str = "post_provision";
    /// Its record is completed.
    pub const REGISTER: &str = "register";

    /// All of them, in their order.
    pub const ALL: [&str; 6] =
        [CLONE_TEMPLATE, CONFIGURE_VM, START_VM, WAIT_NETWORK, POST_PROVISION, REGISTER];
}
