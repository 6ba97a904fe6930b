//! Our own kinds: any value is shaped and judged without a panic, to shape it again changes
//! nothing, and what is good is good beside itself.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sutler_fuzz::{CUSTOM, Custom};
use sutler_schema::{
    defaults::apply_defaults,
    meta::{NameKind, validate_object_meta, validate_object_meta_update},
    prune::coerce,
    validate::{Around, validate},
};

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured) -> Result<()> {
    let custom = u.choose(&CUSTOM)?;
    let new = object(u, custom)?;
    let old = object(u, custom)?;
    let (Some(new), Some(old)) = (shaped(custom, new), shaped(custom, old)) else { return Ok(()) };
    let faults = validate(&new, None, &custom.validator);
    if faults.is_empty() {
        let beside_itself = validate(&new, Some(&new), &custom.validator);
        assert!(beside_itself.is_empty(), "{new}: {beside_itself:?}");
    }
    validate(&new, Some(&old), &custom.validator);
    custom.validator.validate_status(&new, &old, Around::default());
    let meta = (&new["metadata"], &old["metadata"]);
    validate_object_meta(meta.0, true, NameKind::Subdomain);
    validate_object_meta_update(meta.0, meta.1);
    Ok(())
}

fn object(u: &mut Unstructured, custom: &Custom) -> Result<Value> {
    let object = sutler_fuzz::fitting(u, &custom.schema, 9)?;
    Ok(sutler_fuzz::dress(object, "x/v1", "X"))
}

fn shaped(custom: &Custom, mut object: Value) -> Option<Value> {
    let node = custom.validator.node();
    apply_defaults(&mut object, node);
    coerce(&mut object, node).ok()?;
    let mut again = object.clone();
    apply_defaults(&mut again, node);
    let dropped = coerce(&mut again, node).expect("what was shaped can be shaped");
    assert_eq!(dropped, Vec::<String>::new(), "{object}");
    assert_eq!(again, object);
    Some(object)
}
