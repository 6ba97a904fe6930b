//! The rules that keep record and machine in agreement, by name, and a switch that breaks one.
//!
//! The switch exists only under the feature `mutations`, for the test which shows that the simulation
//! catches every broken rule. It is per thread, because each simulated run has a thread of its own.

/// A rule that a test can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 1: the intent is persisted before the provider is called.
    IntentBeforeAction,
    /// 2: after an unknown outcome, look before creating again.
    LookBeforeCreate,
    /// 2: the look begins after the settle window.
    SettleWindow,
    /// 3: a partial list makes nothing absent.
    UnknownIsNotAbsent,
    /// 4: success is observed.
    SuccessIsObserved,
    /// 5: only what is proven ours is deleted.
    DeleteOnlyOurs,
    /// 6: the finalizer comes off after absence was observed.
    FinalizerAfterAbsence,
    /// 6: a machine that was deleted before its ID was known stays on the books.
    Tombstone,
    /// 7: a machine has one claimant.
    ExclusiveClaim,
    /// 8: orphans are reported before they are touched.
    OrphansReportedFirst,
    /// 9: all readers share one list.
    OneInventory,
    /// 10: a provider that hangs holds up nobody else.
    NobodyBlocksTheNeighbour,
    /// 11: last known facts stay.
    FactsStay,
    /// Writes name the version that they were computed from.
    StaleReadsAreNotTrusted,
    /// Extra machines of a record are reaped.
    ExtrasAreReaped,
    /// What is brought to a platform is on record first.
    ImagesOnRecordFirst,
    /// An image stays while machines stand on it.
    ImagesInUseStay,
    /// An image that is deleted is taken off its platforms.
    ImagesLeaveNothing,
    /// A guest is told before it is stopped.
    GuestsAreTold,
    /// A call whose answer was lost on the way may have been carried out.
    LostCallsAreUnknown,
    /// 1: a snapshot's name is on record before it is asked for.
    SnapshotIntentFirst,
    /// 2: a snapshot whose outcome is not known is looked for before it is asked for again.
    LookBeforeSnapshot,
    /// 2: a machine is not put back again while an earlier request to do so may have an effect.
    OneRevertAtATime,
    /// 5: a schedule's retention deletes the oldest of its own snapshots and nothing else.
    RetentionOnlyOwn,
    /// 2: one request for a copy is one machine.
    OneCopyOfARequest,
    /// A set has at most as many machines as it may, however old its view of them is.
    SetNeverOvershoots,
    /// An update of a set leaves at least as many machines available as it must.
    UpdateKeepsFloor,
    /// What a placement policy keeps apart stays apart.
    AntiAffinityHolds,
    /// A disk whose record is deleted is taken off its platform.
    KeptDisksLeaveNothing,
    /// A set's disks stay when its machines go, unless it says otherwise.
    KeptDisksStay,
    /// 5: a member of a managed group is taken only if it was not there before it was asked for.
    MembersAreNew,
    /// The machine of a node is not made again once it was there.
    NodesAreMadeOnce,
}

impl Rule {
    /// All of them, each of which the simulation notices when it is broken.
    pub const ALL: [Self; 32] = [
        Self::IntentBeforeAction,
        Self::LookBeforeCreate,
        Self::SettleWindow,
        Self::UnknownIsNotAbsent,
        Self::SuccessIsObserved,
        Self::DeleteOnlyOurs,
        Self::FinalizerAfterAbsence,
        Self::Tombstone,
        Self::ExclusiveClaim,
        Self::OrphansReportedFirst,
        Self::OneInventory,
        Self::NobodyBlocksTheNeighbour,
        Self::FactsStay,
        Self::StaleReadsAreNotTrusted,
        Self::ExtrasAreReaped,
        Self::ImagesOnRecordFirst,
        Self::ImagesInUseStay,
        Self::ImagesLeaveNothing,
        Self::GuestsAreTold,
        Self::LostCallsAreUnknown,
        Self::SnapshotIntentFirst,
        Self::LookBeforeSnapshot,
        Self::OneRevertAtATime,
        Self::RetentionOnlyOwn,
        Self::OneCopyOfARequest,
        Self::SetNeverOvershoots,
        Self::UpdateKeepsFloor,
        Self::AntiAffinityHolds,
        Self::KeptDisksLeaveNothing,
        Self::KeptDisksStay,
        Self::MembersAreNew,
        Self::NodesAreMadeOnce,
    ];
}

#[cfg(feature = "mutations")]
std::thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Breaks a rule for everything that runs on this thread.
#[cfg(feature = "mutations")]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.with(|broken| broken.set(rule));
}

/// Whether a test broke this rule.
#[cfg(feature = "mutations")]
pub fn broken(rule: Rule) -> bool {
    BROKEN.with(std::cell::Cell::get) == Some(rule)
}

/// Whether a test broke this rule: never, in what people run.
#[cfg(not(feature = "mutations"))]
pub(crate) const fn broken(_: Rule) -> bool {
    false
}
