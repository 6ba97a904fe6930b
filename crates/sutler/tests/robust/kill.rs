//! The server is killed at random moments under writers and watchers, and started again.

use std::{collections::BTreeMap, path::Path, time::Duration};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::sync::mpsc;

use crate::{
    client::Client,
    history::{Acknowledged, Done, Event, History, KINDS, Kind},
    server::{Address, LOG, Server, Who},
    watcher::Watcher,
    writer::Writer,
};

const WRITERS: usize = 10;
/// A round that takes longer hangs.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let rounds = number("SUTLER_KILL_ROUNDS").unwrap_or(20);
    let seed = number("SUTLER_KILL_SEED").unwrap_or_else(rand::random);
    println!("SUTLER_KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::default();
    let mut writes = 0;
    for round in 0..rounds {
        if random.random_ratio(1, 4) {
            kill_at_start(folder.path(), &mut random).await;
        }
        let server = Server::start(folder.path(), "sqlite").expect("it starts again");
        let address = server.address();
        tokio::time::timeout(LONG, world.audit(&address, round)).await.expect("no audit hangs");
        let told = world.run_and_kill(server, round, &mut random);
        writes += tokio::time::timeout(LONG, told).await.expect("no round hangs");
    }
    let server = Server::start(folder.path(), "sqlite").expect("it starts again");
    let address = server.address();
    world.audit(&address, rounds).await;
    world.read_again(&address).await;
    let seen: usize = world.watchers.iter().map(|watcher| watcher.total).sum();
    println!("{rounds} rounds, {writes} acknowledged writes, {seen} events");
    assert!(writes >= rounds && seen > 0);
    let log = std::fs::read_to_string(folder.path().join(LOG)).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

/// A start that does not come to its end: recovery, migration and first objects must bear it.
async fn kill_at_start(data: &Path, random: &mut StdRng) {
    let mut child = Server::spawn(&[], data, "sqlite");
    tokio::time::sleep(Duration::from_micros(random.random_range(0..300_000))).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What is known of the store from the outside.
#[derive(Default)]
struct World {
    histories: BTreeMap<Kind, History>,
    watchers: Vec<Watcher>,
    /// Where the history of each kind begins, and how far it was read.
    began: BTreeMap<Kind, u64>,
    read: BTreeMap<Kind, u64>,
    /// Acknowledged since the last audit.
    acknowledged: Vec<Acknowledged>,
    /// The greatest version that anybody was told.
    newest: u64,
}

impl World {
    /// Compares what a new server has with what was told before.
    async fn audit(&mut self, address: &Address, round: u64) {
        let mut client = Client::new(address, Who::Admin);
        if self.watchers.is_empty() {
            self.begin(&mut client).await;
        }
        for watcher in &self.watchers {
            self.newest = self.newest.max(watcher.last);
        }
        for kind in KINDS {
            let version = self.milestone(&mut client, kind, round).await;
            let from = self.read[&kind];
            let mut reader = Watcher::new(kind, from, usize::MAX);
            reader.follow(address, Some(version)).await.expect("the server is there");
            let history = self.histories.entry(kind).or_default();
            reader.seen.into_iter().for_each(|event| history.add(event));
            for watcher in self.watchers.iter_mut().filter(|watcher| watcher.kind == kind) {
                // It goes on from where the kill left it, up to what was read just now.
                watcher.follow(address, Some(version)).await.expect("the server is there");
                watcher.compare(from, history);
            }
            self.read.insert(kind, version);
            compare_state(&mut client, kind, &self.histories[&kind], version).await;
        }
        for write in self.acknowledged.drain(..) {
            self.histories[&write.kind].check(&write);
        }
    }

    /// Everybody begins at the state before the first write.
    async fn begin(&mut self, client: &mut Client) {
        for kind in KINDS {
            let version = client.get(kind.path()).await.unwrap().version();
            self.began.insert(kind, version);
            self.read.insert(kind, version);
            self.watchers.push(Watcher::new(kind, version, usize::MAX));
            self.watchers.push(Watcher::new(kind, version, 7));
            self.watchers.push(Watcher::new(kind, version, 60));
        }
    }

    /// A write after the restart: its version is above all that was told before.
    async fn milestone(&mut self, client: &mut Client, kind: Kind, round: u64) -> u64 {
        let mark = format!("milestone-{round}");
        let object = kind.object("milestone", &mark);
        let target = format!("{}/milestone?fieldManager=audit&force=true", kind.path());
        let content = [("content-type", "application/apply-patch+yaml")];
        let answer = client.send("PATCH", &target, &content, object.to_string()).await.unwrap();
        assert!(matches!(answer.code, 200 | 201), "{answer:?}");
        let version = answer.version();
        assert!(version > self.newest, "{version} was given out again after {}", self.newest);
        self.newest = version;
        let done = Done::Written { version, mark, on: None };
        self.acknowledged.push(Acknowledged { kind, name: "milestone".into(), done });
        version
    }

    /// Lets writers write and watchers watch, and kills the server in the middle of it.
    async fn run_and_kill(&mut self, server: Server, round: u64, random: &mut StdRng) -> u64 {
        let address = server.address();
        let (told, mut writes) = mpsc::unbounded_channel();
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let random = StdRng::seed_from_u64(random.random());
                let (client, told) = (Client::new(&address, Who::Admin), told.clone());
                tokio::spawn(Writer { number, round, random, client, told }.run())
            })
            .collect();
        drop(told);
        let watchers: Vec<_> = std::mem::take(&mut self.watchers)
            .into_iter()
            .map(|watcher| tokio::spawn(watcher.run(address.clone())))
            .collect();
        let enough = random.random_range(1..250);
        let moment = Duration::from_micros(random.random_range(0..4000));
        let mut server = Some(server);
        let mut count = 0;
        while let Some(write) = writes.recv().await {
            self.acknowledged.push(write);
            count += 1;
            if count == enough {
                tokio::time::sleep(moment).await;
                server.take().expect("it is killed once").kill();
            }
        }
        for writer in writers {
            writer.await.expect("no writer fails");
        }
        for watcher in watchers {
            self.watchers.push(watcher.await.expect("no watcher fails"));
        }
        for write in &self.acknowledged {
            if let Done::Written { version, .. } = write.done {
                self.newest = self.newest.max(version);
            }
        }
        assert!(server.is_none(), "the writers ended before the server");
        count
    }

    /// The log tells the same from the first version on as it told bit by bit.
    async fn read_again(&self, address: &Address) {
        for (kind, history) in &self.histories {
            let mut reader = Watcher::new(*kind, self.began[kind], usize::MAX);
            reader.follow(address, Some(self.read[kind])).await.expect("the server is there");
            assert!(reader.seen.iter().eq(history.events.values()), "{kind:?} changed its past");
        }
    }
}

/// The objects that are there are those that the history leads to.
async fn compare_state(client: &mut Client, kind: Kind, history: &History, version: u64) {
    let mut found = BTreeMap::new();
    let mut next = String::new();
    loop {
        let target = format!("{}?limit=7&continue={next}", kind.path());
        let page = client.get(&target).await.unwrap();
        assert!(page.version() >= version, "{page:?} is older than {version}");
        let page = page.value();
        for object in page["items"].as_array().into_iter().flatten() {
            // What the server itself made is not part of this.
            if object["metadata"]["annotations"][crate::history::MARK].is_null() {
                continue;
            }
            let event = Event::of(String::new(), object);
            found.insert(event.name.clone(), event);
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => break,
        }
    }
    let facts = |event: &Event| (event.version, event.uid.clone(), event.mark.clone());
    let found: Vec<_> = found.values().map(facts).collect();
    let expected: Vec<_> = history.state.values().map(facts).collect();
    assert_eq!(found, expected, "{kind:?}");
}
