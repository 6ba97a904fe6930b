//! A check from outside that writes pass: what validating webhooks are to a cluster's API server.
//!
//! It sees the object as it would be stored, after defaults and validation, and is asked again when
//! somebody else wrote in between: what it allowed is what is committed. Dry runs ask too.

use serde_json::Value;

use crate::{auth::User, registry::Resource, status::ApiError, write::Ctx};

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It makes an object.
    Create,
    /// It changes one.
    Update,
    /// It asks for one's end.
    Delete,
}

/// A write that is about to be committed.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// What it does.
    pub operation: Operation,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural resource name.
    pub resource: &'a str,
    /// The part of the object that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object as it is; absent when it is made.
    pub old: Option<&'a Value>,
    /// The object as it would be; absent when it is deleted.
    pub new: Option<&'a Value>,
    /// Who asks.
    pub user: &'a User,
}

/// Whoever is asked before a write is committed. It must answer at once: the write waits.
pub trait Admit: Send + Sync + 'static {
    /// Allows the write, with what its author should know, or refuses it.
    fn admit(&self, attempt: &Attempt<'_>) -> Result<Vec<String>, ApiError>;
}

/// Asks whoever is to be asked.
pub(crate) fn ask(
    ctx: &Ctx<'_>,
    resource: &Resource,
    subresource: &str,
    name: &str,
    operation: Operation,
    (old, new): (Option<&Value>, Option<&Value>),
) -> Result<(), ApiError> {
    let Some(admit) = ctx.inner.admit.get() else { return Ok(()) };
    let warnings = admit.admit(&Attempt {
        operation,
        group: &resource.group,
        resource: &resource.plural,
        subresource,
        name,
        old,
        new,
        user: ctx.user,
    })?;
    ctx.warn(warnings);
    Ok(())
}

#[cfg(test)]
mod tests;
