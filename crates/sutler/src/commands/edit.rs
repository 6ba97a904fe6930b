//! `sutler edit`: an object in an editor, until the server takes it or its author gives up.

use std::{fs, path::Path, process::Command};

use clap::Args;
use serde_json::{Map, Value};

use crate::{
    client::{
        api::Query,
        manifests::{self, Document},
        yaml,
    },
    commands::apply::FIELD_MANAGER,
    error::Error,
    output::{format::drop_managed_fields, status},
    session::Session,
    ui::Ui,
};

const INTRO: &str = "\
# Change the object below and save it. Lines that begin with '#' at the top are left out.
# An empty file, or one without changes, leaves everything as it is.
#
";

/// What messages call the file.
const EDITED: &str = "edited";

/// Flags of `edit`.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// KIND NAME… or KIND/NAME…
    #[arg(value_name = "KIND[/NAME]", required = true)]
    pub(crate) words: Vec<String>,
    /// Edit this subresource, such as status
    #[arg(long, value_name = "NAME")]
    pub(crate) subresource: Option<String>,
    /// Keep metadata.managedFields in what is edited
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
}

/// Edits one object after the other.
pub(crate) async fn run(session: &Session, args: &EditArgs, ui: &Ui) -> Result<(), Error> {
    for target in session.resolve("edit", &args.words).await? {
        let Some(name) = &target.name else {
            return Err(Error::Usage(format!(
                "say which {}: sutler edit {} NAME",
                target.resource.plural, target.resource.singular
            )));
        };
        let mut object = session.object(&target.resource, name).await?;
        if !args.show_managed_fields {
            drop_managed_fields(&mut object);
        }
        let mut path = target.resource.object_path(session.scope(&target.resource, false), name);
        if let Some(subresource) = &args.subresource {
            path = format!("{path}/{subresource}");
        }
        let label = target.label();
        match edit(session, &path, &label, object, ui).await? {
            true => ui.line(&format!("{label} edited"))?,
            false => ui.note(&format!("{label} is unchanged")),
        }
    }
    Ok(())
}

/// Whether the object was changed.
async fn edit(
    session: &Session,
    path: &str,
    label: &str,
    original: Value,
    ui: &Ui,
) -> Result<bool, Error> {
    let file = tempfile::Builder::new()
        .prefix("sutler-edit-")
        .suffix(".yaml")
        .tempfile()
        .map_err(|source| Error::File { path: "temporary file".into(), source })?;
    // From here on the file outlives every failure: what was typed is never lost.
    let (_, file) = file.keep().map_err(|e| Error::Failed(e.to_string()))?;
    let mut text = yaml::to_string(&original).map_err(Error::Failed)?;
    let mut refusal: Option<String> = None;
    loop {
        let shown = format!("{INTRO}{}{text}", comment(refusal.as_deref()));
        write(&file, &shown)?;
        if let Err(error) = open_editor(&file) {
            if fs::read_to_string(&file).is_ok_and(|now| now == shown) && refusal.is_none() {
                let _ = fs::remove_file(&file);
                return Err(error);
            }
            return Err(Error::Failed(format!("{error}; what you wrote is in {}", file.display())));
        }
        let edited = fs::read_to_string(&file)
            .map_err(|source| Error::File { path: file.display().to_string(), source })?;
        let body = without_intro(&edited);
        if body.trim().is_empty() || body == text {
            return match refusal {
                // Saved again as it was refused: the author gives up.
                Some(_) if body == text => Err(Error::Failed(format!(
                    "{label} was not changed; what you wrote is in {}",
                    file.display()
                ))),
                _ => {
                    let _ = fs::remove_file(&file);
                    Ok(false)
                }
            };
        }
        let lines_above = edited[..edited.len() - body.len()].matches('\n').count();
        match submit(session, path, &original, body, lines_above).await {
            Ok(changed) => {
                let _ = fs::remove_file(&file);
                return Ok(changed);
            }
            Err(message) => {
                ui.error(&message);
                text = body.to_owned();
                // The lines move, because this message goes on top of them.
                let above = INTRO.lines().count() + comment(Some(&message)).lines().count();
                refusal = Some(renumber(&message, lines_above, above));
            }
        }
    }
}

/// Sends what changed. The message of a refusal names lines as the file had them.
async fn submit(
    session: &Session,
    path: &str,
    original: &Value,
    body: &str,
    lines_above: usize,
) -> Result<bool, String> {
    let padded = format!("{}{body}", "\n".repeat(lines_above));
    let mut documents = manifests::parse(EDITED, &padded).map_err(|e| e.to_string())?;
    if documents.len() != 1 {
        return Err(format!("the file holds {} objects instead of one", documents.len()));
    }
    let document: Document = documents.remove(0).map_err(|e| e.to_string())?;
    for field in ["apiVersion", "kind"] {
        if document.value[field] != original[field] {
            return Err(format!("{}: {field} cannot be changed", document.place(field)));
        }
    }
    if document.name() != original["metadata"]["name"].as_str().unwrap_or_default() {
        return Err(format!(
            "{}: metadata.name cannot be changed",
            document.place("metadata.name")
        ));
    }
    let Some(patch) = merge_patch(original, &document.value) else { return Ok(false) };
    let url = Query::default()
        .with("fieldManager", format!("{FIELD_MANAGER}-edit"))
        .with("fieldValidation", "Strict")
        .on(path);
    match session.api.patch(&url, "application/merge-patch+json", &patch).await {
        Ok(_) => Ok(true),
        Err(error) => Err(status::explain(&error, Some(&document))),
    }
}

/// The merge patch that makes `to` of `from`; none where they are equal.
fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in before.keys().filter(|k| !after.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            None => drop(patch.insert(key.clone(), value.clone())),
            Some(old) => {
                if let Some(change) = merge_patch(old, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    Some(Value::Object(patch))
}

/// The message for a file that has another number of lines above the object.
fn renumber(message: &str, before: usize, after: usize) -> String {
    let mark = format!("{EDITED}:");
    let mut parts = message.split(&mark);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        text.push_str(&mark);
        match part[..end].parse::<usize>() {
            Ok(line) => text.push_str(&(line + after).saturating_sub(before).to_string()),
            Err(_) => text.push_str(&part[..end]),
        }
        text.push_str(&part[end..]);
    }
    text
}

fn comment(refusal: Option<&str>) -> String {
    let Some(refusal) = refusal else { return String::new() };
    let lines: String = refusal.lines().map(|line| format!("# {line}\n")).collect();
    format!("# This was refused:\n{lines}#\n")
}

/// The text behind the comments at the top, which we wrote.
fn without_intro(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    rest
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(|source| Error::File { path: file.display().to_string(), source })
}

/// Runs the editor through a shell, so that `code --wait` works as everywhere.
fn open_editor(file: &Path) -> Result<(), Error> {
    let editor = ["SUTLER_EDITOR", "KUBE_EDITOR", "VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.trim().is_empty()))
        .unwrap_or_else(|| "vi".to_owned());
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sutler-edit"])
        .arg(file)
        .status()
        .map_err(|e| Error::Failed(format!("cannot start {editor:?}: {e}")))?;
    if !status.success() {
        return Err(Error::Failed(format!(
            "{editor:?} ended with {status}: set $EDITOR to an editor that works"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_hold_what_changed_only() {
        let from = json!({"a": 1, "b": {"c": 1, "d": 2}, "l": [1, 2], "gone": 1});
        let to = json!({"a": 1, "b": {"c": 1, "d": 3}, "l": [1], "new": {"x": 1}});
        assert_eq!(
            merge_patch(&from, &to),
            Some(json!({"b": {"d": 3}, "l": [1], "new": {"x": 1}, "gone": null}))
        );
        assert_eq!(merge_patch(&from, &from), None);
    }

    #[test]
    fn lines_are_those_of_the_file_that_is_opened_next() {
        assert_eq!(
            renumber("bad\n  edited:17:3: x\n  edited:4:1: 9", 3, 7),
            "bad\n  edited:21:3: x\n  edited:8:1: 9"
        );
        assert_eq!(renumber("edited: no place", 3, 7), "edited: no place");
    }

    #[test]
    fn comments_of_ours_are_cut_and_others_stay() {
        let text = format!("{INTRO}{}spec:\n  # mine\n  a: 1\n", comment(Some("one\ntwo")));
        assert_eq!(without_intro(&text), "spec:\n  # mine\n  a: 1\n");
        assert!(text.contains("# one\n# two\n"));
        assert_eq!(without_intro("# only"), "");
    }
}
