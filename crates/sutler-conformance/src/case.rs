//! What a case is.

use std::fmt;

use futures::future::BoxFuture;
use sutler_provider::{Capabilities, Error};

use crate::context::Context;

/// What a provider did wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

pub(crate) type Check<T = ()> = Result<T, Broken>;

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self(format!("an error that should not be: {}: {error}", error.kind()))
    }
}

/// One case.
pub(crate) struct Case {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) rule: &'static str,
    /// Why it cannot be asked of a platform, if it cannot.
    pub(crate) needs: fn(&Capabilities) -> Option<&'static str>,
    pub(crate) run: for<'a> fn(&'a Context) -> BoxFuture<'a, Check>,
}

impl Case {
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.group, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_name())
    }
}

/// The cases of a module: each with its rule, and what it needs.
macro_rules! cases {
    ($group:literal: $($name:ident [$rule:ident] $needs:ident,)*) => {
        pub(crate) fn all() -> Vec<$crate::case::Case> {
            vec![$($crate::case::Case {
                group: $group,
                name: stringify!($name),
                rule: $crate::rules::$rule,
                needs: $crate::case::needs::$needs,
                run: |context| Box::pin($name(context)),
            }),*]
        }
    };
}

/// Fails the case unless something holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::case::Broken(format!($($why)+)));
        }
    };
}

pub(crate) use {cases, ensure};

/// What cases need of a platform.
pub(crate) mod needs {
    use sutler_provider::{Capabilities, UniqueBy};

    type Why = Option<&'static str>;

    fn unless(there: bool, why: &'static str) -> Why {
        (!there).then_some(why)
    }

    macro_rules! needs {
        ($($name:ident: $why:literal,)*) => {$(
            pub(crate) fn $name(can: &Capabilities) -> Why {
                unless(can.$name, concat!("the platform does not report: ", $why))
            }
        )*};
    }

    needs! {
        token: "token",
        list: "list",
        events: "events",
        addresses: "addresses",
        reconfigure: "reconfigure",
        graceful_shutdown: "graceful_shutdown",
        pause: "pause",
        snapshots: "snapshots",
        clones: "clones",
        image_import: "image_import",
        kept_disks: "kept_disks",
        disk_export: "disk_export",
        disk_import: "disk_import",
        hardware_upgrade: "hardware_upgrade",
        guest_commands: "guest_commands",
        templates: "templates",
        hosts: "hosts",
    }

    pub(crate) fn nothing(_: &Capabilities) -> Why {
        None
    }

    /// A second create can only be told from another one where the platform can tell.
    pub(crate) fn knows_its_own(can: &Capabilities) -> Why {
        let knows = can.token && can.unique_by != UniqueBy::None;
        unless(knows, "the platform reports neither unique tokens nor unique names with tokens")
    }

    pub(crate) fn unique(can: &Capabilities) -> Why {
        unless(can.unique_by != UniqueBy::None, "the platform reports nothing to be unique")
    }

    pub(crate) fn unique_and_listed(can: &Capabilities) -> Why {
        unique(can).or_else(|| list(can))
    }

    pub(crate) fn snapshots_with_token(can: &Capabilities) -> Why {
        snapshots(can).or_else(|| token(can))
    }

    pub(crate) fn reconfigure_with_token(can: &Capabilities) -> Why {
        reconfigure(can).or_else(|| token(can))
    }

    pub(crate) fn clones_known(can: &Capabilities) -> Why {
        clones(can).or_else(|| knows_its_own(can))
    }

    pub(crate) fn clones_unique(can: &Capabilities) -> Why {
        clones(can).or_else(|| unique(can))
    }

    pub(crate) fn guest_with_token(can: &Capabilities) -> Why {
        guest_commands(can).or_else(|| token(can))
    }

    pub(crate) fn kept_known(can: &Capabilities) -> Why {
        kept_disks(can).or_else(|| knows_its_own(can))
    }

    pub(crate) fn kept_reconfigured(can: &Capabilities) -> Why {
        kept_disks(can).or_else(|| reconfigure(can))
    }

    pub(crate) fn kept_copied(can: &Capabilities) -> Why {
        kept_disks(can).or_else(|| clones(can))
    }

    pub(crate) fn transfer(can: &Capabilities) -> Why {
        disk_export(can).or_else(|| disk_import(can))
    }
}
