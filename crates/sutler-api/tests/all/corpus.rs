//! The corpus is complete, and says what it claims to say.

use std::{collections::BTreeSet, fs, path};

use serde_json::Value;
use sutler_api::corpus::{self, Rule};

#[test]
fn every_field_of_every_kind_is_set_somewhere() {
    let uncovered = corpus::uncovered();
    assert!(uncovered.is_empty(), "no manifest sets:\n{}", uncovered.join("\n"));
}

#[test]
fn every_file_is_listed() {
    let folder = path::absolute("tests/corpus/valid").unwrap();
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".yaml").unwrap().to_owned())
        .collect();
    let listed: BTreeSet<String> = corpus::valid().iter().map(|m| m.name.to_owned()).collect();
    assert_eq!(files, listed, "list new files in src/corpus/manifests.rs");
    for manifest in corpus::valid() {
        let kind = manifest.object["kind"].as_str().unwrap().to_lowercase();
        assert!(manifest.name.starts_with(&format!("{kind}-")), "{} is a {kind}", manifest.name);
    }
}

#[test]
fn names_of_cases_are_unique() {
    let mut seen = BTreeSet::new();
    for case in corpus::invalid() {
        assert!(!case.field.is_empty(), "{}", case.name);
        assert!(seen.insert(case.name.clone()), "{} comes twice", case.name);
    }
    assert!(seen.len() > 2000, "only {} cases", seen.len());
}

#[test]
fn every_keyword_of_the_schemas_is_known() {
    assert_eq!(corpus::unknown_keywords(), BTreeSet::new());
}

/// A rule at a place without a case would go untested on every server.
#[test]
fn every_cel_rule_is_broken_at_every_place() {
    let cases = corpus::invalid();
    let rules = corpus::cel_rules();
    assert!(rules.len() > 50);
    for (kind, path, message) in rules {
        assert!(!message.is_empty(), "{kind} {path}: a rule must say how it is kept");
        let prefix = format!("{}/{path}", kind.to_lowercase());
        assert!(
            cases.iter().any(|case| {
                case.name.starts_with(&prefix)
                    && matches!(&case.rule, Rule::Cel(broken) if *broken == message)
            }),
            "tests/corpus/rules.yaml has nothing for {kind} {path}: {message}"
        );
    }
}

#[test]
fn patterns_are_broken_indeed() {
    let mut patterns = BTreeSet::new();
    for crd in sutler_api::crds() {
        collect_patterns(&sutler_api::crd::to_value(&crd), &mut patterns);
    }
    assert!(patterns.len() > 20);
    let broken: BTreeSet<String> = corpus::invalid()
        .into_iter()
        .filter(|case| case.rule == Rule::Pattern)
        .map(|case| value_at(&case.object, &case.field).as_str().unwrap().to_owned())
        .collect();
    for pattern in patterns {
        let pattern = regex::Regex::new(&pattern).unwrap();
        assert!(broken.iter().all(|text| !pattern.is_match(text)), "{pattern}");
    }
}

fn collect_patterns(value: &Value, patterns: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(pattern)) = map.get("pattern") {
                patterns.insert(pattern.clone());
            }
            map.values().for_each(|inner| collect_patterns(inner, patterns));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_patterns(inner, patterns)),
        _ => {}
    }
}

fn value_at<'a>(object: &'a Value, field: &str) -> &'a Value {
    let path = field.replace('[', ".").replace(']', "");
    path.split('.').fold(object, |value, step| match step.parse::<usize>() {
        Ok(index) if value.is_array() => &value[index],
        _ => &value[step],
    })
}
