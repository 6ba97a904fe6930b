use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fails(text: &str) -> String {
    json(text.as_bytes()).unwrap_err().0
}

#[test]
fn json_values() {
    let cases = [
        (
            r#"{"a":[1,-2,3.5,true,false,null,"x"]}"#,
            json!({"a": [1, -2, 3.5, true, false, null, "x"]}),
        ),
        ("\t1.0\r\n", json!(1.0)),
        ("1e2", json!(100.0)),
        ("-0", json!(0)),
        ("9223372036854775807", json!(i64::MAX)),
        ("9223372036854775808", json!(9223372036854775808.0)),
        (r#""\u00e9\n\/\ud83d\ude00""#, json!("é\n/😀")),
        (r#""\ud800x""#, json!("\u{fffd}x")),
        (r#""\ud800\u0041""#, json!("\u{fffd}A")),
        ("{}", json!({})),
        (" [ ] ", json!([])),
    ];
    for (text, value) in cases {
        assert_eq!(super::json(text.as_bytes()).unwrap().value, value, "{text}");
    }
    assert_eq!(super::json(b"\"a\xffb\"").unwrap().value, json!("a\u{fffd}b"));
}

#[test]
fn json_errors() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        (r#"{"a""#, "unexpected end of JSON input"),
        (r#"{"a" 1"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b""#, "invalid character '\"' after object key:value pair"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("1 x", "invalid character 'x' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u00g0""#, "invalid character 'g' in \\u hexadecimal character escape"),
        ("'a'", r"invalid character '\'' looking for beginning of value"),
        ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ("[1e999", "unexpected end of JSON input"),
    ];
    for (text, message) in cases {
        assert_eq!(fails(text), message, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["[", "{\"a\":"] {
        assert!(fails(&open.repeat(100_000)).contains("exceeded max depth"));
    }
    assert!(yaml("[".repeat(100_000).as_bytes()).is_err());
    let deep = format!("{}{}", "- ".repeat(MAX_DEPTH + 1), "x");
    assert!(yaml(deep.as_bytes()).is_err());
    let fine = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert!(json(fine.as_bytes()).is_ok());
    assert!(stored(fine.as_bytes()).is_ok());
}

#[test]
fn duplicates() {
    let text = r#"{"a":{"b":1,"b":2,"b":3},"l":[{"x":1,"x":2}],"a":null}"#;
    let decoded = json(text.as_bytes()).unwrap();
    assert_eq!(decoded.duplicates, ["a.b", "l[0].x", "a"]);
    assert_eq!(decoded.value, json!({"a": null, "l": [{"x": 2}]}));
    assert_eq!(decoded.strict_errors[0], r#"duplicate field "a.b""#);
    let decoded = yaml(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
    assert_eq!(decoded.duplicates, ["b.c", "a"]);
    assert_eq!(decoded.value, json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(
        decoded.strict_errors,
        [concat!(
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n",
            "  line 5: key \"a\" already set in map"
        )]
    );
}

#[test]
fn unknown_fields_in_order() {
    let node = Node::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "integer"}, "l": {"type": "array",
            "items": {"type": "object", "properties": {"x": {"type": "integer"}}}}}},
        "data": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
    }}))
    .unwrap();
    let text = r#"{"zz":{"q":1,"q":2},"spec":{"b":1,"a":1,"a":2,"l":[{"y":1},{"x":1,"x":2}]},
        "data":{"k":"v","k":"w"},"any":{"free":1},"aa":1}"#;
    assert_eq!(
        json_known(text.as_bytes(), &node).unwrap().strict_errors,
        [
            r#"unknown field "zz""#,
            r#"unknown field "spec.b""#,
            r#"duplicate field "spec.a""#,
            r#"unknown field "spec.l[0].y""#,
            r#"duplicate field "spec.l[1].x""#,
            r#"duplicate field "data.k""#,
            r#"unknown field "aa""#,
        ]
    );
}

#[test]
fn yaml_values() {
    let cases = [
        (
            "a: on\nb: 'on'\nc: yes\nd: n\ne: ~\nf:\n",
            json!({"a": true, "b": "on", "c": true, "d": false, "e": null, "f": null}),
        ),
        (
            "- 010\n- 0x1F\n- 0b11\n- 0o17\n- 1_000\n- +5\n- -5\n",
            json!([8, 31, 3, 15, 1000, 5, -5]),
        ),
        (
            "- 1.5\n- 1e3\n- .5\n- 1.\n- 089\n- 1:30\n- 2026-01-02\n",
            json!([1.5, 1000, 0.5, 1, 89, "1:30", "2026-01-02"]),
        ),
        ("- 18446744073709551615\n", json!([18446744073709551615.0])),
        ("1: a\ntrue: b\n1.5: c\n", json!({"1": "a", "true": "b", "1.5": "c"})),
        (
            "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  b: 2\n  e: 3\n",
            json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 2, "e": 3}}),
        ),
        (
            "a: !!str 1\nb: !!int \"2\"\nc: |\n  x\n  y\nd: >\n  x\n  y\n",
            json!({"a": "1", "b": 2, "c": "x\ny\n", "d": "x y\n"}),
        ),
        ("# only a comment\n", json!(null)),
        ("", json!(null)),
        ("a: 1\n---\nb: 2\n", json!({"a": 1})),
        ("{\"a\": [1, \"x\"]}", json!({"a": [1, "x"]})),
        ("a: 5Gi\nb: 1.2.3.4\nc: 12e\n", json!({"a": "5Gi", "b": "1.2.3.4", "c": "12e"})),
    ];
    for (text, value) in cases {
        assert_eq!(yaml(text.as_bytes()).unwrap().value, value, "{text}");
    }
    for bad in ["a: [", "a: b: c", "a: .nan", "? [x]\n: y", "a: *x", "<<: 1"] {
        assert!(yaml(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(yaml(b"a: \xff").is_err());
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, before) in ('b'..='j').zip('a'..) {
        let copies = vec![format!("*{before}"); 10].join(",");
        text.push_str(&format!("{name}: &{name} [{copies}]\n"));
    }
    assert_eq!(yaml(text.as_bytes()).unwrap_err().0, "yaml: document contains excessive aliasing");
    let long = "x".repeat(1 << 20);
    let text = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 50].join(","));
    assert!(yaml(text.as_bytes()).is_err());
    assert!(yaml(b"a: &a [*a]").is_err());
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = json(&bytes);
        let _ = yaml(&bytes);
    }

    #[test]
    fn never_panics_on_near_json(text in r#"[\[\]{}:,"a-z0-9.eE+\\u \n-]{0,80}"#) {
        let ours = json(text.as_bytes());
        // Whatever the other reader takes, we take too, and both see the same structure.
        let theirs = serde_json::from_str::<Value>(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", text);
        let _ = yaml(text.as_bytes());
    }

    #[test]
    fn agrees_with_serde(value in crate::testing::value()) {
        let text = value.to_string();
        prop_assert_eq!(json(text.as_bytes()).unwrap().value, value.clone());
        prop_assert_eq!(yaml(text.as_bytes()).unwrap().value, value);
    }
}
