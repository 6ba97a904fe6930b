//! All cases, by what they are about.

mod bad_input;
mod copies;
mod create;
mod delete;
mod guest;
mod honesty;
mod identity;
mod inventory;
mod kept;
mod power;
mod reconfigure;
mod snapshots;
mod transfer;
mod unknown;

use crate::case::Case;

pub(crate) fn all() -> Vec<Case> {
    [
        honesty::all(),
        unknown::all(),
        bad_input::all(),
        create::all(),
        delete::all(),
        identity::all(),
        power::all(),
        reconfigure::all(),
        snapshots::all(),
        copies::all(),
        transfer::all(),
        kept::all(),
        inventory::all(),
        guest::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
