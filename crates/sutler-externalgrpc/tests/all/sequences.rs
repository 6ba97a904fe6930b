//! Random sequences of calls, failures and steps of a little controller: sizes always add up.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use proptest::prelude::*;
use serde_json::json;
use sutler_api::autoscaler::{
    NodeGroup, VPSieNode,
    removal::{REMOVING, is_leaving, removing, target_size},
};
use sutler_externalgrpc::pb::ExternalGrpcNode;
use tonic::Code;

use crate::support::{Fault, GROUP, NAMESPACE, World, made_up, node, patch};

const LEAST: i32 = 1;
const MOST: i32 = 6;

#[derive(Clone, Debug)]
enum Step {
    Grow(i32),
    TakeBack(i32),
    /// Removes the nodes of these records, counted round those that ever were; some of them twice.
    Remove(Vec<usize>),
    /// Repeats the last removal.
    Repeat,
    /// The controller deletes records that are listed.
    Delete,
    /// Deletions come to their end.
    Finish,
    /// Names of records that are gone come off the list.
    TakeOff,
    /// The controller makes records until there are enough.
    Fill,
    /// A machine joins.
    Join(usize),
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<(Step, Vec<Fault>)>> {
    let step = prop_oneof![
        3 => (-1..4i32).prop_map(Step::Grow),
        2 => (-3..1i32).prop_map(Step::TakeBack),
        4 => prop::collection::vec(0..12usize, 1..4).prop_map(Step::Remove),
        2 => Just(Step::Repeat),
        2 => Just(Step::Delete),
        2 => Just(Step::Finish),
        2 => Just(Step::TakeOff),
        3 => Just(Step::Fill),
        4 => (0..12usize).prop_map(Step::Join),
        1 => Just(Step::Refresh),
    ];
    let fault = prop_oneof![
        4 => Just(Fault::Fine),
        1 => Just(Fault::Refused),
        2 => Just(Fault::Lost),
        1 => Just(Fault::Overtaken),
    ];
    prop::collection::vec((step, prop::collection::vec(fault, 0..4)), 1..30)
}

/// The caller and the controller, and what they remember.
struct Run {
    world: World,
    made: Vec<String>,
    joined: BTreeSet<String>,
    /// Records that the caller was told are removed.
    removed: BTreeSet<String>,
    last: Vec<ExternalGrpcNode>,
}

impl Run {
    fn records(&self) -> Api<VPSieNode> {
        Api::namespaced(self.world.admin.clone(), NAMESPACE)
    }

    async fn group(&self) -> NodeGroup {
        self.world.stored("g").await
    }

    async fn size(&self) -> i32 {
        target_size(&self.group().await)
    }

    /// A node as the caller knows it: by its own name, or made up for one that has not joined.
    fn node(&self, record: &str) -> ExternalGrpcNode {
        let id = format!("sutler://{NAMESPACE}/{record}");
        if self.joined.contains(record) { node("g", record, &id) } else { made_up(&id) }
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Grow(delta) => {
                let before = self.size().await;
                let answer = self.world.increase(GROUP, *delta).await;
                self.judge(before, *delta, answer.map_err(|error| error.code())).await?;
            }
            Step::TakeBack(delta) => {
                let (before, there) = (self.size().await, self.there().await);
                let answer = self.world.decrease(GROUP, *delta).await;
                self.judge(before, *delta, answer.map_err(|error| error.code())).await?;
                prop_assert_eq!(self.there().await, there, "no node goes");
            }
            Step::Remove(which) if !self.made.is_empty() => {
                let names = which.iter().map(|index| &self.made[index % self.made.len()]);
                self.last = names.map(|name| self.node(name)).collect();
                self.remove().await?;
            }
            Step::Repeat => self.remove().await?,
            Step::Remove(_) => {}
            Step::Delete => {
                for name in removing(&self.group().await).unwrap() {
                    drop(self.records().delete(&name, &DeleteParams::default()).await);
                }
            }
            Step::Finish => {
                for record in self.world.records().await {
                    if record.metadata.deletion_timestamp.is_some() {
                        let name = record.name_any();
                        let off = json!({ "metadata": { "finalizers": null } });
                        patch::<VPSieNode>(&self.world.admin, &name, off).await;
                        let nodes = Api::<Node>::all(self.world.admin.clone());
                        let node = format!("node-{name}");
                        drop(nodes.delete(&node, &DeleteParams::default()).await);
                    }
                }
            }
            Step::TakeOff => self.take_off().await,
            Step::Fill => self.fill().await,
            Step::Join(index) if !self.made.is_empty() => {
                let name = self.made[index % self.made.len()].clone();
                let record = self.records().get_opt(&name).await.unwrap();
                let leaving = removing(&self.group().await).unwrap();
                if record.is_some_and(|record| !is_leaving(&record, &leaving))
                    && self.joined.insert(name.clone())
                {
                    let id = format!("sutler://{NAMESPACE}/{name}");
                    self.world.join("g", &name, Some(&id)).await;
                }
            }
            Step::Join(_) => {}
            Step::Refresh => self.world.refresh().await,
        }
        Ok(())
    }

    /// Removes what was asked for last, and compares with what that must come to.
    async fn remove(&mut self) -> Result<(), TestCaseError> {
        let before = self.group().await;
        let listed = removing(&before).unwrap();
        let mut new = BTreeSet::new();
        for node in &self.last {
            let name = node.provider_id.rsplit('/').next().unwrap().to_owned();
            let record = self.records().get_opt(&name).await.unwrap();
            if record.is_some_and(|record| !is_leaving(&record, &listed)) {
                new.insert(name);
            }
        }
        let answer = self.world.delete(GROUP, self.last.clone()).await;
        let delta = -i32::try_from(new.len()).unwrap();
        let code = answer.map_err(|error| error.code());
        if code.is_ok() {
            self.removed.extend(new.clone());
            prop_assert!(removing(&self.group().await).unwrap().is_superset(&new));
        }
        self.judge(target_size(&before), delta, code).await
    }

    /// The size has changed by exactly what was asked for and answered, and is told as it is stored.
    async fn judge(
        &self,
        before: i32,
        delta: i32,
        answer: Result<(), Code>,
    ) -> Result<(), TestCaseError> {
        let after = self.size().await;
        match answer {
            Ok(()) => prop_assert_eq!(after, before + delta),
            Err(Code::Unknown) => {
                self.world.refresh().await;
                prop_assert!(after == before || after == before + delta);
            }
            Err(_) => prop_assert_eq!(after, before),
        }
        prop_assert!((LEAST..=MOST).contains(&after));
        prop_assert_eq!(self.world.target(GROUP).await, after);
        Ok(())
    }

    async fn counted(&self) -> Vec<VPSieNode> {
        let leaving = removing(&self.group().await).unwrap();
        let records = self.world.records().await;
        records.into_iter().filter(|record| !is_leaving(record, &leaving)).collect()
    }

    async fn there(&self) -> i32 {
        let counted = self.counted().await;
        let there = counted.iter().filter(|record| self.joined.contains(&record.name_any()));
        i32::try_from(there.count()).unwrap()
    }

    async fn take_off(&self) {
        let group = self.group().await;
        let mut list = removing(&group).unwrap();
        let there: BTreeSet<String> =
            self.world.records().await.iter().map(|record| record.name_any()).collect();
        list.retain(|name| there.contains(name));
        let text = (!list.is_empty()).then(|| serde_json::to_string(&list).unwrap());
        let off = json!({ "metadata": {
            "resourceVersion": group.resource_version(), "annotations": { REMOVING: text },
        } });
        let groups = Api::<NodeGroup>::namespaced(self.world.admin.clone(), NAMESPACE);
        groups.patch("g", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    }

    async fn fill(&mut self) {
        let size = usize::try_from(self.size().await).unwrap();
        let counted = self.counted().await;
        for _ in counted.len()..size {
            let name = format!("r{}", self.made.len());
            self.world.record("g", &name).await;
            self.made.push(name);
        }
        // Whoever makes a group smaller says which are to go.
        assert!(counted.len() <= size, "{} of {size}", counted.len());
    }

    /// Once all is done, there are as many records as are wanted, and none that was removed.
    async fn settle(&mut self) -> Result<(), TestCaseError> {
        self.world.faults.clear();
        for step in [Step::Delete, Step::Fill, Step::Finish, Step::TakeOff, Step::Refresh] {
            self.step(&step).await?;
        }
        let left: BTreeSet<String> =
            self.world.records().await.iter().map(|record| record.name_any()).collect();
        prop_assert_eq!(i32::try_from(left.len()).unwrap(), self.size().await);
        prop_assert!(left.is_disjoint(&self.removed));
        // What joined and was not named is still there.
        let kept = self.joined.difference(&self.removed).all(|name| left.contains(name));
        prop_assert!(kept, "{:?} of {:?} without {:?}", left, self.joined, self.removed);
        prop_assert!(!self.group().await.annotations().contains_key(REMOVING));
        Ok(())
    }
}

async fn run(steps: Vec<(Step, Vec<Fault>)>) -> Result<(), TestCaseError> {
    let world = World::begin().await;
    let bounds = json!({ "minNodes": LEAST, "maxNodes": MOST, "desiredNodes": 2 });
    world.group("g", bounds).await;
    let mut run = Run {
        world,
        made: Vec::new(),
        joined: BTreeSet::new(),
        removed: BTreeSet::new(),
        last: Vec::new(),
    };
    for (step, faults) in steps {
        run.world.faults.on_writes(faults);
        run.step(&step).await?;
        run.world.faults.clear();
    }
    run.settle().await
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sizes_always_add_up(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(steps))?;
    }
}
