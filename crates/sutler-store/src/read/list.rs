//! Lists: a consistent snapshot, by pages or whole. What is not limited is streamed, so its size
//! costs no memory.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use sutler_kv::engine::{Error, Page, Range, Record, Version};
use sutler_schema::error::FieldError;

use super::{
    select::Selection,
    token::{decode_token, inconsistent_token, just_before, token},
};
use crate::{
    body::Body,
    codec,
    registry::Resource,
    request::{Query, why_no_number},
    server::Inner,
    status::{ApiError, GroupResource},
    write::Ctx,
};

/// How many records are read at a time where the client set no limit.
const CHUNK: usize = 500;

/// What a list was asked for.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) limit: usize,
    pub(crate) selection: Selection,
    at: At,
}

/// Which state a list shows.
#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    /// The newest.
    #[default]
    Newest,
    /// Exactly that of a version.
    Exact(Version),
    /// The newest, which must not be older than a version.
    NotOlder(Version),
    /// The rest of an earlier page's snapshot, after a key; without a version, of the newest.
    After { version: Option<Version>, start: String },
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, resource: &Resource) -> Result<Self, ApiError> {
        validate(query)?;
        let limit = query.number("limit")?.unwrap_or(0);
        query.number("timeoutSeconds")?;
        let mut limit = usize::try_from(limit).unwrap_or(0);
        let version = query.get("resourceVersion");
        let at = match query.get("continue") {
            Some(token) => {
                let (version_of_token, start) = decode_token(token)?;
                if version.is_some_and(|v| v != "0") {
                    return Err(ApiError::bad_request(
                        "specifying resource version is not allowed when using continue",
                    ));
                }
                At::After { version: version_of_token, start }
            }
            None => match version {
                None => At::Newest,
                // "Any version will do" is answered whole, as from the real server's cache.
                Some("0") => {
                    limit = 0;
                    At::Newest
                }
                Some(text) => {
                    let version = parse_version(text)?;
                    match query.get("resourceVersionMatch") {
                        Some("Exact") => At::Exact(version),
                        None if limit > 0 => At::Exact(version),
                        _ => At::NotOlder(version),
                    }
                }
            },
        };
        Ok(Self { limit, selection: Selection::parse(query, resource)?, at })
    }
}

/// Reads a version that a client sent.
pub(crate) fn parse_version(text: &str) -> Result<Version, ApiError> {
    text.parse().map_err(|error| {
        let why = why_no_number(&error);
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: \
             parsing {text:?}: {why}"
        ))
    })
}

/// The rules that version and continue options have among themselves.
pub(crate) fn validate(query: &Query) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    let matching = query.get(field);
    let continued = query.get("continue").is_some();
    let initial = query.has("sendInitialEvents");
    if query.flag("watch") {
        if initial && matching != Some("NotOlderThan") {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, why));
        }
        // A watch from the beginning is one with initial events.
        let from_beginning = matches!(query.get("resourceVersion"), None | Some("0"));
        if continued && !initial && matching.is_none() && from_beginning {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if let Some(matching) = matching {
            if !initial {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if matching != "NotOlderThan" {
                errors.push(FieldError::not_supported(field, matching, &["NotOlderThan"]));
            }
            if continued {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, why));
            }
        }
    } else {
        if let Some(matching) = matching {
            let version = query.get("resourceVersion");
            if version.is_none() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if continued {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(field, why));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let known = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(field, matching, &known));
            }
            if matching == "Exact" && version == Some("0") {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        if initial {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", why));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let gk = GroupResource { group: "meta.k8s.io", resource: "ListOptions" };
    Err(ApiError::invalid(gk, "", &errors))
}

/// A part of a list that has been read.
pub(crate) struct Listed {
    pub(crate) records: Vec<Record>,
    pub(crate) version: Version,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    /// How many follow, where that is known.
    pub(crate) remaining: Option<u64>,
}

/// One page of records, without selection.
pub(crate) async fn page(
    inner: &Inner,
    resource: &Resource,
    namespace: &str,
    after: Option<String>,
    limit: usize,
    at: Option<Version>,
) -> Result<Page, ApiError> {
    let range = Range { prefix: resource.range(namespace), after, limit, at };
    Ok(inner.engine.list(range).await?)
}

/// What the client asked for, in memory: for limited lists and for tables.
pub(crate) async fn collect(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    options: &ListOptions,
) -> Result<Listed, ApiError> {
    let mut reader = Reader::start(ctx, resource, options)?;
    let mut records: Vec<Record> = Vec::new();
    loop {
        let want = match options.limit {
            0 => CHUNK,
            limit if options.selection.is_empty() => limit - records.len(),
            _ => CHUNK,
        };
        let Some(page) = reader.page(ctx.inner, resource, want).await? else { break };
        for (n, record) in page.records.iter().enumerate() {
            if !options.selection.matches_stored(resource, &record.key, &record.value)? {
                continue;
            }
            records.push(record.clone());
            if options.limit > 0 && records.len() == options.limit {
                let left = page.remaining + (page.records.len() - n - 1) as u64;
                let more = left > 0;
                let next = more.then(|| token(&reader.prefix, &record.key, page.version));
                let remaining = (more && options.selection.is_empty()).then_some(left);
                return Ok(Listed { records, version: page.version, next, remaining });
            }
        }
    }
    let version = reader.version.unwrap_or_default();
    Ok(Listed { records, version, next: None, remaining: None })
}

/// The list's body.
pub(crate) async fn body(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    options: ListOptions,
) -> Result<Body, ApiError> {
    if options.limit > 0 {
        let listed = collect(ctx, resource, &options).await?;
        let mut out = BytesMut::with_capacity(listed.records.len() * 1100 + 256);
        head(&mut out, resource, listed.version, listed.next.as_deref(), listed.remaining);
        for (n, record) in listed.records.iter().enumerate() {
            item(&mut out, resource, n > 0, record)?;
        }
        out.put_slice(b"]}\n");
        return Ok(Body::whole(out.freeze()));
    }
    let mut reader = Reader::start(ctx, resource, &options)?;
    let first = reader.page(ctx.inner, resource, CHUNK).await?;
    let version = reader.version.unwrap_or_default();
    let mut out = BytesMut::with_capacity(4096);
    head(&mut out, resource, version, None, None);
    let mut any = false;
    let mut write = {
        let resource = resource.clone();
        let selection = options.selection.clone();
        move |out: &mut BytesMut, page: &Page| -> Result<(), ApiError> {
            for record in &page.records {
                if selection.matches_stored(&resource, &record.key, &record.value)? {
                    item(out, &resource, any, record)?;
                    any = true;
                }
            }
            Ok(())
        }
    };
    if let Some(page) = &first {
        write(&mut out, page)?;
    }
    if reader.done {
        out.put_slice(b"]}\n");
        return Ok(Body::whole(out.freeze()));
    }
    drop(first);
    let (inner, resource) = (ctx.inner.clone(), resource.clone());
    let first = futures::stream::once(async move { Ok(out.freeze()) });
    let rest = futures::stream::unfold(Some((reader, write)), move |state| {
        let (inner, resource) = (inner.clone(), resource.clone());
        async move {
            let (mut reader, mut write) = state?;
            let part = part(&inner, &resource, &mut reader, &mut write).await;
            let next = (part.is_ok() && !reader.ended).then_some((reader, write));
            Some((part, next))
        }
    });
    Ok(Body::stream(futures::StreamExt::chain(first, rest)))
}

async fn part(
    inner: &Inner,
    resource: &Resource,
    reader: &mut Reader,
    write: &mut (impl FnMut(&mut BytesMut, &Page) -> Result<(), ApiError> + Send),
) -> Result<Bytes, ApiError> {
    let mut out = BytesMut::with_capacity(CHUNK * 1100);
    if let Some(page) = reader.page(inner, resource, CHUNK).await? {
        write(&mut out, &page)?;
    }
    if reader.done {
        out.put_slice(b"]}\n");
        reader.ended = true;
    }
    Ok(out.freeze())
}

fn head(
    out: &mut BytesMut,
    resource: &Resource,
    version: Version,
    next: Option<&str>,
    remaining: Option<u64>,
) {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    match next {
        Some(next) => metadata["continue"] = next.into(),
        // Lists of custom kinds always have the field.
        None if resource.custom().is_some() => metadata["continue"] = "".into(),
        None => {}
    }
    if let Some(remaining) = remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let (api_version, kind) = (&resource.api_version, &resource.list_kind);
    let text = format!(
        "{{\"kind\":{kind:?},\"apiVersion\":{api_version:?},\"metadata\":{metadata},\"items\":["
    );
    out.put_slice(text.as_bytes());
}

fn item(
    out: &mut BytesMut,
    resource: &Resource,
    comma: bool,
    record: &Record,
) -> Result<(), ApiError> {
    if comma {
        out.put_u8(b',');
    }
    if resource.converted {
        let mut object = sutler_builtin::event_to_v1(resource.decode(record)?);
        if let Some(map) = object.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        out.put_slice(object.to_string().as_bytes());
        return Ok(());
    }
    // Items of a list of built-in kinds carry no names of their own.
    let prefix: &[u8] = if resource.custom().is_some() { &resource.type_prefix } else { b"{" };
    codec::write_wire(out, prefix, &record.value, record.version)
}

/// Reads a range page by page at one version.
struct Reader {
    prefix: String,
    namespace: String,
    after: Option<String>,
    at: Option<Version>,
    /// The version that all pages show, once the first was read.
    version: Option<Version>,
    exact_name: Option<String>,
    done: bool,
    ended: bool,
    continued: bool,
}

impl Reader {
    fn start(ctx: &Ctx<'_>, resource: &Resource, options: &ListOptions) -> Result<Self, ApiError> {
        let namespace = ctx.info.namespace.clone();
        let prefix = resource.range(if resource.namespaced { &namespace } else { "" });
        let newest = ctx.inner.engine.version();
        let (after, at) = match &options.at {
            At::Newest => (None, None),
            At::NotOlder(version) if *version > newest => {
                return Err(ApiError::version_too_large(*version, newest));
            }
            At::NotOlder(_) => (None, None),
            At::Exact(version) if *version > newest => {
                let mut error = ApiError::version_too_large(*version, newest);
                if let Some(details) = error.details.as_mut().and_then(Value::as_object_mut) {
                    details.remove("retryAfterSeconds");
                }
                return Err(error);
            }
            At::Exact(version) => (None, Some(*version)),
            At::After { version, start } => {
                (Some(format!("{prefix}{}", just_before(start))), *version)
            }
        };
        let whole_scope = !resource.namespaced || !namespace.is_empty();
        let exact_name = options.selection.exact_name().filter(|_| whole_scope).map(str::to_owned);
        Ok(Self {
            continued: matches!(options.at, At::After { .. }),
            prefix,
            namespace: if resource.namespaced { namespace } else { String::new() },
            after,
            at,
            version: None,
            exact_name,
            done: false,
            ended: false,
        })
    }

    async fn page(
        &mut self,
        inner: &Inner,
        resource: &Resource,
        limit: usize,
    ) -> Result<Option<Page>, ApiError> {
        if self.done {
            return Ok(None);
        }
        if let (Some(name), None) = (&self.exact_name, self.at) {
            // A list for one name is a get.
            self.done = true;
            let version = inner.engine.version();
            let found = inner.engine.get(&resource.key(&self.namespace, name)).await?;
            let version = found.as_ref().map_or(version, |r| r.version.max(version));
            self.version = Some(version);
            let records = found.into_iter().collect();
            return Ok(Some(Page { records, version, remaining: 0 }));
        }
        let range = Range {
            prefix: self.prefix.clone(),
            after: self.after.take(),
            limit,
            at: self.version.or(self.at),
        };
        let continue_after = range.after.clone();
        let page = match inner.engine.list(range).await {
            Ok(page) => page,
            Err(Error::Compacted { .. }) => {
                return Err(self.expired(continue_after.as_deref()));
            }
            Err(error) => return Err(error.into()),
        };
        self.version = Some(page.version);
        self.after = page.records.last().map(|r| r.key.to_string());
        self.done = page.remaining == 0;
        Ok(Some(page))
    }

    fn expired(&self, after: Option<&str>) -> ApiError {
        match after.filter(|_| self.continued) {
            Some(key) => {
                let mut error = ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter, or use the \
                     continue token in this response to retrieve the remainder of the results. \
                     Continuing with the provided token results in an inconsistent list - objects \
                     that were created, modified, or deleted between the time the first chunk was \
                     returned and now may show up in the list.",
                );
                error.continue_token = Some(inconsistent_token(&self.prefix, key));
                error
            }
            None => ApiError::expired("The resourceVersion for the provided list is too old."),
        }
    }
}

/// A page as `PartialObjectMetadataList` or another whole JSON document.
pub(crate) fn list_meta(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    if let Some(next) = &listed.next {
        metadata["continue"] = next.clone().into();
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}
