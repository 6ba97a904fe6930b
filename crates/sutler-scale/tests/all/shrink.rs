//! Which nodes go, and why others stay.

use sutler_scale::cost::Standing;
use sutler_scale::decide;
use sutler_scale::filters::Refusal;
use sutler_scale::shrink::{Reason, ShrinkPlan, Verdict, requested_loads};
use sutler_scale::world::{
    Budget, CostPolicy, CostStrategy, Effect, Group, Key, Load, Owner, Pod, RegionStrategy,
    Regions, Taint, Window, World,
};

use crate::build::*;

fn shrink(world: &World) -> ShrinkPlan {
    decide(world, None, now()).shrink
}

fn gone(plan: &ShrinkPlan) -> Vec<&str> {
    plan.removals.iter().map(|removal| removal.node.as_str()).collect()
}

fn reasons<'p>(plan: &'p ShrinkPlan, node: &str) -> &'p [Reason] {
    match &plan.verdicts[node] {
        Verdict::Keep(reasons) => reasons,
        Verdict::Removable { .. } => &[],
    }
}

fn one(world: &mut World) -> &mut Group {
    world.groups.get_mut(&Key::new("default", "one")).unwrap()
}

/// Two nodes: one is in use, and one is idle with a pod on it.
fn two() -> World {
    let mut world = world([group("one")]);
    add_node(&mut world, "one", "busy");
    add_node(&mut world, "one", "idle");
    world.node_mut("busy").unwrap().load = load(60);
    add_running(&mut world, "p", &shape(500), "idle");
    world
}

fn change_pod(world: &mut World, change: impl FnOnce(&mut Pod)) {
    let mut pod = world.remove_pod(&Key::new("apps", "p")).unwrap();
    change(&mut pod);
    world.set_pod(pod);
}

#[test]
fn an_idle_node_goes_and_its_pods_have_another_place() {
    let plan = shrink(&two());
    assert_eq!(gone(&plan), ["idle"]);
    assert_eq!(plan.removals[0].moves[0].to, "busy");
    assert_eq!(plan.removals[0].evict_within, 120);
    assert_eq!(plan.desired[&Key::new("default", "one")], 1);
    assert_eq!(reasons(&plan, "busy"), [Reason::Busy { idle: 0 }]);
}

#[test]
fn defect_01_every_no_is_obeyed_and_has_its_reason() {
    let pod = || Key::new("apps", "p");
    let gap = {
        let mut window = Window::new(600);
        window.push(ago(700), Load { cpu: 0, memory: 0 });
        window.push(ago(100), Load { cpu: 0, memory: 0 });
        window
    };
    let once = {
        let mut window = Window::new(600);
        window.push(ago(0), Load { cpu: 0, memory: 0 });
        window
    };
    type Change = Box<dyn FnOnce(&mut World)>;
    let cases: Vec<(Change, Reason)> = vec![
        (Box::new(|w| one(w).paused = true), Reason::Paused),
        (Box::new(|w| one(w).down.enabled = false), Reason::Disabled),
        (Box::new(|w| one(w).min = 2), Reason::GroupMinimum { min: 2 }),
        (Box::new(|w| one(w).last_up = Some(ago(500))), Reason::GrewRecently { until: later(100) }),
        (
            Box::new(|w| one(w).last_down = Some(ago(200))),
            Reason::ShrankRecently { until: later(100) },
        ),
        (
            Box::new(|w| one(w).facts.last_down_failure = Some(ago(290))),
            Reason::FailedRecently { until: later(10) },
        ),
        (Box::new(|w| one(w).desired = 3), Reason::GroupGrows),
        (Box::new(|w| one(w).facts.leaving = 100), Reason::TooManyLeaving { max: 100 }),
        (Box::new(|w| node(w).ready = false), Reason::NotReady),
        (Box::new(|w| node(w).deleting = true), Reason::Leaving),
        (
            Box::new(|w| node(w).keep.forbidden_by = Some("x/protected".into())),
            Reason::Forbidden { by: "x/protected".into() },
        ),
        (
            Box::new(|w| node(w).keep.hours = Some("always".into())),
            Reason::HoursMalformed { text: "always".into() },
        ),
        // It is 08:00.
        (
            Box::new(|w| node(w).keep.hours = Some("22:00-06:00".into())),
            Reason::Hours { until: later(14 * 3600) },
        ),
        (Box::new(|w| node(w).load = Window::new(600)), Reason::TooFewReadings),
        (Box::new(|w| node(w).load = once), Reason::WatchedTooShort { until: later(600) }),
        (Box::new(|w| node(w).load = gap), Reason::NoReadings { from: ago(700) }),
        (Box::new(|w| node(w).load = load(50)), Reason::Busy { idle: 0 }),
        (
            Box::new(|w| change_pod(w, |p| p.eviction.forbidden_by = Some("x/no".into()))),
            Reason::PodForbids { pod: pod(), by: "x/no".into() },
        ),
        (Box::new(|w| change_pod(w, |p| p.owner = Owner::Nobody)), Reason::NakedPod { pod: pod() }),
        (
            Box::new(|w| change_pod(w, |p| p.eviction.local_volumes = vec!["tmp".into()])),
            Reason::LocalStorage { pod: pod(), volumes: vec!["tmp".into()] },
        ),
        (
            Box::new(|w| {
                change_pod(w, |p| {
                    p.key.namespace = "kube-system".into();
                    let mut shape = (*p.shape).clone();
                    shape.namespace = "kube-system".into();
                    p.shape = shape.into();
                });
            }),
            Reason::SystemPod { pod: Key::new("kube-system", "p") },
        ),
        (
            Box::new(|w| add_budget(w, "b", 0)),
            Reason::Budget { pod: pod(), budget: Key::new("apps", "b") },
        ),
        (
            Box::new(|w| {
                add_budget(w, "b", 5);
                add_budget(w, "c", 5);
            }),
            Reason::SeveralBudgets {
                pod: pod(),
                budgets: vec![Key::new("apps", "b"), Key::new("apps", "c")],
            },
        ),
        (
            // 3.4 of 4 CPUs may be taken.
            Box::new(|w| add_running(w, "q", &shape(3000), "busy")),
            Reason::NoPlace { pod: pod(), tried: 1, because: Some(Refusal::TooFull { limit: 85 }) },
        ),
        (Box::new(|w| one(w).up.cpu = 65), Reason::TooBusyAfter { share: 70, limit: 65 }),
        (
            Box::new(|w| {
                let regions = Regions { strategy: RegionStrategy::Balanced, min_each: 2 };
                one(w).regions = Some(regions);
            }),
            Reason::PlaceMinimum { place: "a".into(), min: 2 },
        ),
    ];
    for (change, expected) in cases {
        let mut world = two();
        change(&mut world);
        let plan = shrink(&world);
        assert!(!gone(&plan).contains(&"idle"), "{expected}");
        assert!(
            reasons(&plan, "idle").contains(&expected),
            "{expected}: {:?}",
            reasons(&plan, "idle")
        );
    }
}

fn node(world: &mut World) -> &mut sutler_scale::world::Node {
    world.node_mut("idle").unwrap()
}

fn add_budget(world: &mut World, name: &str, allowed: i32) {
    let key = Key::new("apps", name);
    let budget = Budget {
        key: key.clone(),
        selector: app("web"),
        allowed,
        healthy: false,
        unhealthy_always: false,
    };
    world.budgets.insert(key, budget);
}

#[test]
fn an_annotation_overrules_what_speaks_against_moving() {
    let mut world = two();
    change_pod(&mut world, |pod| {
        (pod.owner, pod.eviction.allowed) = (Owner::Nobody, true);
        pod.eviction.local_volumes = vec!["tmp".into()];
    });
    assert_eq!(gone(&shrink(&world)), ["idle"]);
}

#[test]
fn defect_18_pods_are_not_moved_to_where_they_cannot_be() {
    // Not to a node that is not ready, cordoned, or kept apart from the pod.
    type Change = fn(&mut World);
    let changes: [Change; 4] = [
        |w| w.node_mut("busy").unwrap().ready = false,
        |w| w.node_mut("busy").unwrap().unschedulable = true,
        |w| {
            let taint = Taint::new("dedicated", "db", Effect::NoSchedule);
            w.node_mut("busy").unwrap().taints = [taint].into();
        },
        |w| {
            change_pod(w, |pod| {
                let mut shape = (*pod.shape).clone();
                shape.node_selector = labels(&[("kubernetes.io/hostname", "idle")]);
                pod.shape = shape.into();
            });
        },
    ];
    for change in changes {
        let mut world = two();
        change(&mut world);
        assert!(matches!(reasons(&shrink(&world), "idle"), [Reason::NoPlace { .. }]));
    }
    let mut world = two();
    let mut lonely = shape(100);
    lonely.anti_affinity.push(term("kubernetes.io/hostname", "web"));
    add_running(&mut world, "q", &lonely, "busy");
    let plan = shrink(&world);
    let [Reason::NoPlace { because, .. }] = reasons(&plan, "idle") else { panic!() };
    assert!(matches!(because, Some(Refusal::KeptAway { .. })));
}

#[test]
fn defect_18_the_node_that_goes_is_no_place_for_its_own_pods() {
    let mut world = world([group("one")]);
    add_node(&mut world, "one", "idle");
    add_running(&mut world, "p", &shape(500), "idle");
    let plan = shrink(&world);
    assert!(matches!(reasons(&plan, "idle"), [Reason::NoPlace { tried: 0, .. }]));
}

#[test]
fn defect_18_one_reading_is_no_window() {
    let mut world = two();
    let mut once = Window::new(600);
    once.push(now(), Load { cpu: 0, memory: 0 });
    node(&mut world).load = once;
    let plan = shrink(&world);
    assert_eq!(reasons(&plan, "idle"), [Reason::WatchedTooShort { until: later(600) }]);
}

#[test]
fn defect_23_the_cooldown_counts_from_when_the_group_grew() {
    let mut world = two();
    (one(&mut world).last_up, one(&mut world).last_down) = (Some(ago(500)), Some(ago(5000)));
    let plan = shrink(&world);
    assert_eq!(reasons(&plan, "idle"), [Reason::GrewRecently { until: later(100) }]);
    // That it shrank as long ago holds nothing up: other settings are for that.
    (one(&mut world).last_up, one(&mut world).last_down) = (Some(ago(5000)), Some(ago(500)));
    assert_eq!(gone(&shrink(&world)), ["idle"]);
}

#[test]
fn several_at_once_share_a_budget() {
    let mut world = world([group("one")]);
    for name in ["a", "b", "c", "keep"] {
        add_node(&mut world, "one", name);
        if name != "keep" {
            add_running(&mut world, &format!("p-{name}"), &shape(500), name);
        }
    }
    world.node_mut("keep").unwrap().keep.forbidden_by = Some("x".into());
    assert_eq!(gone(&shrink(&world)), ["a", "b", "c"]);
    add_budget(&mut world, "budget", 2);
    assert_eq!(gone(&shrink(&world)), ["a", "b"]);
    world.settings.max_shrinking = 1;
    assert_eq!(gone(&shrink(&world)), ["a"]);
}

#[test]
fn pods_that_wait_are_reckoned_with() {
    let mut world = two();
    add_waiting(&mut world, "w", 1, &shape(3600));
    // It fits on the node in use alone, and then the idle one's pod does not.
    assert!(gone(&shrink(&world)).is_empty());
}

#[test]
fn a_group_that_is_too_large_gives_up_nodes_in_use() {
    let mut world = two();
    world.node_mut("idle").unwrap().load = load(70);
    assert!(gone(&shrink(&world)).is_empty());
    one(&mut world).max = 1;
    let plan = shrink(&world);
    assert_eq!(plan.removals.len(), 1);
    assert!(plan.removals[0].forced);
}

#[test]
fn the_place_with_most_loses_first() {
    let mut group = group("one");
    group.places = vec![place("a"), place("b")];
    group.regions = Some(Regions { strategy: RegionStrategy::Balanced, min_each: 1 });
    let mut world = world([group]);
    world.settings.max_shrinking = 1;
    for (name, zone) in [("n1", "b"), ("n2", "a"), ("n3", "a")] {
        add_node(&mut world, "one", name);
        world.node_mut(name).unwrap().place = Some(zone.into());
    }
    assert_eq!(gone(&shrink(&world)), ["n2"]);
}

#[test]
fn requests_as_readings() {
    let world = two();
    let loads = requested_loads(&world);
    assert_eq!(loads["idle"], Load { cpu: 125, memory: 0 });
    assert_eq!(loads["busy"], Load { cpu: 0, memory: 0 });
}

fn costly(strategy: CostStrategy) -> World {
    let mut group = group("one");
    group.sizes = vec![size("large", 16, 400_000), size("medium", 4, 100_000)];
    group.down.enabled = false;
    group.cost = Some(CostPolicy {
        strategy,
        interval: 86_400,
        min_savings: 10_000_000,
        max_impact: 5,
        approval: false,
    });
    let mut world = world([group]);
    world.settings.rebalancing = true;
    add_node(&mut world, "one", "n1");
    add_running(&mut world, "p", &shape(3000), "n1");
    world
}

#[test]
fn a_smaller_size_is_proposed() {
    let proposals = |world: &World| decide(world, None, now()).proposals;
    let world = costly(CostStrategy::Auto);
    let [proposal] = &proposals(&world)[..] else { panic!() };
    assert_eq!(
        (proposal.nodes.as_slice(), proposal.size.as_str()),
        (&["n1".to_owned()][..], "medium")
    );
    assert_eq!((proposal.saves.0, proposal.impact, proposal.standing), (300_000, 0, Standing::Go));
    assert!(proposals(&costly(CostStrategy::Conservative)).is_empty(), "75 % of the smaller one");
    let manual = proposals(&costly(CostStrategy::Manual));
    assert_eq!(manual[0].standing, Standing::NeedsApproval);
    type Change = fn(&mut World);
    let changes: [(Change, Option<Standing>); 5] = [
        (|w| one(w).cost.as_mut().unwrap().approval = true, Some(Standing::NeedsApproval)),
        (|w| w.settings.rebalancing = false, Some(Standing::RebalancingDisabled)),
        (
            |w| one(w).facts.last_optimised = Some(ago(86_390)),
            Some(Standing::Rests { until: later(10) }),
        ),
        (|w| one(w).cost.as_mut().unwrap().min_savings = 220_000_000, None),
        (|w| w.node_mut("n1").unwrap().keep.forbidden_by = Some("x".into()), None),
    ];
    for (change, expected) in changes {
        let mut world = costly(CostStrategy::Auto);
        change(&mut world);
        assert_eq!(proposals(&world).first().map(|it| it.standing), expected);
    }
}

#[test]
fn what_is_measured_is_a_share_of_the_whole_machine() {
    // A fifth of what pods may have is 3.2 CPUs, and of the whole machine 4: too much for 4 CPUs.
    let mut world = costly(CostStrategy::Auto);
    let node = world.node_mut("n1").unwrap();
    (node.load, node.capacity.cpu) = (load(20), 20_000);
    assert_eq!(decide(&world, None, now()).proposals.len(), 1);
    world.node_mut("n1").unwrap().measured = true;
    assert!(decide(&world, None, now()).proposals.is_empty());
    // Without the idle one the other would be 70 % busy; if that is measured, with twice the machine, 80 %.
    let mut world = two();
    one(&mut world).up.cpu = 75;
    assert_eq!(gone(&shrink(&world)), ["idle"]);
    for name in ["idle", "busy"] {
        world.node_mut(name).unwrap().measured = true;
    }
    world.node_mut("idle").unwrap().capacity.cpu *= 2;
    let reasons = vec![Reason::TooBusyAfter { share: 80, limit: 75 }];
    assert_eq!(shrink(&world).verdicts["idle"], Verdict::Keep(reasons));
}
