//! A machine's power and end, and whose it is.

use std::time::Duration;

use sutler_provider::{
    DeleteRequest, Error, MachineId, Owner, Power, PowerOp, PowerRequest, Proof, Result, Started,
    UniqueBy,
};

use crate::{
    answer::Begun,
    row::{Doing, Done, Row},
    settings::Feature,
    state::Op,
    txn::{Txn, prove, task_id},
    work::{Step, exclusive},
};

/// Destroys a machine. One that is not there is no error.
pub(crate) fn delete(txn: &mut Txn<'_>, request: &DeleteRequest) -> Result<Begun<Started>> {
    let Some(mut row) = txn.get(&request.id) else { return Ok(started(None)) };
    prove(txn.settings, &row, &request.proof)?;
    let takes = txn.settings.work.delete;
    match exclusive(txn, &mut row, Doing::Delete, takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            remove(txn, row);
            Ok(started(None))
        }
    }
}

/// Takes a machine off the platform, with all work on it.
pub(crate) fn remove(txn: &mut Txn<'_>, row: Row) {
    let gone = Error::not_found("the machine was deleted");
    for work in row.work.into_iter().chain(row.boot) {
        txn.end(work, Done::badly(&gone));
    }
    txn.apply(Op::Machine(row.machine.id, None));
}

/// Changes a machine's power.
pub(crate) fn power(txn: &mut Txn<'_>, request: &PowerRequest) -> Result<Begun<Started>> {
    let op = request.op;
    supported(txn, op)?;
    let mut row = txn.proven(&request.id, &request.proof)?;
    let idle = row.work.is_none() && !row.broken;
    if idle && !needed(&row, op)? {
        return Ok(started(None));
    }
    let times = &txn.settings.work;
    let takes = match op {
        PowerOp::On | PowerOp::Reboot => times.start,
        PowerOp::Off | PowerOp::Pause | PowerOp::Resume => times.stop,
        PowerOp::Shutdown { timeout } => times.shutdown.min(timeout),
    };
    match exclusive(txn, &mut row, Doing::Power(op), takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            set_power(txn, &mut row, op);
            txn.put(row);
            Ok(started(None))
        }
    }
}

/// The machine's power once a change of it has ended.
pub(crate) fn set_power(txn: &mut Txn<'_>, row: &mut Row, op: PowerOp) {
    match (op, row.machine.power) {
        (PowerOp::On | PowerOp::Resume, Power::Paused) => row.machine.power = Power::On,
        (PowerOp::On, _) => switch_on(txn, row),
        (PowerOp::Reboot, _) => {
            switch_off(txn, row);
            switch_on(txn, row);
        }
        (PowerOp::Off | PowerOp::Shutdown { .. }, _) => switch_off(txn, row),
        (PowerOp::Pause, Power::On) => row.machine.power = Power::Paused,
        (PowerOp::Pause | PowerOp::Resume, _) => {}
    }
}

/// A machine is made: it is seen, and switched on where that was asked for.
pub(crate) fn made(txn: &mut Txn<'_>, row: &mut Row) {
    row.hidden = false;
    if row.power_on {
        switch_on(txn, row);
    }
}

/// Switches a machine on; the guest is up once it has booted.
pub(crate) fn switch_on(txn: &mut Txn<'_>, row: &mut Row) {
    if row.machine.power == Power::On {
        return;
    }
    row.machine.power = Power::On;
    let takes = txn.settings.work.boot;
    if takes.is_zero() {
        row.up = true;
    } else {
        row.boot = Some(txn.begin(Some(&row.machine.id), Doing::Boot, takes));
    }
}

/// Switches a machine off.
pub(crate) fn switch_off(txn: &mut Txn<'_>, row: &mut Row) {
    row.machine.power = Power::Off;
    row.up = false;
    if let Some(boot) = row.boot.take() {
        txn.end(boot, Done::well(None));
    }
}

/// Takes the token off a machine.
pub(crate) fn disown(txn: &mut Txn<'_>, id: &MachineId, proof: &Proof) -> Result<Begun<()>> {
    carries_tokens(txn)?;
    let mut row = txn.proven(id, proof)?;
    row.machine.token = None;
    row.machine.installation = None;
    txn.put(row);
    Ok(Begun::new((), None))
}

/// Writes a token onto a machine that has none.
pub(crate) fn adopt(txn: &mut Txn<'_>, id: &MachineId, owner: &Owner) -> Result<Begun<()>> {
    carries_tokens(txn)?;
    let Some(mut row) = txn.get(id).filter(|row| !row.hidden) else {
        return Err(Error::not_found(format!("there is no machine {id}")));
    };
    if row.machine.token.is_some() {
        prove(txn.settings, &row, &Proof { owner: owner.clone(), name: None })?;
        return Ok(Begun::new((), None));
    }
    if txn.settings.unique_by == UniqueBy::Token
        && let Some(other) = txn.state.owned(&owner.token).next()
    {
        let why = format!("machine {} carries the token {} already", other.id(), owner.token);
        return Err(Error::conflict(why));
    }
    row.machine.token = Some(owner.token.clone());
    row.machine.installation = Some(owner.installation.clone());
    txn.put(row);
    Ok(Begun::new((), None))
}

/// Gives a machine's virtual hardware a newer version.
pub(crate) fn upgrade(
    txn: &mut Txn<'_>,
    id: &MachineId,
    proof: &Proof,
    version: u32,
) -> Result<Begun<Started>> {
    let mut row = txn.proven(id, proof)?;
    if version < row.hardware {
        let why = format!("older than the present version {}", row.hardware);
        return Err(Error::invalid("spec.hardwareVersion", why));
    }
    if version == row.hardware {
        return Ok(started(None));
    }
    if row.machine.power != Power::Off {
        return Err(Error::conflict(format!("machine {id} must be off for that")));
    }
    let takes = txn.settings.work.reconfigure;
    match exclusive(txn, &mut row, Doing::Upgrade(version), takes)? {
        Step::Later(work) => Ok(started(Some(work))),
        Step::Now => {
            row.hardware = version;
            txn.put(row);
            Ok(started(None))
        }
    }
}

pub(crate) fn started(work: Option<u64>) -> Begun<Started> {
    Begun { answer: Started { task: work.map(task_id) }, work, takes: Duration::ZERO }
}

fn supported(txn: &Txn<'_>, op: PowerOp) -> Result<()> {
    let feature = match op {
        PowerOp::Shutdown { .. } => Feature::GracefulShutdown,
        PowerOp::Pause | PowerOp::Resume => Feature::Pause,
        PowerOp::On | PowerOp::Off | PowerOp::Reboot => return Ok(()),
    };
    match txn.settings.can(feature) {
        true => Ok(()),
        false => Err(Error::unsupported(format!("this provider cannot do {op:?}"))),
    }
}

/// Whether a change of power changes anything.
fn needed(row: &Row, op: PowerOp) -> Result<bool> {
    let wrong = |state: &str| Err(Error::conflict(format!("machine {} is {state}", row.id())));
    match (op, row.machine.power) {
        (PowerOp::On | PowerOp::Resume, Power::On) => Ok(false),
        (PowerOp::Off | PowerOp::Shutdown { .. }, Power::Off) => Ok(false),
        (PowerOp::Pause, Power::Paused) => Ok(false),
        (PowerOp::Reboot | PowerOp::Pause | PowerOp::Resume, Power::Off) => wrong("off"),
        (PowerOp::Reboot, Power::Paused) => wrong("stopped in the middle"),
        _ => Ok(true),
    }
}

fn carries_tokens(txn: &Txn<'_>) -> Result<()> {
    match txn.settings.token {
        true => Ok(()),
        false => Err(Error::unsupported("machines of this provider carry no tokens")),
    }
}
