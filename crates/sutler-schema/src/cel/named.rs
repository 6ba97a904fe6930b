//! Named formats: `format.dns1123Label().validate(self)`.

use super::parse_errors;
use crate::{
    meta::NameKind,
    names::{is_label_value, is_qualified_name},
    validate::format::Format,
};

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// The format of this name.
pub(super) fn find(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|known| *known == name)
}

/// What is wrong with `text`; nothing if it is of the format.
pub(super) fn validate(name: &str, text: &str) -> Vec<String> {
    let unless = |format: Format, message: &str| match format.admits(text) {
        true => vec![],
        false => vec![message.to_owned()],
    };
    match name {
        "dns1123Label" => NameKind::Label.check(text, false),
        "dns1123Subdomain" => NameKind::Subdomain.check(text, false),
        "dns1035Label" => NameKind::Label1035.check(text, false),
        "dns1123LabelPrefix" => NameKind::Label.check(text, true),
        "dns1123SubdomainPrefix" => NameKind::Subdomain.check(text, true),
        "dns1035LabelPrefix" => NameKind::Label1035.check(text, true),
        "qualifiedName" => is_qualified_name(text),
        "labelValue" => is_label_value(text),
        "uri" => parse_errors::url(text).into_iter().collect(),
        "uuid" => unless(Format::Uuid, "does not match the UUID format"),
        "byte" => unless(Format::Byte, "invalid base64"),
        "date" => unless(Format::Date, "invalid date"),
        _ => unless(Format::DateTime, "invalid datetime"),
    }
}
