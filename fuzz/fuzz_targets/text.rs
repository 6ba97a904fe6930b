//! The small languages: selectors, quantities, times, names and paths into objects. What has a
//! canonical form keeps its meaning in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use sutler_schema::{
    meta::NameKind,
    names,
    quantity::Quantity,
    selector::{FieldSelector, LabelSelector},
    text, time,
};
use sutler_store::{
    jsonpath::JsonPath,
    request::{Query, RequestInfo},
};

fuzz_target!(|input: &str| {
    let labels = json!({"a": "b", "x/y": "", "n": "5"});
    let labels = labels.as_object().expect("it is an object");
    if let Ok(selector) = LabelSelector::parse(input) {
        let printed = selector.to_string();
        let again = LabelSelector::parse(&printed).expect("the canonical form can be read");
        assert_eq!(again.to_string(), printed);
        assert_eq!(selector.matches(labels), again.matches(labels), "{input:?} -> {printed:?}");
    }
    if let Ok(selector) = FieldSelector::parse(input) {
        let printed = selector.to_string();
        // Terms are sorted as they were written, so that only their number is sure to stay.
        let again = FieldSelector::parse(&printed).expect("the canonical form can be read");
        assert_eq!(again.to_string().len(), printed.len());
    }
    if let Ok(quantity) = Quantity::parse(input) {
        let printed = quantity.to_string();
        let again = Quantity::parse(&printed).expect("the canonical form can be read");
        assert_eq!(again.to_string(), printed);
        assert_eq!(again.signum(), quantity.signum(), "{input:?} -> {printed:?}");
        // Beyond 64 bits the API loses powers of a thousand when it prints, and so do we.
        if quantity.value().is_some() {
            assert_eq!(again.value(), quantity.value(), "{input:?} -> {printed:?}");
        }
        let _ = (quantity.milli_value(), quantity.as_f64(), quantity.as_integer());
        let _ = (quantity.checked_add(&again), quantity.checked_sub(&again));
    }
    if let Ok(moment) = time::parse_rfc3339(input) {
        let _ = time::format_seconds(&moment);
    }
    let _ = (time::parse_duration(input), time::parse_go_duration(input));
    if let Ok(path) = JsonPath::parse(input) {
        let _ = path.fields();
        path.find(&json!({"a": [{"b": {"c": 1}}, 2], "metadata": {"annotations": {"x/y": "z"}}}));
    }
    for kind in [NameKind::Subdomain, NameKind::Label, NameKind::Label1035, NameKind::PathSegment] {
        let _ = (kind.check(input, false), kind.check(input, true));
    }
    let _ = (names::is_qualified_name(input), names::is_config_map_key(input));
    let _ = (names::is_http_header_name(input), names::is_percent(input));
    let _ = text::go_quote(input);
    let (path, query) = input.split_once('?').unwrap_or((input, ""));
    let query = Query::parse(Some(query));
    for method in [http::Method::GET, http::Method::POST, http::Method::DELETE] {
        RequestInfo::parse(&method, path, &query);
    }
});
