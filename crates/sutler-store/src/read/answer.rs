//! Objects and lists in the form that was asked for.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::Value;

use super::{get, list, table};
use crate::{
    accept::Form,
    body::Body,
    registry::{Flavor, Resource},
    respond::{json_response, response},
    status::ApiError,
    write::{self, Ctx, Outcome, decode::go_package},
};

/// `GET` of one object or its scale.
pub(crate) async fn get_response(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    if ctx.query.has("export") && ctx.query.flag("export") {
        let message = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(ApiError::bad_request(message));
    }
    if ctx.info.subresource == "scale" {
        let scale = write::scale::read(ctx, resource).await?;
        let include = table::Include::parse(ctx.query.get("includeObject"))?;
        let answer = match form {
            Form::Plain => scale,
            Form::Partial(version) => table::partial(&scale, version),
            Form::PartialList(_) => return Err(not_a_list("*autoscaling.Scale")),
            Form::Table(version) => {
                table::of_scale(&scale, include, ctx.inner.clock.now(), version)
            }
        };
        return Ok(json_response(StatusCode::OK, &answer));
    }
    if !matches!(ctx.info.subresource.as_str(), "" | "status") {
        return Err(ApiError::method_not_allowed());
    }
    if form == Form::Plain && !resource.converted {
        let wire = get::wire(ctx, resource).await?;
        return Ok(response(StatusCode::OK, Body::whole(wire)));
    }
    let object = get::object(ctx, resource).await?;
    outcome_response(ctx, resource, form, Outcome::ok(object))
}

/// `GET` of many.
pub(crate) async fn list_response(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let options = list::ListOptions::parse(ctx.query, resource)?;
    if form == Form::Plain {
        let body = list::body(ctx, resource, options).await?;
        return Ok(response(StatusCode::OK, body));
    }
    let listed = list::collect(ctx, resource, &options).await?;
    let mut objects = Vec::with_capacity(listed.records.len());
    for record in &listed.records {
        objects.push(resource.decode(record)?);
    }
    formed_list(ctx, resource, form, list::list_meta(&listed), &objects)
}

/// A list in another form than its own.
fn formed_list(
    ctx: &Ctx<'_>,
    resource: &Resource,
    form: Form,
    metadata: Value,
    objects: &[Value],
) -> Result<Response<Body>, ApiError> {
    let answer = match form {
        Form::Table(version) => {
            let include = table::Include::parse(ctx.query.get("includeObject"))?;
            let now = ctx.inner.clock.now();
            table::of_objects(resource, metadata, objects.iter(), include, now, version)
        }
        Form::Plain | Form::PartialList(_) => {
            table::partial_list(metadata, objects.iter(), form.version())
        }
        Form::Partial(_) => return Err(a_list(resource)),
    };
    Ok(json_response(StatusCode::OK, &answer))
}

/// Refuses a write whose outcome could not be shown in the form that was asked for, before anything
/// is written.
pub(crate) fn can_be_shown(ctx: &Ctx<'_>, resource: &Resource, form: Form) -> Result<(), ApiError> {
    match (form, ctx.info.verb) {
        (Form::Partial(_), "deletecollection") => Err(a_list(resource)),
        (Form::PartialList(_), "create" | "update" | "patch") => {
            Err(not_a_list(&go_type(resource)))
        }
        (Form::Table(_), _) => table::Include::parse(ctx.query.get("includeObject")).map(|_| ()),
        _ => Ok(()),
    }
}

/// What a write came to.
pub(crate) fn outcome_response(
    ctx: &Ctx<'_>,
    resource: &Resource,
    form: Form,
    outcome: Outcome,
) -> Result<Response<Body>, ApiError> {
    let Outcome { code, mut object, wire, shape } = outcome;
    if shape == write::Shape::List && form != Form::Plain {
        let items = object.get_mut("items").map(Value::take).unwrap_or_default();
        let items = items.as_array().map_or(&[][..], Vec::as_slice);
        return formed_list(ctx, resource, form, object["metadata"].take(), items);
    }
    if shape != write::Shape::Object {
        return Ok(json_response(code, &object));
    }
    if let (Form::Plain, Some(wire)) = (form, wire) {
        return Ok(response(code, Body::whole(wire)));
    }
    let answer = match form {
        Form::Plain if resource.converted => sutler_builtin::event_to_v1(object),
        Form::Plain => object,
        Form::Partial(version) => table::partial(&object, version),
        Form::PartialList(_) => return Err(not_a_list(&go_type(resource))),
        Form::Table(version) => {
            let include = table::Include::parse(ctx.query.get("includeObject"))?;
            let now = ctx.inner.clock.now();
            table::of_object(resource, &object, include, now, true, version)
        }
    };
    Ok(json_response(code, &answer))
}

fn a_list(resource: &Resource) -> ApiError {
    unacceptable(format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({}List)",
        go_type(resource)
    ))
}

fn not_a_list(found: &str) -> ApiError {
    unacceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({found})"
    ))
}

fn unacceptable(message: String) -> ApiError {
    ApiError::plain(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

/// The type of an object in the words of the real server.
fn go_type(resource: &Resource) -> String {
    match resource.flavor {
        Flavor::Builtin(_) => format!("*{}.{}", go_package(&resource.group), resource.kind),
        Flavor::Custom(_) => "*unstructured.Unstructured".to_owned(),
    }
}
