//! YAML bodies: what is accepted is a JSON value that can be stored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sutler_schema::decode;

fuzz_target!(|data: &[u8]| {
    let Ok(decoded) = decode::yaml(data) else { return };
    let text = decoded.value.to_string();
    let again = decode::json(text.as_bytes()).expect("it is JSON, no deeper than JSON may be");
    assert_eq!(again.value, decoded.value);
    // JSON is YAML and means the same, but for keys and texts that YAML cannot have.
    if let Ok(same) = decode::yaml(text.as_bytes()) {
        assert_eq!(same.value, decoded.value);
    }
});
