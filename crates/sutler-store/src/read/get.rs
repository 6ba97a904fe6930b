//! One object.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{codec, registry::Resource, status::ApiError, write::Ctx};

/// An object's wire form, straight from the store.
pub(crate) async fn wire(ctx: &Ctx<'_>, resource: &Arc<Resource>) -> Result<Bytes, ApiError> {
    let info = ctx.info;
    let key = resource.key(&info.namespace, &info.name);
    let found = ctx.inner.engine.get(&key).await?;
    let record = found.ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))?;
    check_version(ctx)?;
    codec::wire(&resource.type_prefix, &record.value, record.version)
}

/// An object as JSON.
pub(crate) async fn object(ctx: &Ctx<'_>, resource: &Arc<Resource>) -> Result<Value, ApiError> {
    let info = ctx.info;
    check_version(ctx)?;
    find(ctx, resource, &info.namespace, &info.name)
        .await?
        .ok_or_else(|| ApiError::not_found(resource.gr(), &info.name))
}

/// An object that may not be there.
pub(crate) async fn find(
    ctx: &Ctx<'_>,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, ApiError> {
    let record = ctx.inner.engine.get(&resource.key(namespace, name)).await?;
    record.map(|record| resource.decode(&record)).transpose()
}

/// A get may say how new the object must be at least.
fn check_version(ctx: &Ctx<'_>) -> Result<(), ApiError> {
    let Some(text) = ctx.query.get("resourceVersion") else { return Ok(()) };
    let asked: u64 = text.parse().map_err(|_| {
        let code = http::StatusCode::INTERNAL_SERVER_ERROR;
        let message = format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid \
             syntax"
        );
        ApiError::plain(code, "", message)
    })?;
    let newest = ctx.inner.engine.version();
    if asked > newest {
        return Err(ApiError::version_too_large(asked, newest));
    }
    Ok(())
}
