//! Machines that are not of this control plane: told of, and never touched.

use std::sync::Arc;

use sutler_api::infra::Unmanaged;
use sutler_provider::Machine;

use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    index::{Index, Reference},
};

/// How many a Provider tells of.
const REPORTED: usize = 1000;

/// Looks for them in an inventory that has just become complete.
pub(crate) fn sweep(context: &Arc<Context>, connection: &Arc<Connection>) {
    let tokens = connection.capabilities().is_some_and(|can| can.token);
    let mut found: Vec<Unmanaged> = connection.inventory.read(|view| {
        let index = lock(&context.index);
        let foreign = |machine: &&Machine| {
            machine.installation.as_ref() != Some(&context.installation)
                && !is_records(&index, &connection.key, machine, tokens)
        };
        let machines = view.iter().map(|seen| seen.machine.as_ref());
        machines.filter(foreign).map(tell).collect()
    });
    found.sort_by(|one, two| one.id.cmp(&two.id));
    found.truncate(REPORTED);
    let changed = connection.update(|state| {
        let changed = *state.unmanaged != found;
        state.unmanaged = Arc::new(found);
        changed
    });
    if changed {
        context.wake_provider(&connection.key);
    }
}

/// Whether a record speaks of a machine, or may: where nothing can carry a token, a name is all that one
/// which is being made is known by.
fn is_records(index: &Index, provider: &Key, machine: &Machine, tokens: bool) -> bool {
    let machine_of = Reference::Machine(provider.clone(), machine.id.clone());
    index.count(&machine_of) > 0 || (!tokens && !index.of_name(provider, &machine.name).is_empty())
}

fn tell(machine: &Machine) -> Unmanaged {
    Unmanaged {
        id: machine.id.0.clone(),
        name: Some(machine.name.clone()).filter(|name| !name.is_empty()),
        host: machine.host.clone(),
        installation: machine.installation.clone(),
    }
}
