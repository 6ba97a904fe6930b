//! JSON bodies: what is accepted reads the same when it is written and read again, strict or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sutler_schema::decode;

fuzz_target!(|data: &[u8]| {
    let pod = sutler_builtin::lookup("", "v1", "Pod").expect("there are pods").node();
    let known = decode::json_known(data, &pod);
    let Ok(decoded) = decode::json(data) else {
        assert!(known.is_err(), "a schema made it readable");
        return;
    };
    assert_eq!(known.expect("a schema only adds findings").value, decoded.value);
    assert_eq!(decoded.duplicates.len(), decoded.strict_errors.len());
    let again = decode::json(decoded.value.to_string().as_bytes()).expect("it is JSON");
    assert_eq!(again.value, decoded.value);
    assert_eq!(again.duplicates, Vec::<String>::new());
    // What is stored is read by serde_json.
    let stored: serde_json::Value =
        serde_json::from_str(&decoded.value.to_string()).expect("it can be read back");
    assert_eq!(stored, decoded.value);
});
