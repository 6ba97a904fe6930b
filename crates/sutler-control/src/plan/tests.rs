//! Tests of the planner: tables of single decisions, properties that hold for any input, and the
//! planner in a loop with a platform on which everything may come late or get lost.

mod cases;
mod members;
mod properties;
mod round;
mod table;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use sutler_provider::{
    Capabilities, Class, CreateRequest, Deadlines, ErrorKind, Image, Listing, Machine, Owner,
    Power, Token, UniqueBy, View,
};

use super::*;

/// The record of all cases.
const UID: &str = "u-1";
/// Its machine's name on the platform.
const NAME: &str = "web-abcde";
/// How long a create may take to have its effect.
const MAKE: i64 = 60;
/// When nothing of a create that was asked for at 0 can come any more.
const SETTLED: i64 = SEND_WINDOW.as_secs() as i64 + MAKE;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// Something that was seen of the platform, and when.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are a handful of them")]
enum Sight {
    /// A whole list.
    Whole(Vec<Machine>, i64),
    /// A list that lacks something.
    Part(Vec<Machine>, i64),
    /// One machine.
    One(Machine, i64),
    /// That one is not there.
    Gone(MachineId, i64),
}

/// Everything that a plan is made from.
#[derive(Debug, Clone)]
struct Case {
    record: Record,
    desired: Desired,
    /// Why it is not known what is wanted.
    unresolved: Option<Blocker>,
    /// Why the platform is not known.
    unreachable: Option<Blocker>,
    capabilities: Capabilities,
    sights: Vec<Sight>,
    memory: Memory,
    hashed: bool,
    /// Why the last list failed.
    list_error: Option<Error>,
    /// Another record that has every machine.
    rival: bool,
    /// What another record's machine is called.
    other: Option<&'static str>,
    /// Another record, of another name, has every machine.
    astray: bool,
    /// A record that is gone has left every machine in place.
    kept: bool,
    /// How many records of its group come before it.
    ahead: Vec<Timestamp>,
    now: i64,
}

/// What other records claim in a case.
struct Rival {
    /// Every machine.
    all: bool,
    /// Members, before the record does: since when each waits.
    ahead: Vec<Timestamp>,
    /// What is called like this.
    name: Option<&'static str>,
    /// Every machine, though they are called otherwise.
    astray: bool,
    /// Every machine was left in place by a record that is gone.
    kept: bool,
}

impl Claims for Rival {
    fn claimed(&self, _: &Machine, _: &str) -> bool {
        self.all || self.astray
    }

    fn better(&self, name: &str, _: &str, _: &str) -> bool {
        self.name == Some(name)
    }

    fn meant(&self, machine: &Machine, _: &str) -> bool {
        self.name == Some(&machine.name)
    }

    fn misclaimed(&self, _: &Machine, _: &str) -> bool {
        self.astray
    }

    fn kept(&self, _: &Machine) -> bool {
        self.kept
    }

    fn row(&self, group: &Group<'_>) -> Arc<Row> {
        // In the order that they are named in.
        let ahead = self.ahead.iter().enumerate().map(|(place, since)| Waiter {
            uid: format!("ahead-{place:03}"),
            asked: Timestamp::MAX,
            since: *since,
            deleting: false,
        });
        let members = group.members().filter(|seen| {
            group.may_be_taken(seen) && is_free(self, seen, group.own.unwrap_or_default())
        });
        Arc::new(Row::share_out(group.view, members, ahead.collect(), group.over))
    }
}

impl Case {
    /// A record that nobody has done anything for yet, at second 100, on a platform that can do
    /// everything and of which nothing was seen.
    fn new() -> Self {
        Self {
            record: Record {
                uid: UID.to_owned(),
                namespace: "default".to_owned(),
                name: "web".to_owned(),
                ..Record::default()
            },
            desired: desired(),
            unresolved: None,
            unreachable: None,
            capabilities: Capabilities {
                token: true,
                unique_by: UniqueBy::Token,
                list: true,
                addresses: true,
                reconfigure: true,
                graceful_shutdown: true,
                deadlines: Deadlines {
                    make: Duration::from_secs(MAKE as u64),
                    change: Duration::from_secs(20),
                    ..Deadlines::default()
                },
                ..Capabilities::default()
            },
            sights: Vec::new(),
            memory: Memory::default(),
            hashed: true,
            list_error: None,
            rival: false,
            other: None,
            astray: false,
            kept: false,
            ahead: Vec::new(),
            now: 100,
        }
    }

    /// A create was announced at second 0.
    fn asked(self) -> Self {
        self.asked_as(1)
    }

    fn asked_as(mut self, incarnation: u32) -> Self {
        self.record.finalizer = true;
        self.record.platform_name = Some(NAME.to_owned());
        self.record.intent = Some(Intent {
            token: Token::new(UID, incarnation),
            first_requested_at: at(0),
            requested_at: at(0),
        });
        self
    }

    /// Its machine was complete once, and its ID is on record.
    fn complete(mut self) -> Self {
        self = self.asked();
        self.record.id = Some("1".into());
        self.record.created_at = Some(at(1));
        self.record.provisioned = true;
        self.record.has_address = true;
        self.record.power = Some(sutler_api::infra::PowerState::On);
        self.memory.id_since = Some(at(5));
        self
    }

    fn deleting(mut self) -> Self {
        self.record.deleting = true;
        self
    }

    fn at(mut self, now: i64) -> Self {
        self.now = now;
        self
    }

    fn sees(mut self, sight: Sight) -> Self {
        self.sights.push(sight);
        self
    }

    fn record(mut self, change: impl FnOnce(&mut Record)) -> Self {
        change(&mut self.record);
        self
    }

    fn memory(mut self, change: impl FnOnce(&mut Memory)) -> Self {
        change(&mut self.memory);
        self
    }

    fn wants(mut self, change: impl FnOnce(&mut Desired)) -> Self {
        change(&mut self.desired);
        self
    }

    fn can(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// What became of the create that was announced at 0.
    fn outcome(self, outcome: Outcome) -> Self {
        self.memory(|memory| memory.attempt = Some(Attempt { requested_at: at(0), outcome }))
    }

    /// Machines can be told by their names alone.
    fn without_tokens(self) -> Self {
        self.can(|can| {
            can.token = false;
            can.unique_by = UniqueBy::Name;
        })
    }

    fn view(&self) -> View {
        let mut view = View::new(self.capabilities.list_lag);
        for sight in &self.sights {
            match sight.clone() {
                Sight::Whole(machines, when) => {
                    view.take_list(Listing { machines, complete: true }, at(when));
                }
                Sight::Part(machines, when) => {
                    view.take_list(Listing { machines, complete: false }, at(when));
                }
                Sight::One(machine, when) => {
                    view.take_machine(machine, at(when));
                }
                Sight::Gone(id, when) => {
                    view.take_absence(&id, at(when));
                }
            }
        }
        view
    }

    fn plan(&self) -> Plan {
        let view = self.view();
        let platform = Platform {
            capabilities: &self.capabilities,
            view: &view,
            list_error: self.list_error.as_ref(),
            discovery_timeout: Duration::from_secs(300),
            hashed: self.hashed,
            installation: "here",
        };
        plan(&Inputs {
            record: &self.record,
            desired: self.unresolved.as_ref().map_or(Ok(&self.desired), Err),
            platform: self.unreachable.as_ref().map_or(Ok(platform), Err),
            memory: &self.memory,
            claims: &Rival {
                all: self.rival,
                ahead: self.ahead.clone(),
                name: self.other,
                astray: self.astray,
                kept: self.kept,
            },
            now: at(self.now),
        })
    }
}

fn desired() -> Desired {
    let owner = Owner {
        token: Token::new(UID, 1),
        installation: "here".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    };
    Desired {
        request: CreateRequest {
            hostname: "web".to_owned(),
            class: Some(Class::new(2, 1024)),
            image: Some(Image { name: "debian".to_owned(), ..Image::default() }),
            ..CreateRequest::new(owner, NAME)
        },
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

/// The record's machine, on and with an address.
fn ours(incarnation: u32) -> Machine {
    let mut machine = Machine::new("1", NAME, Power::On);
    machine.token = Some(Token::new(UID, incarnation));
    machine.created_at = Some(at(1));
    machine.ips = vec!["10.0.0.1".to_owned()];
    machine.cpu = Some(2);
    machine.memory_mib = Some(1024);
    machine
}
