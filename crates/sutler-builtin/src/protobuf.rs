//! Bodies of `application/vnd.kubernetes.protobuf`, read by the type table into the JSON that the
//! same object would have.

mod encode;
mod wire;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{
    decode, kind, time,
    types::{self, Type, Types},
};
pub use encode::{encode_protobuf, encode_protobuf_event};
use wire::{Reader, WireError};

/// The four bytes before every body.
const MAGIC: &[u8] = b"k8s\0";

/// Fields and items of one body. The largest body that is taken at all has fewer unless it was
/// made to fill memory: an empty item takes two bytes and becomes a whole object.
const MAX_VALUES: usize = 500_000;

/// Messages within messages. The deepest built-in type has about twenty.
const MAX_DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// There is no body.
    #[error("empty data")]
    NoData,
    /// There is nothing in the envelope, nor an envelope.
    #[error("empty body")]
    NoBody,
    /// The body does not begin as such bodies do.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NotProtobuf,
    /// The kind is not one that is read from protobuf.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf form")]
    UnknownKind {
        /// As the body says.
        api_version: String,
        /// As the body says.
        kind: String,
    },
    /// The body is compressed or otherwise encoded.
    #[error("unable to decode the protobuf body: content encoding {0:?} is not supported")]
    Encoding(String),
    /// The bytes are no message, or more than is taken.
    #[error("{0}")]
    Malformed(&'static str),
    /// The envelope was read, and what is in it is not of its kind.
    #[error("{why}")]
    Unfit {
        /// As the body says.
        api_version: String,
        /// As the body says.
        kind: String,
        /// What is wrong with it.
        why: String,
    },
    /// A value does not fit its field.
    #[error("{0}")]
    Value(#[from] decode::DecodeError),
}

impl From<WireError> for ProtobufError {
    fn from(error: WireError) -> Self {
        Self::Malformed(error.0)
    }
}

/// Reads a body of any kind of the table; one that does not say what it is, is of kind `expected`.
pub fn decode_protobuf(
    bytes: &[u8],
    expected: Option<&kind::Kind>,
) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::NoData);
    }
    let enveloped = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NotProtobuf)?;
    if enveloped.is_empty() {
        return Err(ProtobufError::NoBody);
    }
    let Envelope { mut api_version, mut kind, raw } = envelope(enveloped)?;
    if let Some(expected) = expected {
        if api_version.is_empty() {
            api_version = expected.api_version();
        }
        if kind.is_empty() {
            kind = expected.kind.to_owned();
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let Some(row) = kind::lookup(group, version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    body(row, raw, &api_version).map_err(|error| ProtobufError::Unfit {
        api_version,
        kind,
        why: error.to_string(),
    })
}

fn body(row: &kind::Kind, raw: &[u8], api_version: &str) -> Result<Value, ProtobufError> {
    let types = types::table();
    let root = types.named(row.definition()).expect("every kind of the table has a type");
    let mut object = Map::new();
    let mut decoder = Decoder { types, values: 0 };
    decoder.message(root, raw, &mut object, 0)?;
    // The types of the body itself are empty; those of the envelope count.
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), row.kind.into());
    Ok(decode::struct_value(types, root, Value::Object(object))?)
}

struct Envelope<'b> {
    api_version: String,
    kind: String,
    raw: &'b [u8],
}

fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let mut out = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => {
                let mut inner = Reader::new(reader.bytes(wire)?);
                while let Some((number, wire)) = inner.field()? {
                    match number {
                        1 => out.api_version = text(inner.bytes(wire)?),
                        2 => out.kind = text(inner.bytes(wire)?),
                        _ => inner.skip(wire)?,
                    }
                }
            }
            2 => out.raw = reader.bytes(wire)?,
            3 => {
                let encoding = text(reader.bytes(wire)?);
                if !encoding.is_empty() {
                    return Err(ProtobufError::Encoding(encoding));
                }
            }
            _ => reader.skip(wire)?,
        }
    }
    Ok(out)
}

struct Decoder<'t> {
    types: &'t Types,
    values: usize,
}

impl Decoder<'_> {
    /// Reads the fields of struct `index` into `out`. A field that comes again replaces the value
    /// or, for structs, lists and maps, adds to it.
    fn message(
        &mut self,
        index: usize,
        bytes: &[u8],
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth > MAX_DEPTH {
            return Err(ProtobufError::Malformed("messages are nested too deeply"));
        }
        let types = self.types;
        let fields = &types.get(index).fields;
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field()? {
            let field = fields.iter().find(|field| field.number == number && number != 0);
            let Some(field) = field else {
                reader.skip(wire)?;
                continue;
            };
            self.count()?;
            if let ("", Type::Struct(inner)) = (field.name, &field.ty) {
                self.message(*inner, reader.bytes(wire)?, out, depth + 1)?;
                continue;
            }
            let slot = out.entry(field.name).or_insert(Value::Null);
            self.value(&field.ty, &mut reader, wire, slot, depth)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        ty: &Type,
        reader: &mut Reader<'_>,
        wire: u8,
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        match ty {
            Type::Pointer(inner) => return self.value(inner, reader, wire, slot, depth),
            Type::String => *slot = text(reader.bytes(wire)?).into(),
            Type::Bool => *slot = (reader.varint(wire)? != 0).into(),
            Type::Int32 => *slot = int32(reader.varint(wire)?).into(),
            Type::Int64 => *slot = reader.varint(wire)?.cast_signed().into(),
            Type::Float64 => {
                *slot = serde_json::Number::from_f64(reader.double(wire)?)
                    .map(Value::Number)
                    .ok_or(ProtobufError::Malformed("a number is not finite"))?;
            }
            Type::Bytes => *slot = STANDARD.encode(reader.bytes(wire)?).into(),
            Type::Time | Type::MicroTime => {
                let (seconds, nanos) = timestamp(reader.bytes(wire)?)?;
                let text = time::from_unix(seconds, nanos, *ty == Type::MicroTime);
                if text.is_none() && (seconds, nanos) != (0, 0) {
                    return Err(ProtobufError::Malformed("a time is out of range"));
                }
                *slot = text.map_or(Value::Null, Value::String);
            }
            Type::Duration | Type::Any => {
                return Err(ProtobufError::Malformed("a field is not read from protobuf"));
            }
            Type::Quantity => {
                *slot = "".into();
                let mut inner = Reader::new(reader.bytes(wire)?);
                while let Some((number, wire)) = inner.field()? {
                    match number {
                        1 => *slot = text(inner.bytes(wire)?).into(),
                        _ => inner.skip(wire)?,
                    }
                }
            }
            Type::IntOrString => *slot = int_or_string(reader.bytes(wire)?)?,
            Type::RawExtension | Type::FieldsV1 => {
                let mut inner = Reader::new(reader.bytes(wire)?);
                while let Some((number, wire)) = inner.field()? {
                    match number {
                        1 => {
                            *slot = serde_json::from_slice(inner.bytes(wire)?)
                                .map_err(|_| ProtobufError::Malformed("embedded JSON is bad"))?;
                        }
                        _ => inner.skip(wire)?,
                    }
                }
            }
            Type::Struct(index) => {
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                let map = slot.as_object_mut().expect("made an object above");
                self.message(*index, reader.bytes(wire)?, map, depth + 1)?;
            }
            Type::List(inner) => self.item(inner, reader, wire, slot, depth)?,
            Type::Map(inner) => self.entry(inner, reader, wire, slot, depth)?,
            Type::Wrapped(inner) => {
                let mut wrapper = Reader::new(reader.bytes(wire)?);
                *slot = Value::Array(Vec::new());
                while let Some((number, wire)) = wrapper.field()? {
                    match number {
                        1 => self.value(inner, &mut wrapper, wire, slot, depth)?,
                        _ => wrapper.skip(wire)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds one item of a list; numbers may come several together.
    fn item(
        &mut self,
        inner: &Type,
        reader: &mut Reader<'_>,
        wire: u8,
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if !slot.is_array() {
            *slot = Value::Array(Vec::new());
        }
        let list = slot.as_array_mut().expect("made an array above");
        if matches!(inner, Type::Int32 | Type::Int64) && wire == wire::BYTES {
            let mut packed = Reader::new(reader.bytes(wire)?);
            while !packed.is_empty() {
                self.count()?;
                let mut item = Value::Null;
                self.value(inner, &mut packed, wire::VARINT, &mut item, depth)?;
                list.push(item);
            }
            return Ok(());
        }
        let mut item = Value::Null;
        self.value(inner, reader, wire, &mut item, depth)?;
        list.push(item);
        Ok(())
    }

    fn entry(
        &mut self,
        inner: &Type,
        reader: &mut Reader<'_>,
        wire: u8,
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        let mut entry = Reader::new(reader.bytes(wire)?);
        let (mut key, mut value) = (String::new(), Value::Null);
        while let Some((number, wire)) = entry.field()? {
            match number {
                1 => key = text(entry.bytes(wire)?),
                2 => self.value(inner, &mut entry, wire, &mut value, depth)?,
                _ => entry.skip(wire)?,
            }
        }
        slot.as_object_mut().expect("made an object above").insert(key, value);
        Ok(())
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values += 1;
        match self.values > MAX_VALUES {
            true => Err(ProtobufError::Malformed("too many values")),
            false => Ok(()),
        }
    }
}

/// Text that is not UTF-8 is repaired, as it is when JSON is written.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[expect(clippy::cast_possible_truncation, reason = "negative numbers are sent as 64 bits")]
fn int32(varint: u64) -> i32 {
    varint as i32
}

fn timestamp(bytes: &[u8]) -> Result<(i64, i32), ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => seconds = reader.varint(wire)?.cast_signed(),
            2 => nanos = int32(reader.varint(wire)?),
            _ => reader.skip(wire)?,
        }
    }
    Ok((seconds, nanos))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.field()? {
        match field {
            1 => is_text = reader.varint(wire)? == 1,
            2 => number = int32(reader.varint(wire)?),
            3 => string = text(reader.bytes(wire)?),
            _ => reader.skip(wire)?,
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}
