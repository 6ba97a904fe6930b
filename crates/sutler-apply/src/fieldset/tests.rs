use proptest::{collection, prelude::*, sample};
use serde_json::{Value, json};

use super::*;

fn set(text: &str) -> FieldSet {
    FieldSet::from_json(text).unwrap()
}

fn name(name: &str, value: Value) -> PathElement {
    PathElement::Key(vec![(name.into(), value)])
}

#[test]
fn the_form_of_each_element() {
    let mut set = FieldSet::new();
    let field = PathElement::field;
    set.insert(&[field("spec"), field("list"), name("name", json!("a<b"))]);
    set.insert(&[field("spec"), field("list"), name("name", json!("a<b")), field("name")]);
    set.insert(&[field("spec"), field("set"), PathElement::Value(json!("x"))]);
    set.insert(&[field("spec"), field("set"), PathElement::Value(json!(1.0))]);
    set.insert(&[field("spec"), field("arr"), PathElement::Index(3)]);
    assert_eq!(
        set.to_json(),
        r#"{"f:spec":{"f:arr":{"i:3":{}},"f:list":{"k:{\"name\":\"a\\u003cb\"}":{".":{},"f:name":{}}},"f:set":{"v:1":{},"v:\"x\"":{}}}}"#
    );
    assert_eq!(FieldSet::from_value(&set.to_value()).unwrap(), set);
}

#[test]
fn elements_are_ordered_by_kind_and_value() {
    let text = r#"{"f:b":{},"f:c":{},"k:{\"p\":80}":{},"k:{\"p\":443}":{},"v:2":{},"i:1":{}}"#;
    let parsed: Value = serde_json::from_str(text).unwrap();
    assert_eq!(FieldSet::from_value(&parsed).unwrap().to_json(), text);
}

#[test]
fn what_cannot_be_read() {
    for text in [r#"{"f":{}}"#, r#"{"spec":{}}"#, r#"{"v:":{}}"#, r#"{"i:x":{}}"#, r#"{"k:3":{}}"#]
    {
        assert!(FieldSet::from_json(text).is_err(), "{text}");
    }
    assert!(FieldSet::from_json(r#"{"f:a":5}"#).is_err());
    assert_eq!(set(r#"{"z:new":{"f:a":{}},"f:a":{}}"#).to_json(), r#"{"f:a":{}}"#);
    assert_eq!(set(r#"{"f:a":null}"#).to_json(), r#"{"f:a":{}}"#);
    assert!(set("null").is_empty());
}

#[test]
fn paths_are_printed_as_in_conflicts() {
    let path = [
        PathElement::field("spec"),
        PathElement::Key(vec![("port".into(), json!(80)), ("protocol".into(), json!("TCP"))]),
        PathElement::Value(json!("x")),
        PathElement::Index(2),
    ];
    assert_eq!(path_text(&path), r#".spec[port=80,protocol="TCP"][="x"][2]"#);
}

#[test]
fn a_member_and_what_is_below_it_are_two_things() {
    let both = set(r#"{"f:a":{".":{},"f:b":{}}}"#);
    let parent = set(r#"{"f:a":{}}"#);
    let child = set(r#"{"f:a":{"f:b":{}}}"#);
    assert_eq!(both.difference(&parent), child);
    assert_eq!(both.difference(&child), parent);
    assert!(both.recursive_difference(&parent).is_empty());
    assert_eq!(both.leaves(), child);
    assert_eq!(both.intersection(&parent), parent);
    assert_eq!(both.len(), 2);
    assert!(both.has(&[PathElement::field("a")]));
    assert!(!child.has(&[PathElement::field("a")]));
    assert!(child.below(&PathElement::field("a")).is_some());
}

fn elements() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        sample::select(vec!["a", "b", "c:d", ".", ""]).prop_map(PathElement::field),
        (0..3i64).prop_map(|n| name("name", json!(n))),
        sample::select(vec![json!("x"), json!(1), json!(true), json!("\"\\\n")])
            .prop_map(PathElement::Value),
        (0..3i64).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = FieldSet> {
    collection::vec(collection::vec(elements(), 1..4), 0..12).prop_map(|paths| {
        let mut set = FieldSet::new();
        for path in paths {
            set.insert(&path);
        }
        set
    })
}

proptest! {
    #[test]
    fn the_codec_loses_nothing(set in sets()) {
        prop_assert_eq!(&FieldSet::from_value(&set.to_value()).unwrap(), &set);
        prop_assert_eq!(&FieldSet::from_json(&set.to_json()).unwrap(), &set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in sets(), b in sets()) {
        let (paths_a, paths_b) = (a.paths(), b.paths());
        for path in paths_a.iter().chain(&paths_b) {
            let (in_a, in_b) = (paths_a.contains(path), paths_b.contains(path));
            prop_assert_eq!(a.union(&b).has(path), in_a || in_b);
            prop_assert_eq!(a.intersection(&b).has(path), in_a && in_b);
            prop_assert_eq!(a.difference(&b).has(path), in_a && !in_b);
            let covered = (1..=path.len()).any(|n| b.has(&path[..n]));
            prop_assert_eq!(a.recursive_difference(&b).has(path), in_a && !covered);
        }
        prop_assert_eq!(a.len(), paths_a.len());
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert!(a.difference(&a).is_empty());
    }

    #[test]
    fn in_place_is_the_same(a in sets(), b in sets()) {
        let mut plain = a.clone();
        plain.subtract(&b);
        prop_assert_eq!(plain, a.difference(&b));
        let mut deep = a.clone();
        deep.subtract_recursively(&b);
        prop_assert_eq!(deep, a.recursive_difference(&b));
        prop_assert_eq!(a.clone().join(b.clone()), a.union(&b));
    }
}
