//! How groups grow.

use sutler_scale::grow::{Cause, GroupDefaults, GrowPlan, Offers, WhyNot, spot_split};
use sutler_scale::world::{
    Effect, Key, Load, PodPlace, Price, RegionStrategy, Regions, Resources, SpotPolicy, Taint,
    Toleration, Upcoming, Window, World,
};
use sutler_scale::{decide, filters::Refusal};

use crate::build::*;

fn grow(world: &World) -> GrowPlan {
    decide(world, None, now()).grow
}

fn sizes(plan: &GrowPlan) -> Vec<(&str, usize)> {
    plan.growths.iter().map(|it| (it.group.name.as_str(), it.nodes.len())).collect()
}

fn why<'p>(plan: &'p GrowPlan, group: &str) -> &'p WhyNot {
    let groups = &plan.unhelped[0].groups;
    &groups.iter().find(|(key, _)| key.name == group).unwrap().1
}

#[test]
fn defect_13_several_nodes_at_once_and_each_pod_in_one_group() {
    let mut world = world([group("one"), group("two")]);
    add_waiting(&mut world, "p", 9, &shape(1000));
    let plan = grow(&world);
    assert_eq!(sizes(&plan), [("one", 3)]);
    assert_eq!(plan.growths[0].desired, 3);
    assert!(plan.unhelped.is_empty());
}

#[test]
fn what_fits_needs_nothing() {
    let mut world = world([group("one")]);
    add_node(&mut world, "one", "n1");
    add_waiting(&mut world, "p", 4, &shape(1000));
    assert!(grow(&world).is_empty());
    add_waiting(&mut world, "q", 4, &shape(1000));
    assert_eq!(sizes(&grow(&world)), [("one", 1)]);
    // One that was asked for is as good as one that is there.
    let one = world.groups.get_mut(&Key::new("default", "one")).unwrap();
    one.facts.upcoming.push(Upcoming {
        size: "medium".into(),
        place: "a".into(),
        ..Upcoming::default()
    });
    (one.current, one.desired) = (2, 2);
    assert!(grow(&world).is_empty());
}

#[test]
fn a_young_node_that_is_not_ready_counts_and_an_old_one_does_not() {
    let mut world = world([group("one")]);
    add_node(&mut world, "one", "n1");
    let node = world.node_mut("n1").unwrap();
    (node.ready, node.created) = (false, ago(60));
    node.taints = [Taint::new("node.kubernetes.io/not-ready", "", Effect::NoSchedule)].into();
    add_waiting(&mut world, "p", 1, &shape(1000));
    assert!(grow(&world).is_empty());
    world.node_mut("n1").unwrap().created = ago(601);
    assert_eq!(sizes(&grow(&world)), [("one", 1)]);
}

#[test]
fn defect_13_a_pod_that_fits_no_group_grows_none_and_says_why() {
    let mut tainted = group("tainted");
    tainted.taints.push(Taint::new("k", "v", Effect::NoSchedule));
    let mut world = world([group("small"), tainted]);
    add_waiting(&mut world, "p", 1, &shape(5000));
    let plan = grow(&world);
    assert!(plan.is_empty());
    assert!(matches!(why(&plan, "small"), WhyNot::Refused(Refusal::Lacks(_))));
    assert!(matches!(why(&plan, "tainted"), WhyNot::Refused(Refusal::Taint(_))));
    assert_eq!(plan.retry_at(), None);
}

#[test]
fn defect_13_what_a_cooldown_held_back_is_done_when_it_is_over() {
    let mut world = world([group("one")]);
    add_waiting(&mut world, "p", 1, &shape(1000));
    one(&mut world).last_up = Some(ago(10));
    let held = grow(&world);
    assert!(held.is_empty());
    // Nothing has to happen but that time passes.
    let over = held.retry_at().unwrap();
    assert_eq!(over, later(50));
    assert_eq!(sizes(&decide(&world, None, over).grow), [("one", 1)]);
}

#[test]
fn defect_10_a_failed_node_is_no_room_and_holds_up_no_growth() {
    let mut world = world([group("one")]);
    let one = one(&mut world);
    (one.max, one.desired, one.current, one.failed) = (2, 1, 2, 1);
    let coming = Upcoming { size: "medium".into(), place: "a".into(), ..Upcoming::default() };
    one.facts.upcoming.push(coming);
    // The one that was made in its place takes four of these.
    add_waiting(&mut world, "p", 4, &shape(1000));
    assert!(grow(&world).is_empty());
    // The failed one takes none of the others, and not the last place in the group either.
    add_waiting(&mut world, "q", 1, &shape(1000));
    let plan = grow(&world);
    assert_eq!((sizes(&plan), plan.growths[0].desired), (vec![("one", 1)], 2));
}

#[test]
fn daemons_take_their_share_of_new_nodes() {
    let mut world = world([group("one")]);
    add_waiting(&mut world, "p", 4, &shape(1000));
    assert_eq!(sizes(&grow(&world)), [("one", 1)]);
    let mut daemon = shape(100);
    daemon.tolerations.push(Toleration::everything());
    world.daemons.insert(Key::new("kube-system", "logs"), daemon.into());
    assert_eq!(sizes(&grow(&world)), [("one", 2)]);
}

#[test]
fn the_cheapest_by_what_is_helped() {
    let mut dear = group("a-dear");
    dear.sizes[0].price = Some(Price(300_000));
    let mut large = group("b-large");
    large.sizes = vec![size("large", 16, 350_000)];
    let mut world = world([dear, large, group("c-plain")]);
    add_waiting(&mut world, "p", 2, &shape(1000));
    assert_eq!(sizes(&grow(&world)), [("c-plain", 1)], "a large one would stand empty");
    add_waiting(&mut world, "q", 14, &shape(1000));
    assert_eq!(sizes(&grow(&world)), [("b-large", 1)]);
}

#[test]
fn limits_and_when_it_is_tried_again() {
    let base = || {
        let mut world = world([group("one")]);
        add_waiting(&mut world, "p", 1, &shape(1000));
        world
    };
    type Change = Box<dyn Fn(&mut World)>;
    let cases: Vec<(Change, WhyNot)> = vec![
        (Box::new(|w| one(w).paused = true), WhyNot::Paused),
        (Box::new(|w| one(w).up.enabled = false), WhyNot::Disabled),
        (Box::new(|w| one(w).stopped = true), WhyNot::Stopped),
        (Box::new(|w| one(w).max = 0), WhyNot::AtMaximum { max: 0 }),
        (Box::new(|w| w.settings.max_workers = Some(0)), WhyNot::ClusterFull { max: 0 }),
        (Box::new(|w| one(w).last_up = Some(ago(10))), WhyNot::Cooldown { until: later(50) }),
        (
            Box::new(|w| one(w).facts.backoff_until = Some(later(7))),
            WhyNot::Backoff { until: later(7) },
        ),
        (Box::new(|w| one(w).up.window = 310), WhyNot::Window { until: later(10) }),
        (
            Box::new(|w| one(w).sizes[0].exhausted_until = Some(later(9))),
            WhyNot::Exhausted { until: later(9) },
        ),
        (
            Box::new(|w| one(w).places[0].exhausted_until = Some(later(9))),
            WhyNot::Exhausted { until: later(9) },
        ),
    ];
    assert_eq!(sizes(&grow(&base())), [("one", 1)]);
    for (change, expected) in cases {
        let mut world = base();
        change(&mut world);
        let plan = grow(&world);
        assert!(plan.is_empty(), "{expected}");
        assert_eq!(*why(&plan, "one"), expected);
        assert_eq!(plan.retry_at(), expected.retry_at());
    }
}

fn one(world: &mut World) -> &mut sutler_scale::world::Group {
    world.groups.get_mut(&Key::new("default", "one")).unwrap()
}

#[test]
fn young_pods_wait() {
    let mut world = world([group("one")]);
    let place = PodPlace::Unschedulable { since: ago(10) };
    world.set_pod(pod("p", shape(1000), place));
    let plan = grow(&world);
    assert!(plan.is_empty());
    assert_eq!(plan.unhelped[0].why, Some(WhyNot::Grace { until: later(20) }));
    assert_eq!(plan.retry_at(), Some(later(20)));
}

#[test]
fn only_so_many_groups_grow_at_a_time() {
    let mut two = group("two");
    two.labels = labels(&[("pool", "two")]);
    let mut world = world([group("one"), two]);
    world.settings.max_growing = 1;
    add_waiting(&mut world, "p", 8, &shape(1000));
    let mut picky = shape(1000);
    picky.node_selector = labels(&[("pool", "two")]);
    one(&mut world).max = 1;
    add_waiting(&mut world, "q", 1, &picky);
    let plan = grow(&world);
    assert_eq!(plan.growths.len(), 1);
    let others = plan.unhelped.iter().flat_map(|it| &it.groups);
    assert!(others.map(|(_, why)| why).any(|why| *why == WhyNot::TooManyGrowing { max: 1 }));
}

#[test]
fn the_minimum_is_kept_whatever_is_set() {
    let mut group = group("one");
    (group.min, group.up.enabled, group.last_up) = (2, false, Some(ago(1)));
    let mut world = world([group]);
    world.settings.max_growing = 1;
    let plan = grow(&world);
    assert_eq!(sizes(&plan), [("one", 2)]);
    assert!(plan.growths[0].nodes.iter().all(|node| node.cause == Cause::Minimum));
    one(&mut world).stopped = true;
    let plan = grow(&world);
    assert_eq!((plan.is_empty(), &plan.held[0].why), (true, &WhyNot::Stopped));
}

#[test]
fn a_busy_group_gets_one_node_more() {
    let mut world = world([group("one")]);
    add_node(&mut world, "one", "n1");
    let mut busy = Window::new(60);
    for second in [120, 90, 60, 30, 0] {
        busy.push(ago(second), Load { cpu: 100, memory: 810 });
    }
    one(&mut world).facts.load = busy;
    let plan = grow(&world);
    assert_eq!(plan.growths[0].nodes.len(), 1);
    assert_eq!(plan.growths[0].nodes[0].cause, Cause::Headroom);
    one(&mut world).up.memory = 82;
    assert!(grow(&world).is_empty());
}

#[test]
fn places_in_turn() {
    let spread = |strategy: RegionStrategy, pods: usize| {
        let mut group = group("one");
        group.places = vec![place("a"), place("b")];
        group.regions = Some(Regions { strategy, min_each: 0 });
        let mut world = world([group]);
        add_waiting(&mut world, "p", pods, &shape(4000));
        let plan = grow(&world);
        let places = plan.growths[0].nodes.iter().map(|node| node.node.place.clone());
        places.collect::<Vec<_>>().join("")
    };
    assert_eq!(spread(RegionStrategy::Balanced, 4), "abab");
    let weights = [("a".to_owned(), 1), ("b".to_owned(), 3)].into();
    assert_eq!(spread(RegionStrategy::Weighted(weights), 4), "bbab");
    assert_eq!(spread(RegionStrategy::PrimaryBackup("b".into()), 3), "bbb");
    // Each place has its minimum, and a place without room is passed over.
    let mut group = group("one");
    group.places = vec![place("a"), place("b")];
    group.regions =
        Some(Regions { strategy: RegionStrategy::PrimaryBackup("b".into()), min_each: 1 });
    let plan = grow(&world([group.clone()]));
    assert_eq!(plan.growths[0].nodes.len(), 2);
    assert!(plan.growths[0].nodes.iter().all(|node| node.cause == Cause::PlaceMinimum));
    group.places[1].exhausted_until = Some(later(60));
    group.regions =
        Some(Regions { strategy: RegionStrategy::PrimaryBackup("b".into()), min_each: 0 });
    let mut world = world([group]);
    add_waiting(&mut world, "p", 1, &shape(1000));
    assert_eq!(grow(&world).growths[0].nodes[0].node.place, "a");
}

#[test]
fn pods_that_ask_for_a_place_get_it() {
    let mut group = group("one");
    group.places = vec![place("a"), place("b")];
    let mut world = world([group]);
    let mut picky = shape(1000);
    picky.node_selector = labels(&[("topology.kubernetes.io/zone", "b")]);
    add_waiting(&mut world, "p", 1, &picky);
    assert_eq!(grow(&world).growths[0].nodes[0].node.place, "b");
}

#[test]
fn sizes_of_a_group() {
    let mut group = group("one");
    group.sizes = vec![size("medium", 4, 100_000), size("large", 16, 380_000)];
    group.preferred_size = Some("medium".into());
    let mut with_pods = world([group.clone()]);
    add_waiting(&mut with_pods, "p", 16, &shape(1000));
    assert_eq!(sizes(&grow(&with_pods)), [("one", 4)], "the preferred one, though dearer");
    add_waiting(&mut with_pods, "q", 1, &shape(9000));
    let plan = grow(&with_pods);
    let large = plan.growths[0].nodes.iter().filter(|node| node.node.size == "large");
    assert_eq!(large.count(), 1, "another one only for what does not fit");
    group.mixed = false;
    let mut uniform = world([group]);
    add_waiting(&mut uniform, "q", 1, &shape(9000));
    assert!(grow(&uniform).is_empty(), "nodes must not differ, and the preferred is too small");
}

#[test]
fn spot_shares() {
    let mut group = group("one");
    group.sizes[0].spot_price = Some(Price(30_000));
    let policy = SpotPolicy { max_share: 50, fallback: false, grace: 120, max_interruptions: 20 };
    group.spot = Some(policy);
    let size = group.sizes[0].clone();
    assert_eq!(spot_split(&group, &size, 0, 0, 4, now()), 2);
    assert_eq!(spot_split(&group, &size, 4, 0, 4, now()), 4);
    assert_eq!(spot_split(&group, &size, 4, 4, 1, now()), 0);
    let mut with_pods = world([group.clone()]);
    add_waiting(&mut with_pods, "p", 4, &shape(4000));
    let spot = |plan: &GrowPlan| plan.growths[0].nodes.iter().filter(|it| it.node.spot).count();
    assert_eq!(spot(&grow(&with_pods)), 2);
    // Too many were taken back: none, and without a fallback no more than the ordinary share.
    one(&mut with_pods).facts.interruptions = 21;
    let plan = grow(&with_pods);
    assert_eq!((plan.growths[0].nodes.len(), spot(&plan)), (1, 0));
    assert_eq!(*why(&plan, "one"), WhyNot::NoSpot { until: None });
    one(&mut with_pods).spot.as_mut().unwrap().fallback = true;
    let plan = grow(&with_pods);
    assert_eq!((plan.growths[0].nodes.len(), spot(&plan)), (4, 0));
}

fn offers() -> Offers {
    let model = group("model");
    Offers {
        sizes: vec![size("medium", 4, 100_000), size("large", 16, 380_000)],
        places: vec![place("a")],
        defaults: GroupDefaults {
            namespace: "kube-nodes".into(),
            min: 0,
            max: 5,
            place: None,
            sizes: Vec::new(),
            labels: labels(&[("made", "auto")]),
            taints: Vec::new(),
            up: model.up,
            down: model.down,
            spot: None,
            cost: None,
        },
    }
}

#[test]
fn one_new_group_for_all_who_ask_for_the_same() {
    let mut world = world([group("one")]);
    let mut picky = shape(1000);
    picky.node_selector = labels(&[("pool", "gold"), ("kubernetes.io/os", "linux")]);
    picky.tolerations.push(Toleration {
        key: "pool".into(),
        value: Some("gold".into()),
        effect: None,
    });
    picky.tolerations.push(Toleration { key: "else".into(), value: None, effect: None });
    add_waiting(&mut world, "p", 3, &picky);
    picky.requests = Resources::new(2000, 0);
    add_waiting(&mut world, "q", 2, &picky);
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert!(plan.growths.is_empty() && plan.unhelped.is_empty());
    let [made] = plan.new_groups.as_slice() else { panic!("{:?}", plan.new_groups) };
    assert_eq!(made.labels, labels(&[("made", "auto"), ("pool", "gold")]));
    assert_eq!(made.taints, [Taint::new("pool", "gold", Effect::NoSchedule)], "not of `else`");
    assert_eq!((made.size.as_str(), made.nodes.len()), ("medium", 2));
    assert_eq!(made.key.namespace, "kube-nodes");
    // Without leave, none is made, and the pods say so.
    world.settings.dynamic_groups = false;
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert!(plan.is_empty());
    assert_eq!(plan.unhelped[0].why, Some(WhyNot::DynamicDisabled));
}

#[test]
fn no_new_group_for_what_a_group_could_hold() {
    let mut full = group("one");
    full.max = 0;
    let mut world = world([full]);
    add_waiting(&mut world, "p", 1, &shape(1000));
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert!(plan.is_empty(), "the group is full, and that is a limit that somebody set");
    world.settings.max_workers = Some(0);
    let mut large = shape(9000);
    large.labels = labels(&[("app", "large")]);
    add_waiting(&mut world, "q", 1, &large);
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert!(plan.is_empty());
    let held = plan.unhelped.iter().filter_map(|it| it.why.as_ref()).collect::<Vec<_>>();
    assert_eq!(held, [&WhyNot::ClusterFull { max: 0 }]);
}

#[test]
fn defect_14_defaults_of_new_groups_change_none_that_is_there() {
    let mut world = world([group("one")]);
    add_waiting(&mut world, "p", 28, &shape(1000));
    // By the defaults it would be full with five nodes.
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert_eq!((sizes(&plan), plan.new_groups.len()), (vec![("one", 7)], 0));
}

#[test]
fn defect_14_pods_that_ask_for_no_labels_fit_a_group_that_has_some() {
    let mut made = group("made");
    made.labels = offers().defaults.labels;
    let mut world = world([made]);
    add_waiting(&mut world, "p", 1, &shape(1000));
    let plan = decide(&world, Some(&offers()), now()).grow;
    assert_eq!((sizes(&plan), plan.new_groups.len()), (vec![("made", 1)], 0));
}
