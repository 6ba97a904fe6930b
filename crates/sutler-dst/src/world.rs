//! One run: the API, the platforms, the processes, the users, and the judge who watches them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt as _, api::ObjectMeta};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::Value;
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode},
    infra::{Provider, VMClone, VMImage, VMSet, VMSnapshot, VirtualMachine},
    sutler::VMDisk,
};
use sutler_kv::memory::Memory;
use sutler_provider::{Power, Token};
use sutler_sim::{Chances, Foreign, Settings, Sim, Tamper};
use sutler_store::{ApiServer, Config, registry::Registry};

use crate::{
    garbage,
    ids::{SeededIds, VirtualClock},
    invariants::Judge,
    log::Log,
    nodes::{self, Books},
    process::Process,
    scenario::{Scenario, Theme},
    users,
    wire::Wire,
};

/// The platform that gets into trouble.
pub const MAIN: &str = "main";
/// Its neighbour, to which nothing ever happens.
pub const NEIGHBOUR: &str = "neighbour";

/// How long everything may take to settle once it is calm.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// Everything that a run shares.
pub struct World {
    /// What the run is like.
    pub scenario: Scenario,
    /// The API.
    pub server: ApiServer,
    /// The platforms, by name.
    pub sims: BTreeMap<String, Sim>,
    /// The line to the platform that gets into trouble, where it is not in the process itself.
    pub wire: Option<Arc<Wire>>,
    /// The time.
    pub clock: VirtualClock,
    /// What happened.
    pub log: Log,
    judge: Mutex<Judge>,
    calm: AtomicBool,
}

/// The kinds that every run has.
const KINDS: [&str; 11] = [
    "VirtualMachine",
    "Provider",
    "VMClass",
    "VMImage",
    "VMNetworkAttachment",
    "Operation",
    "VMSnapshot",
    "VMClone",
    "VMSet",
    "VMPlacementPolicy",
    "VMDisk",
];

/// Those that only runs about nodes have.
const NODE_KINDS: [&str; 3] = ["NodeGroup", "VPSieNode", "AutoscalerConfig"];

/// Definitions of kinds, and what the API makes of them. They are the same in every run, and reading
/// them takes longer than many a run.
struct Kinds {
    crds: Vec<Value>,
    registry: Registry,
}

impl Kinds {
    fn of(theme: Theme) -> &'static Self {
        static ALL: OnceLock<[Kinds; 2]> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let more: Vec<&str> = KINDS.iter().chain(&NODE_KINDS).copied().collect();
            [Self::read(&KINDS), Self::read(&more)]
        });
        &all[usize::from(theme == Theme::Nodes)]
    }

    fn read(wanted: &[&str]) -> Self {
        let crds: Vec<Value> = sutler_api::crds()
            .iter()
            .filter(|crd| wanted.contains(&crd.spec.names.kind.as_str()))
            .map(sutler_api::crd::to_value)
            .collect();
        let registry = Registry::new(&crds).expect("our kinds can be read");
        Self { crds, registry }
    }
}

/// Makes what every run needs and none changes.
pub fn warm_up() {
    Kinds::of(Theme::Any);
}

impl World {
    async fn begin(seed: u64, scenario: Scenario, log: Log) -> Arc<Self> {
        let clock = VirtualClock::begin();
        let kinds = Kinds::of(scenario.theme);
        let config = Config {
            engine: Arc::new(Memory::new()),
            crds: kinds.crds.clone(),
            clock: Arc::new(clock),
            ids: Arc::new(SeededIds::new(seed)),
            version: "0.0.0".to_owned(),
        };
        let server =
            ApiServer::start_with(config, kinds.registry.clone()).await.expect("the API starts");
        let main =
            Sim::in_memory(scenario.platform.clone(), Arc::new(clock)).expect("settings fit");
        let calm = Settings {
            history: true,
            seed,
            without: [sutler_sim::Feature::ImageImport].into(),
            ..Settings::default()
        };
        let neighbour = Sim::in_memory(calm, Arc::new(clock)).expect("settings fit");
        let wire = scenario.line.map(|line| Wire::begin(&main, line));
        let sims = BTreeMap::from([(MAIN.to_owned(), main), (NEIGHBOUR.to_owned(), neighbour)]);
        log.line("", format_args!("{scenario:?}"));
        if scenario.machines > 20 {
            log.expect_many();
        }
        Arc::new(Self {
            scenario,
            server,
            sims,
            wire,
            clock,
            log,
            judge: Mutex::default(),
            calm: AtomicBool::new(false),
        })
    }

    /// Whether nothing goes wrong any more.
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Asks the judge.
    pub fn judge<R>(&self, ask: impl FnOnce(&mut Judge) -> R) -> R {
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = ask(&mut judge);
        if let Some(what) = &judge.violation {
            self.log.found_wrong(what);
        }
        answer
    }

    /// A create leaves a process.
    pub fn create_sent(&self, platform: &str, token: &Token) -> usize {
        let sim = &self.sims[platform];
        let make = sim.settings().deadlines.make;
        self.judge(|judge| {
            judge.judge_platform(platform, sim);
            let number = judge.create_sent(platform, token);
            judge.judge_create(number, sim, make);
            number
        })
    }

    /// Looks at everything that must hold now.
    pub fn check(&self) {
        self.judge(|judge| {
            for (name, sim) in &self.sims {
                judge.judge_platform(name, sim);
                judge.judge_images(name, sim);
            }
            let scenario = &self.scenario;
            let steady = scenario.crash_after == 0
                && !scenario.overlap
                && scenario.api_trouble == 0.0
                && scenario.watch_trouble == 0.0;
            if steady {
                judge.judge_neighbour(NEIGHBOUR);
            }
        });
    }

    /// An object was written.
    pub fn written(&self, object: Value) {
        self.check();
        match object["kind"].as_str() {
            Some("VirtualMachine") => {
                let Ok(vm) = serde_json::from_value::<VirtualMachine>(object) else { return };
                self.judge(|judge| match is_gone(&vm.metadata) {
                    true => judge.record_gone(&vm, &self.sims),
                    false => judge.record_written(&vm, &self.sims),
                });
            }
            Some("Provider") => {
                let Ok(provider) = serde_json::from_value::<Provider>(object) else { return };
                let platform = provider.spec.endpoint.trim_start_matches("sim://").to_owned();
                let orphans = provider.status.map(|status| status.orphans).unwrap_or_default();
                let ids: Vec<String> = orphans.into_iter().map(|orphan| orphan.id).collect();
                self.judge(|judge| judge.orphans_reported(&platform, ids));
            }
            Some("VMImage") => {
                let Ok(image) = serde_json::from_value::<VMImage>(object) else { return };
                self.judge(|judge| match is_gone(&image.metadata) {
                    true => judge.image_gone(&image.metadata.uid.unwrap_or_default(), &self.sims),
                    false => judge.images.written(image),
                });
            }
            Some("VMSnapshot") => {
                let Ok(snapshot) = serde_json::from_value::<VMSnapshot>(object) else { return };
                match is_gone(&snapshot.metadata) {
                    true => self.gone(&snapshot.metadata.uid.unwrap_or_default()),
                    false => self.judge(|judge| {
                        let judged = judge.snapshots.written(snapshot);
                        judge.insist(judged);
                    }),
                }
            }
            Some("VMClone") => {
                let Ok(copy) = serde_json::from_value::<VMClone>(object) else { return };
                match is_gone(&copy.metadata) {
                    true => self.gone(&copy.metadata.uid.unwrap_or_default()),
                    false => self.judge(|judge| judge.copies.written(copy)),
                }
            }
            Some("VMSet") => {
                let Ok(set) = serde_json::from_value::<VMSet>(object) else { return };
                match is_gone(&set.metadata) {
                    true => self.gone(&set.metadata.uid.unwrap_or_default()),
                    false => self.judge(|judge| {
                        judge.disks.set_written(&set);
                        judge.sets.written(set);
                    }),
                }
            }
            Some("VMDisk") => {
                let Ok(disk) = serde_json::from_value::<VMDisk>(object) else { return };
                match is_gone(&disk.metadata) {
                    true => self.gone(&disk.metadata.uid.unwrap_or_default()),
                    false => self.judge(|judge| {
                        let judged = judge.disks.written(disk);
                        judge.insist(judged);
                    }),
                }
            }
            Some("NodeGroup") => {
                let Ok(group) = serde_json::from_value::<NodeGroup>(object) else { return };
                self.judge(|judge| {
                    judge.nodes.group_written(&group);
                    if is_gone(&group.metadata) {
                        let judged = judge.nodes.group_gone(&group.uid().unwrap_or_default());
                        judge.insist(judged);
                    }
                });
            }
            Some("VPSieNode") => {
                let Ok(record) = serde_json::from_value::<VPSieNode>(object) else { return };
                self.judge(|judge| {
                    let judged = match is_gone(&record.metadata) {
                        true => {
                            let uid = record.uid().unwrap_or_default();
                            judge.nodes.record_gone(&uid, &judge.records)
                        }
                        false => judge.nodes.record_written(record),
                    };
                    judge.insist(judged);
                });
            }
            Some("Node") => {
                let Ok(node) = serde_json::from_value::<Node>(object) else { return };
                self.judge(|judge| {
                    let judged = judge.nodes.node_written(&node, &judge.records);
                    judge.insist(judged);
                });
            }
            Some("Status") => self.gone(object["details"]["uid"].as_str().unwrap_or_default()),
            _ => {}
        }
    }

    /// An object went off the books.
    fn gone(&self, uid: &str) {
        self.judge(|judge| {
            if judge.images.knows(uid) {
                judge.image_gone(uid, &self.sims);
            }
            if judge.snapshots.knows(uid) {
                let judged = judge.snapshots.gone(uid, &judge.records, &self.sims);
                judge.insist(judged);
            }
            judge.copies.gone(uid);
            let judged = judge.nodes.record_gone(uid, &judge.records);
            judge.insist(judged);
            let judged = judge.disks.gone(uid, &self.sims);
            judge.insist(judged);
            let judged = judge.sets.gone(uid, &judge.records, self.scenario.overlap);
            judge.insist(judged);
            if let Some(vm) = judge.records.get(uid).cloned() {
                judge.record_gone(&vm, &self.sims);
            }
        });
    }

    /// An object is deleted: by whom makes a difference.
    pub fn deleted(&self, by_us: bool, object: &Value) {
        let status = object["kind"] == "Status";
        let place = if status { &object["details"]["uid"] } else { &object["metadata"]["uid"] };
        let uid = place.as_str().unwrap_or_default();
        let scenario = &self.scenario;
        let steady = scenario.watch_trouble == 0.0 && scenario.api_trouble == 0.0;
        let behind = Duration::from_secs(if steady && !scenario.overlap { 60 } else { 600 });
        self.judge(|judge| {
            if !by_us {
                judge.sets.deleted_by_others(uid);
                return;
            }
            let judged = judge.snapshots.deleted_by_us(uid, &judge.records, &self.sims);
            judge.insist(judged);
            let again = |vm: &VirtualMachine| vm.metadata.deletion_timestamp.is_some();
            if let Some(vm) = judge.records.get(uid).filter(|vm| !again(vm)) {
                let judged = judge.sets.deleted_by_us(vm, &judge.records, behind);
                judge.insist(judged);
            }
        });
    }

    /// Takes note of what the API server itself removed: nobody tells of that.
    async fn refresh(&self, client: &kube::Client) {
        // Known before it is looked for: what is made meanwhile is not gone because it was not there yet.
        let known = self.judge(|judge| {
            let mut known: Vec<String> = judge.records.keys().cloned().collect();
            known.extend(judge.snapshots.uids());
            known.extend(judge.copies.uids());
            known.extend(judge.sets.uids());
            known.extend(judge.disks.uids());
            known
        });
        let mut there = std::collections::BTreeSet::new();
        there.extend(uids::<VirtualMachine>(client).await);
        there.extend(uids::<VMSnapshot>(client).await);
        there.extend(uids::<VMClone>(client).await);
        there.extend(uids::<VMSet>(client).await);
        there.extend(uids::<VMDisk>(client).await);
        for uid in known.iter().filter(|uid| !there.contains(*uid)) {
            self.gone(uid);
        }
        if self.scenario.theme == Theme::Nodes {
            let books = Books::read(client).await;
            self.judge(|judge| judge.nodes.read(books));
        }
    }
}

/// Whether nothing holds an object back any more that was deleted.
fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

async fn uids<K>(client: &kube::Client) -> Vec<String>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api: kube::Api<K> = kube::Api::namespaced(client.clone(), "default");
    let list = api.list(&Default::default()).await.expect("users can list");
    list.items.into_iter().filter_map(|object| object.meta().uid.clone()).collect()
}

/// Lives through one run, and tells what was wrong and how long it took.
pub async fn live(seed: u64, scenario: Scenario, log: Log) -> (Option<String>, u64) {
    let world = World::begin(seed, scenario, log).await;
    let begun = tokio::time::Instant::now();
    let mut rng = StdRng::seed_from_u64(seed ^ 0x11fe);
    let client = users::client(&world);
    users::prepare(&world, &client).await;
    let installation = users::installation(&client).await;
    world.judge(|judge| {
        judge.installation = installation;
        judge.tokens = world.scenario.platform.token;
        judge.nodes.members = world.scenario.platform.own_names;
    });
    let main = &world.sims[MAIN];
    main.set_chances(world.scenario.chances);
    let mut processes = vec![Process::start(&world, "A", seed ^ 0xa)];
    let cluster = match world.scenario.theme {
        Theme::Nodes => {
            Some(tokio::spawn(nodes::play_cluster(world.clone(), client.clone(), seed)))
        }
        Theme::Sets => Some(tokio::spawn(garbage::play(world.clone(), client.clone(), seed))),
        _ => None,
    };

    let end = begun + world.scenario.trouble;
    if world.scenario.table.is_some() {
        users::one_life(&client, world.scenario.user_pause).await;
    } else {
        let user = users::act(&world, &client, seed, end);
        let fate = trouble(&world, &mut processes, &mut rng, end);
        let cuts = async {
            if let Some(wire) = &world.wire {
                wire.trouble(seed, end, &world.log).await;
            }
        };
        futures::future::join3(user, fate, cuts).await;
    }

    world.log.line("", "calm");
    world.calm.store(true, Ordering::Relaxed);
    main.calm();
    world.sims[MAIN].set_chances(Chances::default());
    for process in &processes {
        process.calm();
    }
    // Only one process leads in the end.
    while processes.len() > 1 {
        if let Some(process) = processes.pop() {
            process.kill();
        }
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // It has to stay settled: what comes late comes within the longest window.
    let mut quiet = 0;
    while tokio::time::Instant::now() < deadline && quiet < 4 {
        tokio::time::sleep(Duration::from_secs(300)).await;
        if world.scenario.theme != Theme::Any {
            world.refresh(&client).await;
        }
        world.check();
        let open = world.judge(|judge| {
            judge.violation.clone().or_else(|| judge.unsettled()).or_else(|| {
                // Machines that have no record are reported and reaped in time.
                let before = judge.violation.clone();
                judge.judge_end(&world.sims);
                let found = judge.violation.clone();
                judge.violation = before;
                found
            })
        });
        quiet = if open.is_none() { quiet + 1 } else { 0 };
        if world.judge(|judge| judge.violation.is_some()) {
            break;
        }
    }
    let violation = world.judge(|judge| {
        judge.judge_end(&world.sims);
        judge.violation.clone()
    });
    for process in processes {
        process.kill();
    }
    if let Some(cluster) = cluster {
        cluster.abort();
    }
    let seconds = (tokio::time::Instant::now() - begun).as_secs();
    (violation, seconds)
}

/// What happens to processes and behind everybody's back.
async fn trouble(
    world: &Arc<World>,
    processes: &mut Vec<Process>,
    rng: &mut StdRng,
    end: tokio::time::Instant,
) {
    loop {
        let pause = Duration::from_millis(rng.random_range(200..10_000));
        if tokio::time::Instant::now() + pause >= end {
            tokio::time::sleep_until(end).await;
            return;
        }
        tokio::time::sleep(pause).await;
        world.check();
        if world.scenario.overlap && rng.random_bool(0.3) {
            if processes.len() == 1 {
                processes.push(Process::start(world, "B", rng.random()));
            } else if let Some(process) = processes.pop() {
                world.log.line("B", "is killed");
                process.kill();
            }
        }
        if world.scenario.outside && rng.random_bool(0.3) {
            behind_our_back(world, rng);
        }
    }
}

fn behind_our_back(world: &World, rng: &mut StdRng) {
    let sim = &world.sims[MAIN];
    let machines = sim.machines();
    let choice = rng.random_range(0..7);
    if choice == 6 {
        // A machine of ours whose record somebody lost.
        let uid = format!("{:08x}-0000-4000-8000-000000000000", rng.random::<u32>());
        let installation = world.judge(|judge| judge.installation.clone());
        let token = Some((Token::new(uid.as_str(), 1), installation));
        world.log.line("", format_args!("an orphan of {uid} appears"));
        let _ = sim.appear(Foreign { token, ..Foreign::named(format!("lost-{}", &uid[..8])) });
        return;
    }
    if choice == 0 || machines.is_empty() {
        let name = format!("foreign-{}", rng.random_range(0..100));
        world.log.line("", format_args!("{name} appears"));
        let _ = sim.appear(Foreign::named(name));
        return;
    }
    let truth = &machines[rng.random_range(0..machines.len())];
    if truth.machine.token.is_none() {
        return;
    }
    world.judge(|judge| judge.note_owner(MAIN, truth));
    let tamper = match choice {
        1 => Tamper::Power(Power::Off),
        2 => Tamper::Cpu(rng.random_range(1..9)),
        3 => Tamper::Delete,
        4 => Tamper::Tags(vec!["touched".to_owned()]),
        _ => Tamper::Power(Power::On),
    };
    world.log.line("", format_args!("{} suffers {tamper:?}", truth.machine.id));
    let _ = sim.tamper(&truth.machine.id, tamper);
}
