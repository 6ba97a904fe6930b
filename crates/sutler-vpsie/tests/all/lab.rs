//! A stand-in, a clock and a provider.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use sutler_provider::{
    Class, Clock, CreateRequest, Credentials, Image, Machine, ManagedNode, Owner, Proof,
    Provider as _, Token,
};
use sutler_vpsie::{
    Connection, Dialect, Settings, Vpsie, VpsieApi,
    client::connect,
    fake::{Fake, Shape},
};

pub(crate) const CLUSTER: &str = "c1";
pub(crate) const BOTH: [Dialect; 2] = [Dialect::Govpsie, Dialect::V2];

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct Hands(AtomicI64);

impl Hands {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

pub(crate) struct Lab {
    pub(crate) fake: Fake,
    pub(crate) clock: Arc<Hands>,
    pub(crate) vpsie: Vpsie,
    pub(crate) dialect: Dialect,
}

impl Lab {
    pub(crate) async fn new(dialect: Dialect) -> Self {
        Self::with(Shape::new(dialect), json!({})).await
    }

    /// A stand-in of this shape, and a provider with these options besides the usual ones.
    pub(crate) async fn with(shape: Shape, options: Value) -> Self {
        let dialect = shape.dialect;
        let clock = Arc::new(Hands(AtomicI64::new(1_790_000_000_000)));
        let fake = Fake::start(shape, clock.clone()).await.unwrap();
        let api = api(&fake, dialect, &clock, fake.credentials());
        let settings = settings(dialect, options);
        let vpsie = Vpsie::polling(api, settings, clock.clone(), Duration::from_millis(2));
        Self { fake, clock, vpsie, dialect }
    }

    pub(crate) fn api(&self, credentials: Credentials) -> Arc<dyn VpsieApi> {
        api(&self.fake, self.dialect, &self.clock, credentials)
    }

    /// All machines, of a list that is complete.
    pub(crate) async fn machines(&self) -> Vec<Machine> {
        let listing = self.vpsie.list().await.unwrap();
        assert!(listing.complete);
        listing.machines
    }
}

fn api(
    fake: &Fake,
    dialect: Dialect,
    clock: &Arc<Hands>,
    credentials: Credentials,
) -> Arc<dyn VpsieApi> {
    connect(&Connection {
        endpoint: fake.endpoint(),
        credentials,
        insecure_skip_verify: false,
        dialect,
        project: None,
        clock: clock.clone(),
    })
    .unwrap()
}

pub(crate) fn settings(dialect: Dialect, options: Value) -> Settings {
    let mut all = json!({"datacenter": "dc-1"});
    match dialect {
        Dialect::V2 => all["dialect"] = json!("v2"),
        Dialect::Govpsie => {
            all["plans"] = json!([
                {"id": "plan-1", "cpu": 1, "memoryMib": 512, "diskGib": 20},
                {"id": "plan-2", "cpu": 2, "memoryMib": 1024, "diskGib": 40},
            ]);
        }
    }
    for (name, value) in options.as_object().unwrap() {
        all[name] = value.clone();
    }
    Settings::from_options(all.as_object().unwrap()).unwrap()
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner {
        token: Token::new(format!("uid-{name}"), 1),
        installation: "here".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn proof(name: &str, called: &str) -> Proof {
    Proof { owner: owner(name), name: Some(called.to_owned()) }
}

/// A plain machine.
pub(crate) fn plain(name: &str) -> CreateRequest {
    CreateRequest {
        class: Some(Class::new(1, 512)),
        image: Some(Image { template: Some("debian-13".to_owned()), ..Image::default() }),
        ..CreateRequest::new(owner(name), name)
    }
}

/// A worker of a group.
pub(crate) fn worker(name: &str, group: &str, size: Option<&str>) -> CreateRequest {
    let managed_node = Some(ManagedNode {
        cluster: CLUSTER.to_owned(),
        group: group.to_owned(),
        size: size.map(str::to_owned),
    });
    CreateRequest { managed_node, ..CreateRequest::new(owner(name), name) }
}
