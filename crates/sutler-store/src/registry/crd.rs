//! Resources from `CustomResourceDefinition` objects.

use std::sync::Arc;

use serde_json::Value;
use sutler_schema::{
    node::{Node, SchemaError},
    validate::Validator,
};

use super::{Column, Custom, Flavor, Resource, Scale, prefix};
use crate::{
    codec,
    jsonpath::{JsonPath, JsonPathError},
};

/// Why a CRD cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A field that must be there is not.
    #[error("the CRD {name:?} has no {field}")]
    Missing {
        /// The CRD's name.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// The schema cannot be used.
    #[error("the CRD {name:?} has a schema that cannot be used")]
    Schema {
        /// The CRD's name.
        name: String,
        /// Why.
        #[source]
        source: SchemaError,
    },
    /// A rule or pattern cannot be compiled.
    #[error("the CRD {name:?} has a rule that cannot be compiled: {reason}")]
    Rule {
        /// The CRD's name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A printer column or selectable field has a bad path.
    #[error("the CRD {name:?} has a bad path")]
    Path {
        /// The CRD's name.
        name: String,
        /// Why.
        #[source]
        source: JsonPathError,
    },
}

/// One resource per served version.
pub(super) fn resources(definition: &Value) -> Result<Vec<Resource>, CrdError> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let served = versions.into_iter().flatten().filter(|v| v["served"] == Value::Bool(true));
    served.map(|version| resource(definition, version)).collect()
}

fn resource(definition: &Value, version: &Value) -> Result<Resource, CrdError> {
    let crd = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let need = |value: &Value, pointer: &str, field: &'static str| {
        let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| CrdError::Missing { name: crd.into(), field })
    };
    let group = need(definition, "/spec/group", "spec.group")?;
    let plural = need(definition, "/spec/names/plural", "spec.names.plural")?;
    let kind = need(definition, "/spec/names/kind", "spec.names.kind")?;
    let version_name = need(version, "/name", "spec.versions[].name")?;
    let names = &definition["spec"]["names"];
    let text = |key: &str| names[key].as_str().map(str::to_owned);
    let list = |key: &str| -> Vec<String> {
        let items = names[key].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let schema = version
        .pointer("/schema/openAPIV3Schema")
        .ok_or_else(|| CrdError::Missing { name: crd.into(), field: "openAPIV3Schema" })?;
    let node = Arc::new(
        Node::parse(schema).map_err(|source| CrdError::Schema { name: crd.into(), source })?,
    );
    let validator = Validator::new(node.clone())
        .map_err(|e| CrdError::Rule { name: crd.into(), reason: e.to_string() })?;
    let bad_path = |source| CrdError::Path { name: crd.into(), source };
    let api_version = format!("{group}/{version_name}");
    Ok(Resource {
        type_prefix: codec::type_prefix(&api_version, &kind),
        prefix: prefix(&group, &plural),
        list_kind: text("listKind").unwrap_or_else(|| format!("{kind}List")),
        singular: text("singular").unwrap_or_else(|| kind.to_lowercase()),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: definition["spec"]["scope"] != "Cluster",
        status: version.pointer("/subresources/status").is_some(),
        scale: scale(version).map_err(bad_path)?,
        create_on_update: false,
        unconditional_update: false,
        converted: false,
        zero: None,
        flavor: Flavor::Custom(Box::new(Custom {
            validator,
            columns: columns(version).map_err(bad_path)?,
            selectable: selectable(version).map_err(bad_path)?,
            schema: schema.to_string().into(),
        })),
        group,
        version: version_name,
        api_version,
        kind,
        plural,
        node,
    })
}

fn scale(version: &Value) -> Result<Option<Scale>, JsonPathError> {
    let Some(scale) = version.pointer("/subresources/scale") else { return Ok(None) };
    let path = |key: &str| -> Result<Option<Vec<String>>, JsonPathError> {
        match scale[key].as_str().filter(|p| !p.is_empty()) {
            Some(path) => Ok(JsonPath::parse(path)?.fields()),
            None => Ok(None),
        }
    };
    Ok(Some(Scale {
        spec_replicas: path("specReplicasPath")?.unwrap_or_default(),
        status_replicas: path("statusReplicasPath")?.unwrap_or_default(),
        selector: path("labelSelectorPath")?,
    }))
}

fn columns(version: &Value) -> Result<Vec<Column>, JsonPathError> {
    let given = version["additionalPrinterColumns"].as_array();
    let Some(given) = given.filter(|columns| !columns.is_empty()) else {
        return Ok(vec![Column {
            name: "Age".into(),
            ty: "date".into(),
            format: String::new(),
            description: AGE.into(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp")?,
        }]);
    };
    let text = |column: &Value, key: &str| column[key].as_str().unwrap_or_default().to_owned();
    given
        .iter()
        .map(|column| {
            let (name, path) = (text(column, "name"), text(column, "jsonPath"));
            let mut description = text(column, "description");
            if description.is_empty() {
                description =
                    format!("Custom resource definition column (in JSONPath format): {path}");
            }
            Ok(Column {
                path: JsonPath::parse(&path)?,
                ty: text(column, "type"),
                format: text(column, "format"),
                priority: column["priority"].as_i64().unwrap_or(0),
                description,
                name,
            })
        })
        .collect()
}

/// The wire's description of an age column.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object \
                   was created. It is not guaranteed to be set in happens-before order across \
                   separate operations. Clients may not set this value. It is represented in \
                   RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for \
                   lists. More info: https://git.k8s.io/community/contributors/devel/\
                   sig-architecture/api-conventions.md#metadata";

fn selectable(version: &Value) -> Result<Vec<(String, JsonPath)>, JsonPathError> {
    let given = version["selectableFields"].as_array().into_iter().flatten();
    given
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| Ok((path.trim_start_matches('.').to_owned(), JsonPath::parse(path)?)))
        .collect()
}
