//! How long it takes to find the machines of a thousand records that wait for members of one group, after
//! one list: with the row that all of them share, beside one that each computes for itself.
#![expect(clippy::unwrap_used, reason = "what fails here fails the benchmark")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::json;
use sutler_api::{infra::VirtualMachine, names::annotations};
use sutler_control::{
    fleet::Key,
    index::Index,
    plan::{
        Attempt, Claims, Desired, Group, Inputs, Memory, Outcome, Platform, Record, Row, Step, plan,
    },
};
use sutler_provider::{
    Capabilities, CreateRequest, Listing, Machine, MachineId, Owner, Power, Token, UniqueBy, View,
};

const RECORDS: usize = 1_000;
const ASKED: i64 = 1_800_000_000;

fn main() {
    for (what, members) in [("nothing has come", 0), ("all have come", RECORDS)] {
        let shared = best(|| matching(members, true));
        let alone = best(|| matching(members, false));
        println!(
            "{RECORDS} records wait, {what}: one list, matched in {:.2} ms (goal 10 ms); each for itself {:.2} ms, {:.0} times as long",
            millis(shared),
            millis(alone),
            alone.as_secs_f64() / shared.as_secs_f64(),
        );
    }
}

/// The best of a few runs.
fn best(run: impl Fn() -> Duration) -> Duration {
    (0..5).map(|_| run()).min().unwrap()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Plans for every record after one list; each that finds its machine has it from then on.
fn matching(members: usize, share: bool) -> Duration {
    let mut index = Index::default();
    let records: Vec<VirtualMachine> = (0..RECORDS).map(|number| waiting(number, None)).collect();
    for record in &records {
        index.put(record);
    }
    let mut view = View::default();
    let listed = (0..members).map(member).collect();
    view.take_list(Listing { machines: listed, complete: true }, at(60));
    let capabilities = Capabilities {
        list: true,
        token: false,
        returns_id: false,
        unique_by: UniqueBy::None,
        ..Capabilities::default()
    };
    let claims = Both { index: Mutex::new(index), provider: Key::new("ns", "p"), share };
    let found: Vec<VirtualMachine> =
        (0..RECORDS).map(|number| waiting(number, Some(&format!("vm-{number:04}")))).collect();
    let plain: Vec<Record> = records.iter().map(|vm| Record::read(vm).unwrap()).collect();
    let (desired, memory) = (desired(), accepted());
    let mut taken = BTreeSet::new();
    let began = Instant::now();
    for (record, found) in plain.iter().zip(&found) {
        let platform = Platform {
            capabilities: &capabilities,
            view: &view,
            discovery_timeout: Duration::from_secs(900),
            hashed: false,
            installation: "here",
            list_error: None,
        };
        let next = plan(&Inputs {
            record,
            desired: Ok(&desired),
            platform: Ok(platform),
            memory: &memory,
            claims: &claims,
            now: at(61),
        });
        if let Step::Claim(id) = next.step {
            taken.insert(id);
            claims.index.lock().unwrap().put(found);
        }
    }
    let took = began.elapsed();
    assert_eq!(taken.len(), members, "everyone has one of its own");
    took
}

/// Rows as they are kept, or made for each who looks.
struct Both {
    index: Mutex<Index>,
    provider: Key,
    share: bool,
}

impl Claims for Both {
    fn claimed(&self, machine: &Machine, uid: &str) -> bool {
        self.index.lock().unwrap().claimed(&self.provider, machine, uid)
    }

    fn better(&self, name: &str, wanted: &str, uid: &str) -> bool {
        self.index.lock().unwrap().better(&self.provider, name, wanted, uid)
    }

    fn meant(&self, machine: &Machine, uid: &str) -> bool {
        self.index.lock().unwrap().meant(&self.provider, machine, uid)
    }

    fn misclaimed(&self, machine: &Machine, uid: &str) -> bool {
        self.index.lock().unwrap().misclaimed(&self.provider, machine, uid)
    }

    fn kept(&self, machine: &Machine) -> bool {
        self.index.lock().unwrap().kept(&self.provider, machine)
    }

    fn row(&self, group: &Group<'_>) -> Arc<Row> {
        let own = if self.share { group.own } else { group.own.or(Some("")) };
        self.index.lock().unwrap().row(&self.provider, &Group { own, ..*group })
    }
}

fn waiting(number: usize, id: Option<&str>) -> VirtualMachine {
    let (name, requested) = (format!("pool-{number:04}"), at(0).to_string());
    let made = id.map(|_| at(30).to_string());
    serde_json::from_value(json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": "ns", "uid": format!("u-{number:04}"), "annotations": {
            (annotations::TOKEN): format!("u-{number:04}-1"),
            (annotations::FIRST_REQUESTED_AT): requested, (annotations::CREATE_REQUESTED_AT): requested,
            (annotations::PLATFORM_NAME): name,
        } },
        "spec": { "providerRef": { "name": "p" }, "managedNode": { "cluster": "c", "group": "pool" } },
        "status": { "id": id, "createdAt": made, "incarnation": 1 },
    }))
    .unwrap()
}

fn member(number: usize) -> Machine {
    let mut machine =
        Machine::new(format!("vm-{number:04}"), format!("worker-{number}"), Power::On);
    machine.group = Some("pool".to_owned());
    machine.created_at = Some(at(30));
    machine.ips = vec![format!("10.0.{}.{}", number / 250, number % 250)];
    machine
}

fn desired() -> Desired {
    let owner = Owner {
        token: Token::new("u", 1),
        installation: "here".to_owned(),
        namespace: "ns".to_owned(),
        name: "pool".to_owned(),
    };
    Desired {
        request: CreateRequest::new(owner, "pool-0000"),
        power: None,
        shutdown_timeout: Duration::from_secs(60),
        post_start: false,
        pre_stop: false,
        copy: None,
        revert: None,
        placed: None,
        digest: "d".to_owned(),
    }
}

fn accepted() -> Memory {
    let outcome = Outcome::Accepted { id: None::<MachineId>, task: None, at: at(1) };
    Memory { attempt: Some(Attempt { requested_at: at(0), outcome }), ..Memory::default() }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(ASKED + second).unwrap()
}
