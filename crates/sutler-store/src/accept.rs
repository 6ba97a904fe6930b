//! What a client accepts as an answer: the encoding and the form, picked from `Accept` as the real
//! server picks them.

use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use crate::{request::Query, status::ApiError};

/// The encodings that every endpoint has, in the order of preference.
const ENCODINGS: [(&str, Media); 3] =
    [("json", Media::Json), ("yaml", Media::Yaml), ("vnd.kubernetes.protobuf", Media::Protobuf)];

/// What a refusal lists.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What a refusal lists where a watch may be asked for.
const ACCEPTED_STREAMS: &str = "application/json, application/yaml, \
    application/vnd.kubernetes.protobuf, application/json;stream=watch, \
    application/vnd.kubernetes.protobuf;stream=watch";

/// How an answer is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// On one line.
    Json,
    /// Indented, for people.
    Pretty,
    Yaml,
    Protobuf,
}

/// The version of the kinds that answers are turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object or list itself.
    Plain,
    /// A `Table`, as kubectl prints.
    Table(MetaVersion),
    /// `PartialObjectMetadata`.
    Partial(MetaVersion),
    /// `PartialObjectMetadataList`.
    PartialList(MetaVersion),
}

impl Form {
    /// The version of the kind that the answer is turned into.
    pub(crate) fn version(self) -> MetaVersion {
        match self {
            Self::Plain => MetaVersion::V1,
            Self::Table(version) | Self::Partial(version) | Self::PartialList(version) => version,
        }
    }
}

/// What is asked, as far as it decides which answers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Objects of a built-in kind; a `list` may be a watch as well.
    Builtin { list: bool },
    /// Objects of a custom kind.
    Custom,
    /// Documents and refusals: they have one form.
    Document,
}

/// What was agreed upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) media: Media,
    pub(crate) form: Form,
}

/// Picks encoding and form.
pub(crate) fn accept(
    headers: &HeaderMap,
    query: &Query,
    endpoint: Endpoint,
) -> Result<Agreed, ApiError> {
    let accepted = text(headers);
    if accepted.is_empty() {
        return Ok(Agreed { media: pretty(Media::Json, headers, query), form: Form::Plain });
    }
    if let Endpoint::Builtin { list } = endpoint
        && !produced(&accepted, list)
    {
        return Err(not_produced(list));
    }
    for clause in clauses(&accepted) {
        // A plain answer in JSON needs no work, so that protobuf is for those who take nothing else.
        if clause.subtype == ENCODINGS[2].0 && endpoint != Endpoint::Custom && takes_json(&accepted)
        {
            continue;
        }
        for (subtype, media) in ENCODINGS {
            if !clause.names(subtype) {
                continue;
            }
            if let Some(form) = clause.form(media, endpoint) {
                let human = clause.param("pretty") == Some("1") && media == Media::Json;
                let media = if human { Media::Pretty } else { pretty(media, headers, query) };
                return Ok(Agreed { media, form });
            }
        }
    }
    Err(ApiError::not_acceptable(ACCEPTED))
}

/// Picks encoding and form of a watch, which does not come in YAML.
pub(crate) fn accept_stream(headers: &HeaderMap, endpoint: Endpoint) -> Result<Agreed, ApiError> {
    let accepted = text(headers);
    if accepted.is_empty() {
        return Ok(Agreed { media: Media::Json, form: Form::Plain });
    }
    if matches!(endpoint, Endpoint::Builtin { .. }) && !produced(&accepted, true) {
        return Err(not_produced(true));
    }
    for (subtype, media) in [ENCODINGS[0], ENCODINGS[2]] {
        let named = clauses(&accepted).into_iter().filter(|clause| clause.names(subtype));
        if let Some(form) = named.into_iter().find_map(|clause| clause.form(media, endpoint)) {
            return Ok(Agreed { media, form });
        }
    }
    Err(ApiError::not_acceptable(ACCEPTED))
}

fn text(headers: &HeaderMap) -> String {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// People get indented JSON: those who ask for it, and those who come with a browser or curl.
fn pretty(media: Media, headers: &HeaderMap, query: &Query) -> Media {
    if media != Media::Json {
        return media;
    }
    let human = match query.get("pretty") {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
            agent.is_some_and(|agent| {
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
            })
        }
    };
    if human { Media::Pretty } else { Media::Json }
}

/// Whether a route of a built-in kind has any of the types that are named. Parameters do not count
/// here, and neither do patterns other than `*/*`.
fn produced(accepted: &str, list: bool) -> bool {
    accepted.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim_matches(' ');
        let types = if list { ACCEPTED_STREAMS } else { ACCEPTED };
        media == "*/*" || types.split(", ").any(|known| known == media)
    })
}

fn not_produced(list: bool) -> ApiError {
    let types = if list { ACCEPTED_STREAMS } else { ACCEPTED };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    let mut error = ApiError::plain(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message);
    error.details = Some(json!({}));
    error
}

fn takes_json(accepted: &str) -> bool {
    clauses(accepted).iter().any(|clause| {
        clause.names(ENCODINGS[0].0) && clause.form(Media::Json, Endpoint::Document).is_some()
    })
}

/// One clause of `Accept`.
struct Clause<'a> {
    main: &'a str,
    subtype: &'a str,
    quality: f64,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.trim_matches(' ').split(';');
        let media = parts.next()?;
        let (main, subtype) = match media.split_once('/') {
            Some((_, rest)) if rest.contains('/') => return None,
            Some((main, subtype)) if !subtype.is_empty() => (main.trim_matches(' '), subtype),
            _ if media.trim_matches(' ') == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause =
            Self { main, subtype: subtype.trim_matches(' '), quality: 1.0, params: Vec::new() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match key.trim_matches(' ') {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                key => clause.params.push((key, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    fn names(&self, subtype: &str) -> bool {
        let (main, sub) = (self.main, self.subtype);
        main == "application" && (sub == subtype || sub == "*") || main == "*" && sub == "*"
    }

    fn param(&self, key: &str) -> Option<&'a str> {
        self.params.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    /// The form that the clause asks for, if the endpoint has it in this encoding.
    fn form(&self, media: Media, endpoint: Endpoint) -> Option<Form> {
        if self.param("sv").is_some_and(|v| !v.is_empty())
            || self.param("stream").is_some_and(|v| v != "watch" && !v.is_empty())
        {
            return None;
        }
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        if kind.or(group).or(version).is_none() {
            // Custom kinds have no protobuf form.
            let none = media == Media::Protobuf && endpoint == Endpoint::Custom;
            return (!none).then_some(Form::Plain);
        }
        if endpoint == Endpoint::Document || group != Some("meta.k8s.io") {
            return None;
        }
        let version = match version {
            Some("v1") => MetaVersion::V1,
            Some("v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        // Tables have none either, and metadata alone is not worth a type of its own here.
        match kind {
            _ if media == Media::Protobuf => None,
            Some("Table") => Some(Form::Table(version)),
            Some("PartialObjectMetadata") => Some(Form::Partial(version)),
            Some("PartialObjectMetadataList") => Some(Form::PartialList(version)),
            _ => None,
        }
    }
}

/// The clauses, best first. The order is no total one, so that the way of sorting matters: this is
/// the real server's.
fn clauses(accepted: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = accepted.split(',').filter_map(Clause::parse).collect();
    let before = |a: &Clause<'_>, b: &Clause<'_>| {
        a.quality > b.quality
            || a.main != "*" && b.main == "*"
            || a.subtype != "*" && b.subtype == "*"
    };
    for end in 1..sorted.len() {
        for at in (1..=end).rev() {
            if !before(&sorted[at], &sorted[at - 1]) {
                break;
            }
            sorted.swap(at, at - 1);
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(text: &str, endpoint: Endpoint) -> Option<(Media, Form)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        let agreed = accept(&headers, &Query::default(), endpoint).ok()?;
        Some((agreed.media, agreed.form))
    }

    const LIST: Endpoint = Endpoint::Builtin { list: true };

    #[test]
    fn the_first_servable_clause_wins() {
        let form = |text| agreed(text, LIST).map(|(_, form)| form);
        assert_eq!(form(""), Some(Form::Plain));
        assert_eq!(form("application/json"), Some(Form::Plain));
        assert_eq!(
            form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Some(Form::Table(MetaVersion::V1))
        );
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"),
            Some(Form::Table(MetaVersion::V1Beta1))
        );
        assert_eq!(
            form("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"),
            Some(Form::Plain)
        );
        assert_eq!(form("text/html"), None);
        assert_eq!(form("application/json;v=9"), None);
    }

    #[test]
    fn the_encoding_follows_quality_and_needs_a_type_that_is_produced() {
        let media = |text, endpoint| agreed(text, endpoint).map(|(media, _)| media);
        assert_eq!(media("application/yaml", LIST), Some(Media::Yaml));
        let both = "application/yaml;q=0.1,application/json;q=0.9";
        assert_eq!(media(both, LIST), Some(Media::Json));
        assert_eq!(media("application/*", LIST), None);
        assert_eq!(media("application/*", Endpoint::Custom), Some(Media::Json));
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(media(protobuf, LIST), Some(Media::Protobuf));
        assert_eq!(media(protobuf, Endpoint::Custom), None);
        assert_eq!(media(&format!("{protobuf},application/json"), LIST), Some(Media::Json));
    }

    #[test]
    fn people_get_indented_json() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, "curl/8".parse().unwrap());
        let media = |query| {
            let query = Query::parse(query);
            accept(&headers, &query, Endpoint::Document).unwrap().media
        };
        assert_eq!(media(None), Media::Pretty);
        assert_eq!(media(Some("pretty=0")), Media::Json);
    }
}
