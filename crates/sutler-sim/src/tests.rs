//! Behaviour of the simulated platform, seen through the contract.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use sutler_provider::{
    Class, Clock, CreateRequest, DeleteRequest, Disk, Error, ErrorKind, Firmware, Image, Machine,
    MachineId, Owner, Power, PowerOp, PowerRequest, Proof, Provider as _, TaskId, TaskState, Token,
};
use tokio::time::Instant;

use crate::{Latency, Settings, Sim, WorkTimes};

mod behind;
mod create;
mod determinism;
mod folder;
mod kept;
mod lists;
mod machines;
mod more;
mod strikes;
mod work;

/// A clock that goes with tokio's, paused or not.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.0.elapsed()).unwrap();
        Timestamp::from_second(1_800_000_000).unwrap() + passed
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(TokioClock(Instant::now()))
}

fn sim(settings: Settings) -> Sim {
    Sim::in_memory(settings, clock()).unwrap()
}

fn quick() -> Sim {
    sim(Settings { history: true, ..Settings::default() })
}

/// Every kind of work takes ten seconds, and every call one.
fn slow_settings() -> Settings {
    let (s, t) = (Duration::from_secs(1), Duration::from_secs(10));
    Settings {
        history: true,
        latency: Latency {
            look: s,
            list: s,
            create: s,
            delete: s,
            power: s,
            reconfigure: s,
            snapshot: s,
            clone: s,
            image: s,
            transfer: s,
            guest: s,
        },
        work: WorkTimes {
            create: t,
            start: t,
            boot: t,
            stop: t,
            shutdown: t,
            delete: t,
            reconfigure: t,
            snapshot: t,
            clone: t,
            image: t,
            transfer: t,
        },
        ..Settings::default()
    }
}

fn owner(uid: &str) -> Owner {
    Owner {
        token: Token::new(uid, 1),
        installation: "here".to_owned(),
        namespace: "default".to_owned(),
        name: uid.to_owned(),
    }
}

fn proof(uid: &str) -> Proof {
    Proof { owner: owner(uid), name: Some(uid.to_owned()) }
}

fn class(cpu: u32, memory_mib: u64) -> Class {
    Class { firmware: Firmware::Uefi, root_gib: Some(20), ..Class::new(cpu, memory_mib) }
}

/// A request for a machine of this name, with a token that goes with it.
fn request(name: &str) -> CreateRequest {
    CreateRequest {
        class: Some(class(2, 2048)),
        image: Some(Image { template: Some("debian-13".to_owned()), ..Image::default() }),
        disks: vec![Disk { name: "data".to_owned(), size_gib: 5, ..Disk::default() }],
        user_data: Some(b"#cloud-config\n".to_vec()),
        tags: vec!["blue".to_owned()],
        ..CreateRequest::new(owner(name), name)
    }
}

async fn make(sim: &Sim, name: &str) -> MachineId {
    sim.create(request(name)).await.unwrap().id.unwrap()
}

async fn shown(sim: &Sim, id: &MachineId) -> Machine {
    sim.describe(id).await.unwrap().unwrap()
}

async fn delete(sim: &Sim, id: &MachineId, uid: &str) -> Result<Option<TaskId>, Error> {
    let request = DeleteRequest { id: id.clone(), proof: proof(uid) };
    sim.delete(request).await.map(|started| started.task)
}

async fn power(sim: &Sim, id: &MachineId, uid: &str, op: PowerOp) -> Result<Option<TaskId>, Error> {
    let request = PowerRequest { id: id.clone(), proof: proof(uid), op };
    sim.power(request).await.map(|started| started.task)
}

async fn listed(sim: &Sim) -> Vec<String> {
    sim.list().await.unwrap().machines.into_iter().map(|machine| machine.name).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// Waits until a task has ended, as a caller would.
async fn ended(sim: &Sim, task: &TaskId) -> TaskState {
    loop {
        match sim.task(task).await.unwrap() {
            TaskState::Running { .. } => pass(0.5).await,
            state => return state,
        }
    }
}

/// Lets a call begin, and drops it as a caller that was killed does.
async fn abandon<T>(call: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = call => {}
        () = tokio::task::yield_now() => {}
    }
}
