use std::sync::Arc;

use serde_json::json;

use super::*;

fn run(rule: &str, schema: Value, value: &Value) -> Result<bool, String> {
    let node = visible(&Arc::new(Node::parse(&schema).unwrap()), false);
    let text = RuleText { rule: rule.into(), ..RuleText::default() };
    let rule = Rule::compile(&text, &node).unwrap();
    rule.holds(&node, value, None).unwrap().result.map_err(|error| error.to_string())
}

#[test]
fn logic_absorbs_errors() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let cases = [
        ("self.b > 0 || true", Ok(true)),
        ("true || self.b > 0", Ok(true)),
        ("self.b > 0 && false", Ok(false)),
        ("self.b > 0 && true", Err("no such key: b")),
        ("[1, 2].all(x, x > 0 || self.b > 0)", Ok(true)),
        ("[0, 1].exists(x, x == 1 || self.b > 0)", Ok(true)),
        ("[0, 1].exists(x, self.b > 0 && x == 5)", Ok(false)),
        ("[0, 5].all(x, self.b > x)", Err("no such key: b")),
        ("has(self.a) && !has(self.b)", Ok(true)),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]", Ok(true)),
        ("[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]", Ok(true)),
        ("{'a': 1}.exists(k, k == 'a')", Ok(true)),
        ("[1, 2].exists_one(x, x == 1)", Ok(true)),
        ("self.a == 5 ? self.a < 6 : self.b", Ok(true)),
        ("dyn(1) == dyn(1.0) && 1u == dyn(1)", Ok(true)),
        ("type(self.a) == int && type(1.0) == double", Ok(true)),
        ("type(timestamp('2026-01-01T00:00:00Z')) == google.protobuf.Timestamp", Ok(true)),
        ("{'a': [1, {'b': 2}]}['a'][1]['b'] == 2", Ok(true)),
        ("[1, 2] + [3] == [1, 2, 3]", Ok(true)),
        ("'a' + 1 == 'a1'", Err("no such overload")),
    ];
    for (rule, wanted) in cases {
        let outcome = run(rule, schema.clone(), &json!({"a": 5}));
        assert_eq!(outcome, wanted.map_err(str::to_owned), "{rule}");
    }
}

#[test]
fn comprehensions_shadow_and_restore() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let cases = [
        "self.all(self, self < 5)",
        "self.map(x, self.size()) == [2, 2]",
        "self.exists(x, self.exists(y, x != y))",
        "self.map(i, self.map(j, i * j)) == [[1, 2], [2, 4]]",
        "self.transformMap(i, v, v)[1] == 2",
        "self.transformMapEntry(i, v, {string(i): v})['0'] == 1",
        "self.exists(i, v, i == 1 && v == 2) && self.existsOne(i, v, v == 2)",
    ];
    for rule in cases {
        assert_eq!(run(rule, schema.clone(), &json!([1, 2])), Ok(true), "{rule}");
    }
}

#[test]
fn cost_is_bounded() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let big: Value = (0..3000).collect();
    let started = std::time::Instant::now();
    let rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    assert_eq!(run(rule, schema.clone(), &big), Err(COST_EXCEEDED.into()));
    // Neither `||` nor a comprehension swallows it.
    let rule = format!("({rule}) || true");
    assert_eq!(run(&rule, schema.clone(), &big), Err(COST_EXCEEDED.into()));
    let rule = "self.map(a, self.map(b, self.map(c, 'xxxxxxxx'))).size() > 0";
    assert_eq!(run(rule, schema.clone(), &big), Err(COST_EXCEEDED.into()));
    for rule in ["self.distinct().size() > 0", "sets.contains(self, self)"] {
        assert_eq!(run(rule, schema.clone(), &big), Err(COST_EXCEEDED.into()), "{rule}");
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn lists_compare_by_their_type() {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let list = |ty: &str| {
        json!({"type": "object", "properties": {
            "a": {"type": "array", "items": item, "x-kubernetes-list-type": ty, "x-kubernetes-list-map-keys": ["k"]},
            "b": {"type": "array", "items": item, "x-kubernetes-list-type": ty, "x-kubernetes-list-map-keys": ["k"]},
        }})
    };
    let value = json!({
        "a": [{"k": "x", "v": 1}, {"k": "y", "v": 2}],
        "b": [{"k": "y", "v": 2}, {"k": "x", "v": 1}],
    });
    assert_eq!(run("self.a == self.b", list("map"), &value), Ok(true));
    assert_eq!(run("self.a == self.b", list("atomic"), &value), Ok(false));
    let rule = "(self.a + [{'k': 'x', 'v': 9}]).size() == 2";
    assert_eq!(run(rule, list("map"), &value), Ok(true));
    let set =
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    assert_eq!(run("self == ['b', 'a']", set.clone(), &json!(["a", "b"])), Ok(true));
    assert_eq!(run("(self + ['a', 'c']).size() == 3", set, &json!(["a", "b"])), Ok(true));
}

#[test]
fn field_paths() {
    let node = Arc::new(
        Node::parse(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap(),
    );
    let cases = [
        (".a", Some("a")),
        (".a['b.c']", Some("a.b.c")),
        (".m.key", Some("m[key]")),
        (".m['k\\'x']", Some("m[k'x]")),
        (".zz", None),
        ("a", None),
        (".a[0]", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(field_path(text, &node).as_deref(), wanted, "{text}");
    }
}

#[test]
fn bad_expressions_are_refused() {
    for rule in ["self.", "1 +", "self.all(x)", "has(1)", "'"] {
        let text = RuleText { rule: rule.into(), ..RuleText::default() };
        let outcome = Rule::compile(&text, &Arc::default());
        let fine = matches!(rule, "self.all(x)");
        assert_eq!(outcome.is_err(), !fine, "{rule}");
    }
}
