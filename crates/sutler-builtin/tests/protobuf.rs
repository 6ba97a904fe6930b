//! Protobuf bodies of all manifests, as the reference implementation encodes them
//! (`tests/fixtures/protobuf`).

use std::fs;

use serde_json::json;
use sutler_builtin::{ProtobufError, decode, decode_protobuf, encode_protobuf};

use crate::pipeline::{folder, kind_of, manifests, objects};

#[test]
fn bodies_give_the_json_of_their_manifests() {
    for (name, manifest) in manifests().into_iter().chain(objects("bodies")) {
        let path = folder("fixtures/protobuf").join(format!("{name}.pb"));
        let object = decode_protobuf(&fs::read(path).unwrap(), None).unwrap();
        let expected = decode(kind_of(&manifest), manifest).unwrap();
        assert_eq!(object, expected, "{name}");
        let again = decode_protobuf(&encode_protobuf(&object).unwrap(), None).unwrap();
        assert_eq!(again, expected, "{name}, written and read again");
    }
}

#[test]
fn every_shortened_body_is_refused_or_read_but_never_more() {
    let bytes = fs::read(folder("fixtures/protobuf/pod.pb")).unwrap();
    for end in 0..bytes.len() {
        let _ = decode_protobuf(&bytes[..end], None);
    }
    assert_eq!(decode_protobuf(&bytes[..3], None), Err(ProtobufError::NotProtobuf));
    assert_eq!(decode_protobuf(b"{\"kind\"", None), Err(ProtobufError::NotProtobuf));
}

#[test]
fn kinds_outside_the_table_are_named() {
    let mut body = b"k8s\0".to_vec();
    let meta = b"\x0a\x08batch/v1\x12\x03Job";
    body.push(0x0a);
    body.push(u8::try_from(meta.len()).unwrap());
    body.extend(meta);
    let error = ProtobufError::UnknownKind { api_version: "batch/v1".into(), kind: "Job".into() };
    assert_eq!(decode_protobuf(&body, None), Err(error));
}

#[test]
fn a_body_that_does_not_say_its_kind_is_of_the_expected_one() {
    let expected = sutler_builtin::lookup("", "v1", "ConfigMap");
    let body = [b"k8s\0".to_vec(), message(2, b"")].concat();
    let object = decode_protobuf(&body, expected).unwrap();
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(decode_protobuf(b"", expected), Err(ProtobufError::NoData));
    assert_eq!(decode_protobuf(b"k8s\0", expected), Err(ProtobufError::NoBody));
}

#[test]
fn an_empty_body_is_an_empty_object_of_its_kind() {
    let mut body = b"k8s\0".to_vec();
    let meta = b"\x0a\x02v1\x12\x0dDeleteOptions";
    body.push(0x0a);
    body.push(u8::try_from(meta.len()).unwrap());
    body.extend(meta);
    let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    assert_eq!(decode_protobuf(&body, None), Ok(expected));
    // Two bytes for every item would become a gigabyte of objects.
    let items = vec![[0x12, 0x00]; 600_000].concat();
    let spec = message(2, &items);
    let mut body = b"k8s\0".to_vec();
    body.extend(message(1, b"\x0a\x02v1\x12\x03Pod"));
    body.extend(message(2, &spec));
    let error = decode_protobuf(&body, None).unwrap_err();
    assert_eq!(error.to_string(), "too many values");
}

fn message(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend(content);
    out
}
