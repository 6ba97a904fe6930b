//! Options of requests that write, from query and headers.

use http::HeaderMap;
use serde_json::Value;
use sutler_apply::managed::manager_name;
use sutler_schema::{
    error::{FieldError, FieldErrorKind},
    meta::validate_field_manager,
    path::Path,
};

use crate::{
    request::Query,
    status::{ApiError, GroupResource},
    strategy::FieldValidation,
};

/// What a create, update or patch was asked to do beside its body.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Everything is checked and nothing is kept.
    pub(crate) dry_run: bool,
    /// Who owns the fields that are set.
    pub(crate) manager: String,
    /// What happens to unknown fields.
    pub(crate) validation: FieldValidation,
    /// Apply only: take fields over from others.
    pub(crate) force: bool,
}

/// Which options object a query stands for, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionsKind {
    Create,
    Update,
    Patch { apply: bool },
}

impl WriteOptions {
    pub(crate) fn parse(
        kind: OptionsKind,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let apply = kind == OptionsKind::Patch { apply: true };
        let given = query.get("fieldManager");
        if let OptionsKind::Patch { apply } = kind {
            if apply && given.is_none() {
                errors.push(field(
                    FieldErrorKind::Required,
                    "fieldManager",
                    None,
                    "is required for apply patch",
                ));
            }
            if !apply && query.has("force") {
                errors.push(field(
                    FieldErrorKind::Forbidden,
                    "force",
                    None,
                    "may not be specified for non-apply patch",
                ));
            }
        }
        if let Some(manager) = given {
            validate_field_manager(manager, &Path::new("fieldManager"), &mut errors);
        }
        let dry_run = match dry_run(query.all("dryRun")) {
            Ok(dry_run) => dry_run,
            Err(error) => {
                errors.push(error);
                false
            }
        };
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                errors.push(FieldError {
                    kind: FieldErrorKind::NotSupported,
                    field: "fieldValidation".into(),
                    bad_value: Some(other.into()),
                    detail: "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"".into(),
                });
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            let name = match kind {
                OptionsKind::Create => "CreateOptions",
                OptionsKind::Update => "UpdateOptions",
                OptionsKind::Patch { .. } => "PatchOptions",
            };
            let gk = GroupResource { group: "meta.k8s.io", resource: name };
            return Err(ApiError::invalid(gk, "", &errors));
        }
        Ok(Self {
            dry_run,
            manager: manager_name(given.unwrap_or_default(), agent(headers)),
            validation,
            force: apply && query.flag("force"),
        })
    }
}

/// The one value of `dryRun` is `All`.
pub(crate) fn dry_run<'a>(values: impl Iterator<Item = &'a str>) -> Result<bool, FieldError> {
    let mut dry = false;
    for value in values {
        if value != "All" {
            return Err(FieldError {
                kind: FieldErrorKind::NotSupported,
                field: "dryRun".into(),
                bad_value: Some(Value::Array(vec![value.into()])),
                detail: "supported values: \"All\"".into(),
            });
        }
        dry = true;
    }
    Ok(dry)
}

/// Without a manager of its own, a client is known by what it calls itself.
fn agent(headers: &HeaderMap) -> &str {
    headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn field(kind: FieldErrorKind, name: &str, bad: Option<&str>, detail: &str) -> FieldError {
    FieldError { kind, field: name.into(), bad_value: bad.map(Into::into), detail: detail.into() }
}
