//! Providers that run elsewhere, while everything in between breaks: the control plane is killed, the
//! providers are killed, and the links between them are cut or fall silent, at random moments while
//! machines are made. Afterwards every record has one machine.
//!
//! One control plane drives six platforms: with and without the Extensions, in each class of what a
//! platform refuses to have twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use serde_json::{Value, json};
use sutler_provider::SystemClock;
use sutler_sim::{Settings, Sim};

use crate::{
    kill::{LONG, settle, start, terminate},
    lab::{INFRA, api, is_ready, machine},
    platform,
    wire::{Line, Link},
};

/// On each platform.
const MACHINES: usize = 60;

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    ControlPlane,
    Providers,
    Links,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_machines_each_whatever_breaks() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let times = number("SUTLER_CUT_ROUNDS").unwrap_or(5) as usize;
    let seed = number("SUTLER_CUT_SEED").unwrap_or_else(rand::random);
    println!("SUTLER_CUT_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut places = Vec::new();
    for class in ["Token", "Name", "None"] {
        for extensions in [true, false] {
            places.push(Place::new(folder.path(), class, extensions).await);
        }
    }
    let (mut child, mut client) = start(&data).await;
    furnish(&client, &places).await;

    let mut rounds = [Breaks::ControlPlane, Breaks::Providers, Breaks::Links].repeat(times);
    rounds.shuffle(&mut random);
    let mut asked = 0;
    for (round, breaks) in rounds.iter().enumerate() {
        let records = machines(&client);
        let until = MACHINES * (round + 1) / rounds.len();
        let wanted = (asked..until).flat_map(|number| {
            let named = |place: &Place| (place.name.clone(), format!("{}-{number}", place.name));
            places.iter().map(named).collect::<Vec<_>>()
        });
        let made = wanted.map(async |(provider, name)| {
            let object = machine(&name, json!({"providerRef": {"name": provider}}));
            let object = serde_json::from_value(object).unwrap();
            records.create(&PostParams::default(), &object).await.unwrap();
        });
        futures::future::join_all(made).await;
        asked = until;
        let moment = |random: &mut StdRng| Duration::from_millis(random.random_range(20..400));
        tokio::time::sleep(moment(&mut random)).await;
        match breaks {
            Breaks::ControlPlane => {
                child.kill().unwrap();
                child.wait().unwrap();
                (child, client) = start(&data).await;
            }
            Breaks::Providers => {
                for place in &mut places {
                    place.kill();
                    place.start();
                }
            }
            Breaks::Links => {
                for place in &places {
                    let silent = random.random_ratio(1, 3);
                    place.link.set(if silent { Line::Silent } else { Line::Cut });
                }
                tokio::time::sleep(moment(&mut random)).await;
                places.iter().for_each(|place| place.link.set(Line::Open));
            }
        }
    }
    let begun = Instant::now();
    settle(&machines(&client)).await;
    // Machines too many show in a list. The next is a minute away, unless everything begins anew.
    child.kill().unwrap();
    child.wait().unwrap();
    (child, client) = start(&data).await;
    for place in &places {
        place.settle().await;
    }
    println!("{} times each broke; settled within {:?}", times, begun.elapsed());
    let records = settle(&machines(&client)).await;
    assert_eq!(records.len(), MACHINES * places.len());
    terminate(&mut child);
    let mut extra = 0;
    for place in &mut places {
        terminate(place.child.as_mut().unwrap());
        place.seen();
        extra += place.ever.len() - MACHINES;
        place.compare(&records);
    }
    println!("{extra} machines too many came and went where a platform allows them");
    assert!(extra > 0, "nothing was reaped, so nothing was shown");
    let log = std::fs::read_to_string(data.join("test.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

fn machines(client: &Client) -> Api<DynamicObject> {
    api(client, INFRA, "VirtualMachine", "default")
}

/// The Providers; class and image are there from the first start.
async fn furnish(client: &Client, places: &[Place]) {
    for place in places {
        let object = json!({"apiVersion": INFRA, "kind": "Provider",
            "metadata": {"name": place.name},
            "spec": {"type": "sim", "endpoint": format!("sim://{}", place.name),
                "options": place.ours(),
                "runtime": {"mode": "Remote", "endpoint": place.link.address,
                    "service": {"tls": {"enabled": false}}},
                "rateLimit": {"qps": 1000, "burst": 1000},
                "healthCheck": {"interval": "1s"},
                "discovery": {"interval": "300ms"}}});
        let object = serde_json::from_value(object).unwrap();
        let providers = api(client, INFRA, "Provider", "default");
        providers.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// A platform, its provider's process, and the link to it.
struct Place {
    name: String,
    class: &'static str,
    extensions: bool,
    folder: PathBuf,
    link: Link,
    child: Option<Child>,
    /// The IDs of all machines that were seen on it.
    ever: BTreeSet<String>,
}

impl Place {
    async fn new(folder: &Path, class: &'static str, extensions: bool) -> Self {
        let kind = if extensions { "extended" } else { "base" };
        let name = format!("{}-{kind}", class.to_lowercase());
        let folder = folder.join(&name);
        // Where it leads is known once the provider listens.
        let link = Link::new("127.0.0.1:1").await;
        let ever = BTreeSet::new();
        let mut place = Self { name, class, extensions, folder, link, child: None, ever };
        place.start();
        place
    }

    /// What the platform is like: quick, and with short windows, so that what is not known is known
    /// soon. Where nothing is unique, requests come twice at times.
    fn theirs(&self) -> Value {
        let twice = if self.class == "None" { 0.2 } else { 0.0 };
        json!({
            "uniqueBy": self.class,
            "deadlines": deadlines(),
            "latency": {"create": "60ms", "list": "20ms"},
            "work": {"create": "150ms", "start": "50ms", "boot": "100ms", "delete": "50ms"},
            "jitter": 50,
            "faults": {"duplicate": twice},
        })
    }

    /// What a provider without the Extensions cannot say of itself.
    fn ours(&self) -> Value {
        match (self.extensions, self.class) {
            (true, _) => json!({}),
            (false, "None") => json!({"deadlines": deadlines()}),
            (false, _) => json!({"deadlines": deadlines(), "uniqueBy": "Name"}),
        }
    }

    fn start(&mut self) {
        let program = Path::new(env!("CARGO_BIN_EXE_sutler")).with_file_name("sutler-sim");
        assert!(program.exists(), "build all of the workspace: {} is missing", program.display());
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--health-port", "0", "--insecure"]);
        command.args(["--log-level", "error", "--options", &self.theirs().to_string(), "--state"]);
        command.arg(&self.folder);
        if !self.extensions {
            command.arg("--without-extensions");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        self.link.lead(address);
        self.child = Some(child);
    }

    /// Ends the provider in the middle of whatever it does, and looks at what is on the disk.
    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.seen();
        if self.class != "None" {
            self.no_double();
        }
    }

    /// Takes down who was there: the next start begins a new file.
    fn seen(&mut self) {
        self.ever.extend(platform::ever(&self.folder));
    }

    fn no_double(&self) {
        let mut seen = BTreeMap::new();
        for (id, row) in platform::machines(&self.folder) {
            let token = row["machine"]["token"].to_string();
            let other = seen.insert(token.clone(), id.clone());
            assert_eq!(other, None, "{}: {token} is there twice, as {id} too", self.name);
        }
    }

    /// Waits until machines that were too many are gone: nothing but the platform tells.
    async fn settle(&self) {
        let end = Instant::now() + LONG;
        loop {
            let count = platform::machines(&self.folder).len();
            if count == MACHINES {
                return;
            }
            assert!(Instant::now() < end, "{}: {count} machines are left", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Machines on the platform = records.
    fn compare(&self, records: &BTreeMap<String, Value>) {
        let settings = Settings::from_options(self.theirs().as_object().unwrap()).unwrap();
        let sim = Sim::open(&self.folder, settings, Arc::new(SystemClock)).unwrap();
        let there = sim.machines();
        assert_eq!(there.len(), MACHINES, "{}", self.name);
        let mut uids = BTreeSet::new();
        for truth in there {
            assert!(!truth.broken && !truth.hidden, "{}: {truth:?}", self.name);
            // Without the Extensions, too: requests say whose they are, in upstream's words.
            let token = truth.machine.token.clone().unwrap();
            let record = records.get(&token.uid);
            let record = record.unwrap_or_else(|| panic!("{}: {truth:?} is nobody's", self.name));
            assert!(is_ready(record), "{record:#}");
            assert_eq!(record["spec"]["providerRef"]["name"], self.name.as_str());
            assert_eq!(record["status"]["id"], truth.machine.id.0.as_str(), "{record:#}");
            assert!(uids.insert(token.uid), "{}: {truth:?} is there twice", self.name);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn deadlines() -> Value {
    json!({"look": "2s", "list": "2s", "make": "2s", "change": "2s", "transfer": "2s"})
}
