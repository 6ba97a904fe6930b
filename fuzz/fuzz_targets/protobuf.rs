//! Protobuf bodies of built-in kinds: whatever the bytes are, they are refused or give an object
//! that the rest of the way accepts or refuses, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sutler_builtin as builtin;

const MAGIC: &[u8] = b"k8s\0";

fuzz_target!(|data: &[u8]| {
    let Some((which, raw)) = data.split_first() else { return };
    let kinds = builtin::kinds();
    let kind = &kinds[usize::from(*which) % kinds.len()];
    let _ = builtin::decode_protobuf(data, None);
    let _ = builtin::decode_protobuf(data, Some(kind));
    let enveloped = envelope(&kind.api_version(), kind.kind, raw);
    let Ok(object) = builtin::decode_protobuf(&enveloped, None) else { return };
    let Ok(mut object) = builtin::decode(kind, object) else { return };
    builtin::apply_defaults(kind, &mut object);
    builtin::prepare_for_create(kind, &mut object);
    builtin::validate_create(kind, &object);
});

/// `runtime.Unknown` around a message: type meta, then the bytes.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = Vec::new();
    field(&mut meta, 1, api_version.as_bytes());
    field(&mut meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    field(&mut body, 1, &meta);
    field(&mut body, 2, raw);
    body
}

fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}
