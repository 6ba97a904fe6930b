//! The types of the built-in kinds as their reference implementation declares them: JSON names,
//! which values are left out when empty, protobuf numbers. Read once from `data/types.txt`.

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

/// All struct types.
#[derive(Debug)]
pub(crate) struct Types {
    structs: Vec<Struct>,
    by_name: BTreeMap<&'static str, usize>,
}

/// One struct type.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its name in OpenAPI: `io.k8s.api.core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// Its bare name, as decoding errors show it: `PodSpec`.
    pub(crate) bare: &'static str,
    /// In the order in which they are declared.
    pub(crate) fields: Vec<Field>,
}

/// One field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// The JSON name; empty when the fields of `ty` stand in the struct itself.
    pub(crate) name: &'static str,
    /// The protobuf number; 0 where protobuf does not have the field.
    pub(crate) number: u32,
    /// The type of the value.
    pub(crate) ty: Type,
    /// The type as decoding errors show it, where it does not follow from `ty`.
    pub(crate) shown: Option<&'static str>,
    /// Whether an empty value is left out (`omitempty`): not a struct.
    pub(crate) omit_empty: bool,
    /// Whether a zero value is left out (`omitzero`): also a struct or time.
    pub(crate) omit_zero: bool,
    /// What stands here when nothing was given; scalars only.
    pub(crate) default: Option<Value>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    /// Base64 in JSON.
    Bytes,
    /// Whole seconds.
    Time,
    /// Microseconds.
    MicroTime,
    /// Text such as `1h0m0s` in JSON, nanoseconds in protobuf.
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON, as text in protobuf.
    RawExtension,
    /// As [`Type::RawExtension`], always an object.
    FieldsV1,
    /// Any JSON that protobuf bodies do not carry here.
    Any,
    /// Index of a struct.
    Struct(usize),
    /// May be absent, and is then different from zero.
    Pointer(Box<Type>),
    List(Box<Type>),
    /// By string.
    Map(Box<Type>),
    /// A list that protobuf wraps in a message of its own.
    Wrapped(Box<Type>),
}

/// The table. Parsing takes well below a millisecond.
pub(crate) fn table() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(|| parse(include_str!("../data/types.txt")))
}

impl Types {
    /// The struct of this index.
    pub(crate) fn get(&self, index: usize) -> &Struct {
        &self.structs[index]
    }

    /// The struct of this OpenAPI name.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The OpenAPI name of a kind.
    pub(crate) fn name_of(&self, group: &str, version: &str, kind: &str) -> &'static str {
        let package = match (group, kind) {
            (_, "DeleteOptions") => "io.k8s.apimachinery.pkg.apis.meta".to_owned(),
            ("apiextensions.k8s.io", _) => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned()
            }
            ("", _) => "io.k8s.api.core".to_owned(),
            (group, _) => format!("io.k8s.api.{}", group.split('.').next().unwrap_or_default()),
        };
        let name = format!("{package}.{version}.{kind}");
        let found = self.named(&name).map(|index| self.structs[index].name);
        found.expect("every kind of the table is in the generated data: a test walks all of them")
    }

    /// What decoding errors call a type.
    pub(crate) fn shown(&self, ty: &Type) -> String {
        match ty {
            Type::String => "string".into(),
            Type::Bool => "bool".into(),
            Type::Int32 => "int32".into(),
            Type::Int64 => "int64".into(),
            Type::Float64 => "float64".into(),
            Type::Bytes => "[]uint8".into(),
            Type::Time => "v1.Time".into(),
            Type::MicroTime => "v1.MicroTime".into(),
            Type::Duration => "v1.Duration".into(),
            Type::Quantity => "resource.Quantity".into(),
            Type::IntOrString => "intstr.IntOrString".into(),
            Type::RawExtension => "runtime.RawExtension".into(),
            Type::FieldsV1 => "v1.FieldsV1".into(),
            Type::Any => "interface {}".into(),
            Type::Struct(index) => {
                let ty = self.get(*index);
                let package = ty.name.rsplit('.').nth(1).unwrap_or_default();
                format!("{package}.{}", ty.bare)
            }
            Type::Pointer(inner) | Type::Wrapped(inner) => self.shown(inner),
            Type::List(inner) => format!("[]{}", self.shown(inner)),
            Type::Map(inner) => format!("map[string]{}", self.shown(inner)),
        }
    }
}

fn parse(text: &'static str) -> Types {
    let heads = text.lines().filter(|line| !line.starts_with(' '));
    let mut by_name = BTreeMap::new();
    let mut structs: Vec<Struct> = Vec::new();
    for (index, line) in heads.enumerate() {
        let (name, bare) = line.split_once(' ').expect("a struct's line has two words");
        by_name.insert(name, index);
        structs.push(Struct { name, bare, fields: Vec::new() });
    }
    let mut current = 0;
    for line in text.lines() {
        if !line.starts_with(' ') {
            current = by_name[line.split_once(' ').expect("seen above").0];
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let (name, number, ty, flags, default) = (word(), word(), word(), word(), word());
        let (ty, shown) = match ty.split_once('=') {
            Some((ty, shown)) => (ty, Some(shown)),
            None => (ty, None),
        };
        structs[current].fields.push(Field {
            name: if flags.contains('i') { "" } else { name },
            number: number.parse().expect("the second word is a number"),
            ty: parse_type(ty, &by_name),
            shown,
            omit_empty: flags.contains('e'),
            omit_zero: flags.contains('z'),
            default: serde_json::from_str(default).ok(),
        });
    }
    Types { structs, by_name }
}

fn parse_type(text: &str, by_name: &BTreeMap<&str, usize>) -> Type {
    let inner = |rest: &str| Box::new(parse_type(rest, by_name));
    if let Some(rest) = text.strip_prefix('*') {
        return Type::Pointer(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Type::List(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Type::Map(inner(rest));
    }
    if let Some(rest) = text.strip_prefix("<>") {
        return Type::Wrapped(inner(rest));
    }
    if let Some(name) = text.strip_prefix('@') {
        return Type::Struct(by_name[name]);
    }
    match text {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "float64" => Type::Float64,
        "bytes" => Type::Bytes,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "Duration" => Type::Duration,
        "Quantity" => Type::Quantity,
        "IntOrString" => Type::IntOrString,
        "RawExtension" => Type::RawExtension,
        "FieldsV1" => Type::FieldsV1,
        _ => Type::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_parses() {
        let types = table();
        let spec = types.get(types.named("io.k8s.api.core.v1.PodSpec").unwrap());
        assert_eq!(spec.bare, "PodSpec");
        let containers = spec.fields.iter().find(|field| field.name == "containers").unwrap();
        assert_eq!((containers.number, containers.omit_empty), (2, false));
        assert_eq!(types.shown(&containers.ty), "[]v1.Container");
        let policy = spec.fields.iter().find(|field| field.name == "restartPolicy").unwrap();
        assert_eq!(policy.shown, Some("v1.RestartPolicy"));
        for ty in &types.structs {
            // `Any` is for the schemas of custom kinds alone, which only the server itself writes.
            let opaque = ty.fields.iter().any(|field| field.ty == Type::Any);
            assert!(!opaque || ty.name.contains("apiextensions"), "{}", ty.name);
        }
    }
}
