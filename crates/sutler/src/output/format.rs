//! `-o`: tables, JSON, YAML, names and paths.

use serde_json::{Value, json};

use crate::{
    client::{jsonpath::Template, yaml},
    error::Error,
};

/// What `-o` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    /// Columns.
    Table,
    /// All columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name` lines.
    Name,
    /// A template.
    JsonPath(Template),
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => {
                    Template::parse(template).map(Self::JsonPath).map_err(|e| e.to_string())
                }
                None => Err("choose table, wide, json, yaml, name or jsonpath=TEMPLATE".into()),
            },
        }
    }
}

impl Format {
    /// Whether rows of a table are printed.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// A value in this format; tables and names are not made here.
    pub(crate) fn render(&self, value: &Value) -> Result<String, Error> {
        match self {
            Self::Yaml => yaml::to_string(value).map_err(Error::Failed),
            Self::JsonPath(template) => Ok(template.render(value)),
            Self::Json | Self::Table | Self::Wide | Self::Name => {
                let mut text = serde_json::to_string_pretty(value)
                    .map_err(|e| Error::Failed(e.to_string()))?;
                text.push('\n');
                Ok(text)
            }
        }
    }
}

/// Takes away who owns which field, which few want to read.
pub(crate) fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Several objects as one.
pub(crate) fn as_list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read() {
        assert_eq!("wide".parse(), Ok(Format::Wide));
        assert!(matches!("jsonpath={.a}".parse(), Ok(Format::JsonPath(_))));
        assert!("xml".parse::<Format>().unwrap_err().contains("yaml"));
    }

    #[test]
    fn values_are_rendered() {
        let value = json!({"powerState": "On"});
        let yaml = Format::Yaml.render(&value).unwrap();
        assert!(yaml.contains("\"On\"") || yaml.contains("'On'"), "{yaml}");
        assert_eq!(Format::Json.render(&value).unwrap(), "{\n  \"powerState\": \"On\"\n}\n");
    }
}
