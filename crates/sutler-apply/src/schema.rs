//! The schema as apply sees it: every type is a scalar, a list, a map, or several of them at once,
//! and lists and maps are either one value (atomic) or made of parts that are owned one by one.

use std::sync::LazyLock;

use serde_json::{Value, json};
use sutler_schema::node::{ListType, Node, Type};

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ty<'a> {
    /// Stated by a schema.
    Schema(Typed<'a>),
    /// Seen from the value: maps are made of parts, lists are one value.
    Deduced,
    /// Seen from the value, which is one value all the way down.
    Untyped,
    /// A string.
    Text,
    /// The schema knows no such field.
    Undeclared,
}

/// A schema node in its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed<'a> {
    node: &'a Node,
    /// Whether this or an enclosing node preserves unknown fields.
    preserve: bool,
    /// Whether it is an object with `apiVersion`, `kind` and `metadata`.
    object: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a> {
    pub(crate) kind: ListKind<'a>,
    pub(crate) element: Ty<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ListKind<'a> {
    Atomic,
    Set,
    Map(&'a [String]),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MapType<'a> {
    named: Option<Typed<'a>>,
    pub(crate) atomic: bool,
    pub(crate) element: Ty<'a>,
}

/// What a value of a type may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Atom<'a> {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<List<'a>>,
    pub(crate) map: Option<MapType<'a>>,
}

/// Every object has this metadata, whatever its schema says of it.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let time = || json!({"type": "string", "format": "date-time"});
    let strings = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    Node::parse(&json!({
        "type": "object",
        "properties": {
            "annotations": strings(),
            "creationTimestamp": time(),
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "deletionTimestamp": time(),
            "finalizers": {
                "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            },
            "generateName": {"type": "string"},
            "generation": {"type": "integer", "format": "int64"},
            "labels": strings(),
            "managedFields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "fieldsType": {"type": "string"},
                        "fieldsV1": {"type": "object"},
                        "manager": {"type": "string"},
                        "operation": {"type": "string"},
                        "subresource": {"type": "string"},
                        "time": time(),
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "blockOwnerDeletion": {"type": "boolean"},
                        "controller": {"type": "boolean"},
                        "kind": {"type": "string"},
                        "name": {"type": "string"},
                        "uid": {"type": "string"},
                    },
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
            },
            "resourceVersion": {"type": "string"},
            "selfLink": {"type": "string"},
            "uid": {"type": "string"},
        },
    }))
    .expect("the schema of metadata is written above")
});

impl<'a> Ty<'a> {
    /// The type of a whole object.
    pub(crate) fn root(node: &'a Node) -> Self {
        Self::Schema(Typed { node, preserve: node.preserve_unknown, object: true })
    }

    fn nested(node: &'a Node, preserve: bool) -> Self {
        let preserve = preserve || node.preserve_unknown;
        Self::Schema(Typed { node, preserve, object: node.embedded_resource })
    }

    pub(crate) fn atom(self) -> Atom<'a> {
        match self {
            Self::Schema(typed) => typed.atom(),
            Self::Deduced => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(List { kind: ListKind::Atomic, element: Self::Untyped }),
                map: Some(MapType { named: None, atomic: false, element: Self::Deduced }),
            },
            Self::Untyped => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(List { kind: ListKind::Atomic, element: Self::Untyped }),
                map: Some(MapType { named: None, atomic: true, element: Self::Untyped }),
            },
            Self::Text => Atom { scalar: Some(Scalar::String), list: None, map: None },
            Self::Undeclared => Atom { scalar: None, list: None, map: None },
        }
    }

    /// The default of a field of this (object) type.
    pub(crate) fn field_default(self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Schema(typed) => typed.node.properties.get(name)?.default.as_ref(),
            _ => None,
        }
    }
}

impl<'a> Typed<'a> {
    fn atom(self) -> Atom<'a> {
        let scalar = |scalar| Atom { scalar: Some(scalar), list: None, map: None };
        match self.node.ty {
            Type::Any | Type::IntOrString => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list()),
                map: Some(self.map()),
            },
            Type::Object => Atom { scalar: None, list: None, map: Some(self.map()) },
            Type::Array => Atom { scalar: None, list: Some(self.list()), map: None },
            Type::Integer | Type::Number => scalar(Scalar::Numeric),
            Type::Boolean => scalar(Scalar::Boolean),
            Type::String => match self.node.format.as_deref() {
                None | Some("" | "byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Untyped),
            },
        }
    }

    fn list(self) -> List<'a> {
        let kind = match &self.node.list_type {
            ListType::Atomic => ListKind::Atomic,
            ListType::Set => ListKind::Set,
            ListType::Map(keys) => ListKind::Map(keys),
        };
        let element = match &self.node.items {
            Some(items) => Ty::nested(items, self.preserve),
            None => Ty::Untyped,
        };
        List { kind, element }
    }

    fn map(self) -> MapType<'a> {
        let element = match &self.node.additional {
            Some(values) => Ty::nested(values, self.preserve),
            None if self.preserve || (self.node.properties.is_empty() && !self.object) => {
                Ty::Deduced
            }
            None => Ty::Undeclared,
        };
        MapType { named: Some(self), atomic: self.node.map_atomic, element }
    }
}

impl<'a> MapType<'a> {
    /// The type of a field that the schema names.
    pub(crate) fn named(&self, field: &str) -> Option<Ty<'a>> {
        let typed = self.named?;
        if typed.object {
            match field {
                "metadata" => return Some(Ty::nested(&METADATA, false)),
                "apiVersion" | "kind" => return Some(Ty::Text),
                _ => {}
            }
        }
        let node = typed.node.properties.get(field)?;
        Some(Ty::nested(node, typed.preserve))
    }

    /// The type of any field.
    pub(crate) fn field(&self, field: &str) -> Ty<'a> {
        self.named(field).unwrap_or(self.element)
    }

    /// Whether no field is named and the values are not typed: a change from parts to one value
    /// cannot be told here.
    pub(crate) fn is_deduced(&self) -> bool {
        let named = self.named.is_some_and(|t| t.object || !t.node.properties.is_empty());
        let free = match self.element {
            Ty::Deduced => true,
            Ty::Schema(typed) => typed.atom().scalar == Some(Scalar::Untyped),
            _ => false,
        };
        free && !named
    }
}

impl<'a> Atom<'a> {
    /// Narrows the choice to what the value is, where it is one of the choices. Null and absent
    /// values decide nothing.
    pub(crate) fn deduce(self, value: Option<&Value>) -> Atom<'a> {
        let none = Atom { scalar: None, list: None, map: None };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Atom { scalar: self.scalar, ..none }
            }
            Some(Value::Array(_)) if self.list.is_some() => Atom { list: self.list, ..none },
            Some(Value::Object(_)) if self.map.is_some() => Atom { map: self.map, ..none },
            _ => self,
        }
    }

    /// Whether the same choices are left, both atoms being of one type.
    pub(crate) fn same(&self, other: &Atom) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }

    /// The choice that counts: a map before a scalar before a list.
    pub(crate) fn shape(&self) -> Option<Shape<'a>> {
        if let Some(map) = self.map {
            return Some(Shape::Map(map));
        }
        if let Some(scalar) = self.scalar {
            return Some(Shape::Scalar(scalar));
        }
        self.list.map(Shape::List)
    }
}

/// How a value is walked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    Map(MapType<'a>),
    Scalar(Scalar),
    List(List<'a>),
}
