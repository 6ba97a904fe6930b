//! Power.

use std::time::Duration;

use futures::StreamExt as _;
use sutler_provider::{
    Error, ErrorKind, Event, MachineId, Power, PowerOp, PowerRequest, Proof, Result, Started,
};
use tokio::time::{Instant, timeout};
use virt::domain::Domain;

use crate::{
    fault::{Done, unless},
    find,
    host::Libvirt,
    remove, show,
};

/// A guest that does not hear is asked again: before it has booted it listens to nobody.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Changes a machine's power.
pub(crate) async fn switch(host: &Libvirt, request: PowerRequest) -> Result<Started> {
    let PowerRequest { id, proof, op } = request;
    if let PowerOp::Shutdown { timeout } = op {
        return shut_down(host, id, proof, timeout).await;
    }
    let _turn = host.0.locks.take(id.0.clone()).await;
    host.0
        .link
        .change(move |connect| {
            let (domain, _) = find::proven(connect, &id, &proof)?;
            apply(&domain, op)
        })
        .await?;
    Ok(Started::default())
}

fn apply(domain: &Domain, op: PowerOp) -> Done {
    let now = show::power(domain)?;
    match (op, now) {
        (PowerOp::On, Power::Off) => unless(domain.create(), &[ErrorKind::Conflict]),
        (PowerOp::On | PowerOp::Resume, Power::Paused) => Ok(domain.resume()?),
        (PowerOp::Off | PowerOp::Shutdown { .. }, _) => remove::stop(domain),
        (PowerOp::Reboot, _) => {
            remove::stop(domain)?;
            unless(domain.create(), &[ErrorKind::Conflict])
        }
        (PowerOp::Pause, Power::On) => Ok(domain.suspend()?),
        (PowerOp::Pause, Power::Off) => {
            Err(Error::conflict("a machine that is off cannot be paused").into())
        }
        (PowerOp::On | PowerOp::Resume | PowerOp::Pause, _) => Ok(()),
    }
}

/// Asks the guest to shut down, and switches it off when it takes too long.
async fn shut_down(
    host: &Libvirt,
    id: MachineId,
    proof: Proof,
    patience: Duration,
) -> Result<Started> {
    let (machine, given) = (id.clone(), proof.clone());
    let on = host.0.link.look(move |connect| {
        let (domain, seen) = find::proven(connect, &machine, &given)?;
        Ok((show::power(&domain)? != Power::Off).then_some(seen.uuid))
    });
    let Some(uuid) = on.await? else { return Ok(Started::default()) };
    let host_ = host.clone();
    let task = host.0.tasks.begin(&format!("shutdown/{uuid}"), move |progress| async move {
        let host = host_;
        let _turn = host.0.locks.take(id.0.clone()).await;
        let mut events = host.0.watch.listen();
        let end = Instant::now() + patience;
        loop {
            let (machine, given) = (id.clone(), proof.clone());
            let late = Instant::now() >= end;
            let off = host.0.link.change_in_task(move |connect| {
                let (domain, _) = find::proven(connect, &machine, &given)?;
                if show::power(&domain)? == Power::Off {
                    return Ok(true);
                }
                if late {
                    remove::stop(&domain)?;
                    return Ok(true);
                }
                // A guest that is on its way down, or not yet up, may not be asked.
                let fine = [ErrorKind::Conflict, ErrorKind::Unavailable, ErrorKind::Failed];
                unless(domain.shutdown(), &fine)?;
                Ok(false)
            });
            if off.await? {
                return Ok(None);
            }
            progress.say(None, "waiting for the guest to shut down");
            let pause = ASK_AGAIN.min(end.saturating_duration_since(Instant::now()));
            let off = async {
                while let Some(event) = events.next().await {
                    if is_off(&event, &id) {
                        return;
                    }
                }
            };
            // It was told, or it is time to ask again: either way the machine is looked at.
            drop(timeout(pause, off).await);
        }
    });
    Ok(Started { task: Some(task) })
}

fn is_off(event: &Event, id: &MachineId) -> bool {
    match event {
        Event::Changed(machine) => machine.id == *id && machine.power == Power::Off,
        Event::Gone(gone) => gone == id,
        Event::Lost => true,
    }
}
