//! The way of a call: counted, struck by a fault or not, delayed, carried out, answered.

use std::{
    future,
    sync::{Arc, Weak},
    time::Duration,
};

use sutler_provider::{Error, MachineId, Owner, Result};
use tokio::time;

use crate::{
    answer::{Answer, Begun},
    faults::{self, Call, Fault, Leaves},
    history::Cause,
    sim::{Core, Inner, Sim},
    txn::{Txn, jitter},
};

/// What a call is about, so that faults can be planned for it.
#[derive(Default)]
pub(crate) struct About<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) id: Option<&'a MachineId>,
}

impl<'a> About<'a> {
    pub(crate) fn name(name: &'a str) -> Self {
        Self { name: Some(name), id: None }
    }

    pub(crate) fn id(id: &'a MachineId) -> Self {
        Self { name: None, id: Some(id) }
    }
}

/// A call that the platform has taken.
pub(crate) struct Taken {
    pub(crate) fault: Option<Fault>,
    pub(crate) delay: Duration,
}

impl Sim {
    /// Looks at something. The answer is what is there once the call's time has passed.
    pub(crate) async fn look<T>(
        &self,
        call: Call,
        about: About<'_>,
        look: impl FnOnce(&Core) -> Result<T> + Send,
    ) -> Result<T> {
        let taken = self.0.take(call, &about).await?;
        if taken.fault == Some(Fault::LostReply) {
            future::pending::<()>().await;
        }
        wait(taken.delay).await;
        look(&self.0.lock())
    }

    /// Changes something. Once the platform has taken the call, it goes on whether its caller is
    /// still there or not.
    pub(crate) async fn change<T: Answer>(
        &self,
        call: Call,
        about: About<'_>,
        by: Option<&Owner>,
        job: impl Fn(&mut Txn<'_>) -> Result<Begun<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let Taken { fault, delay } = self.0.take(call, &about).await?;
        let room = self.0.settings.room(call);
        let request = Request {
            platform: Arc::downgrade(&self.0),
            call,
            by: by.cloned(),
            job: Arc::new(job),
            fails: match fault {
                Some(Fault::TaskFails(leaves)) => Some(leaves),
                _ => None,
            },
        };
        let late = match fault {
            Some(Fault::Late { by, .. }) => by.min(room),
            _ => Duration::ZERO,
        };
        if let Some(Fault::Duplicate { after }) = fault {
            tokio::spawn(request.again().run(delay.saturating_add(after.min(room))));
        }
        let work = tokio::spawn(request.run(delay.saturating_add(late)));
        let broken = || Err(Error::indeterminate("the connection broke before the answer came"));
        match fault {
            Some(Fault::LostReply | Fault::Late { hang: true, .. }) => future::pending().await,
            Some(Fault::Late { hang: false, .. }) => broken(),
            Some(Fault::ErrorAfter) => {
                drop(work.await);
                broken()
            }
            fault => {
                let mut answer = work.await.unwrap_or_else(|_| broken())?;
                if fault == Some(Fault::NoId) {
                    answer.forget();
                }
                Ok(answer)
            }
        }
    }
}

impl Inner {
    /// Counts a call, and says what goes wrong with it. One that meets an outage is refused or never
    /// answered.
    pub(crate) async fn take(self: &Arc<Self>, call: Call, about: &About<'_>) -> Result<Taken> {
        self.resume();
        self.tempt_fate();
        let (taken, hangs) = {
            let mut guard = self.lock();
            let core = &mut *guard;
            *core.calls.entry(call).or_default() += 1;
            let (room, lag) = (self.settings.room(call), self.settings.list_lag);
            let chance = faults::throw(&mut core.dice, &core.chances, call, room, lag);
            let name = about.id.and_then(|id| core.state.machines.get(id));
            let name = name.map(|row| row.machine.name.as_str());
            let ids = about.id.map(|id| id.0.as_str());
            let about: Vec<&str> = [about.name, ids, name].into_iter().flatten().collect();
            let fault = core.script.take(call, &about).or(chance);
            let delay = self.settings.latency_of(call);
            let delay = jitter(&mut core.noise, self.settings.jitter, delay);
            (Taken { fault, delay }, core.down())
        };
        match hangs {
            Some(true) => future::pending().await,
            Some(false) => return Err(Error::unavailable("the platform cannot be reached")),
            None => {}
        }
        match taken.fault {
            Some(Fault::Refuse(kind)) => {
                wait(taken.delay).await;
                Err(Error::new(kind, format!("{} was refused by a fault", call.as_str())))
            }
            _ => Ok(taken),
        }
    }
}

/// A change on its way. It does not keep the platform alive: work ends with it.
struct Request<J> {
    platform: Weak<Inner>,
    call: Call,
    by: Option<Owner>,
    job: Arc<J>,
    fails: Option<Leaves>,
}

impl<J> Request<J> {
    fn again(&self) -> Self {
        let Self { platform, call, by, job, fails } = self;
        Self {
            platform: platform.clone(),
            call: *call,
            by: by.clone(),
            job: job.clone(),
            fails: *fails,
        }
    }

    async fn run<T: Answer>(self, delay: Duration) -> Result<T>
    where
        J: Fn(&mut Txn<'_>) -> Result<Begun<T>>,
    {
        wait(delay).await;
        let (begun, ending) = {
            let platform = self.platform.upgrade();
            let platform = platform.ok_or_else(|| Error::unavailable("the platform is gone"))?;
            let tasks = platform.settings.tasks;
            let cause = Cause::Call(self.call);
            platform.transact(cause, self.by.as_ref(), self.fails, |txn| {
                let begun = (self.job)(txn)?;
                let ending = begun.work.filter(|_| !tasks).map(|work| txn.wait(work));
                Ok((begun, ending))
            })?
        };
        let Begun { mut answer, takes, .. } = begun;
        if let Some(ending) = ending {
            let lost = || Err(Error::indeterminate("the platform forgot what it was doing"));
            answer.ended(ending.await.unwrap_or_else(|_| lost())?);
        }
        wait(takes).await;
        Ok(answer)
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        time::sleep(time).await;
    }
}
