//! `FieldsV1`: what is read is written so that it reads the same; the algebra of sets holds.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use sutler_apply::{fieldset::FieldSet, managed::Managed};

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let (left, right) = match std::str::from_utf8(data)
        .ok()
        .and_then(|t| FieldSet::from_json(t).ok())
    {
        Some(set) => (set.clone(), set),
        None => {
            let (Ok(left), Ok(right)) =
                (sutler_fuzz::value(&mut u, 5), sutler_fuzz::value(&mut u, 5))
            else {
                return;
            };
            if let Ok(managed) = Managed::decode(Some(&left)) {
                let written = managed.encode();
                let again = Managed::decode(written.as_ref()).expect("what was written is read");
                assert_eq!(again.encode(), written);
            }
            let (Ok(left), Ok(right)) = (FieldSet::from_value(&left), FieldSet::from_value(&right))
            else {
                return;
            };
            (left, right)
        }
    };
    let text = left.to_json();
    assert_eq!(FieldSet::from_json(&text).expect("what was written is read"), left, "{text}");
    assert_eq!(FieldSet::from_value(&left.to_value()).expect("likewise"), left);
    let (both, either) = (left.intersection(&right), left.union(&right));
    assert_eq!(both, right.intersection(&left));
    assert_eq!(either, right.union(&left));
    assert_eq!(left.difference(&right).union(&both), left);
    assert!(left.difference(&left).is_empty());
    assert!(left.recursive_difference(&left).is_empty());
    assert_eq!(either.len() + both.len(), left.len() + right.len());
    for path in left.paths() {
        assert!(left.has(&path) && either.has(&path));
    }
});
