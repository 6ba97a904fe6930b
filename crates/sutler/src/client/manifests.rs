//! Manifests: files, folders and standard input, YAML or JSON, any number of documents each.

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::yaml::{self, Node, Position, SyntaxError};

/// An object from a file, and where it stands there.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The file's name, as it was given.
    pub(crate) file: String,
    /// The object with its positions.
    pub(crate) node: Node,
    /// The object.
    pub(crate) value: Value,
}

impl Document {
    /// `file:line:column` of a field.
    pub(crate) fn place(&self, field: &str) -> String {
        Place { file: &self.file, at: self.node.locate(field) }.to_string()
    }

    /// `apiVersion`.
    pub(crate) fn api_version(&self) -> &str {
        self.value["apiVersion"].as_str().unwrap_or_default()
    }

    /// `kind`.
    pub(crate) fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// `metadata.name`.
    pub(crate) fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str().filter(|ns| !ns.is_empty())
    }
}

struct Place<'a> {
    file: &'a str,
    at: Position,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.line {
            0 => f.write_str(self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.at.column),
        }
    }
}

/// A file or an object in it that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// Which file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is no YAML or JSON.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: String,
        /// What.
        message: String,
    },
    /// The document is no object that can be sent.
    #[error("{place}: {message}")]
    Object {
        /// Where.
        place: String,
        /// What is wrong and how to mend it.
        message: String,
    },
    /// A folder without manifests.
    #[error("{folder}: no .yaml, .yml or .json file in this folder{}", if *.recursive { "" } else { " (-R looks into folders below it)" })]
    Empty {
        /// Which folder.
        folder: String,
        /// Whether folders below were looked into.
        recursive: bool,
    },
}

/// Reads everything that `-f` names. What can be read is in the first list, the rest in the
/// second: one broken file does not hide the others.
pub(crate) fn load(paths: &[PathBuf], recursive: bool) -> (Vec<Document>, Vec<Error>) {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let files = match expand(path, recursive) {
            Ok(files) => files,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for file in files {
            match read(&file) {
                Ok((name, text)) => match parse(&name, &text) {
                    Ok(found) => {
                        for result in found {
                            match result {
                                Ok(document) => documents.push(document),
                                Err(error) => errors.push(error),
                            }
                        }
                    }
                    Err(error) => errors.push(error),
                },
                Err(error) => errors.push(error),
            }
        }
    }
    (documents, errors)
}

/// The objects of one text; lists are taken apart. Broken syntax refuses the whole text, a broken
/// object only itself.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Result<Document, Error>>, Error> {
    let syntax = |e: SyntaxError| Error::Syntax {
        place: Place { file, at: e.at }.to_string(),
        message: e.message,
    };
    let nodes = match text.trim_start().starts_with('{') {
        true => parse_json(text).map_err(syntax)?,
        false => yaml::parse(text).map_err(syntax)?,
    };
    let mut documents = Vec::new();
    for node in nodes {
        collect(file, node, &mut documents);
    }
    Ok(documents)
}

fn expand(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Error> {
    if path.as_os_str() == "-" || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    walk(path, recursive, &mut files)
        .map_err(|source| Error::Read { file: path.display().to_string(), source })?;
    if files.is_empty() {
        return Err(Error::Empty { folder: path.display().to_string(), recursive });
    }
    Ok(files)
}

fn walk(folder: &Path, recursive: bool, into: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            if recursive {
                walk(&entry, recursive, into)?;
            }
            continue;
        }
        let extension = entry.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") {
            into.push(entry);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<(String, String), Error> {
    let stdin = path.as_os_str() == "-";
    let file = if stdin { "<stdin>".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    let result = match stdin {
        true => io::stdin().lock().read_to_string(&mut text).map(drop),
        false => fs::read_to_string(path).map(|read| text = read),
    };
    result.map_err(|source| Error::Read { file: file.clone(), source })?;
    Ok((file, text))
}

/// JSON, one value after another. Each is read a second time as YAML, of which it is a part, for
/// its positions and for doubled keys; what only JSON allows goes without positions.
fn parse_json(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut nodes = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut start = 0;
    while let Some(next) = stream.next() {
        let value = next.map_err(|e| SyntaxError {
            at: Position { line: e.line() as u64, column: e.column() as u64 },
            message: {
                let mut message = e.to_string();
                if let Some(cut) = message.rfind(" at line ") {
                    message.truncate(cut);
                }
                message
            },
        })?;
        let end = stream.byte_offset();
        let lines = text[..start].matches('\n').count() as u64;
        match yaml::parse(&text[start..end]) {
            Ok(mut parsed) if parsed.len() == 1 => {
                let mut node = parsed.remove(0);
                node.shift(lines);
                nodes.push(node);
            }
            Err(mut error) if error.message.contains("duplicate") => {
                error.at.line += lines;
                return Err(error);
            }
            _ => nodes.push(Node::from(value)),
        }
        start = end;
    }
    Ok(nodes)
}

fn collect(file: &str, node: Node, into: &mut Vec<Result<Document, Error>>) {
    let value = node.to_value();
    let is_list = value["kind"].as_str().is_some_and(|k| k.ends_with("List"));
    if is_list && let Some(yaml::Data::List(items)) = node.get("items").map(|n| &n.data) {
        for item in items {
            collect(file, item.clone(), into);
        }
        return;
    }
    let document = Document { file: file.to_owned(), node, value };
    into.push(check(document));
}

fn check(document: Document) -> Result<Document, Error> {
    let missing = |field: &str, fix: &str| Error::Object {
        place: document.place(field),
        message: format!("{field} is missing: {fix}"),
    };
    if !document.value.is_object() {
        return Err(Error::Object {
            place: document.place(""),
            message: "this document is no mapping: an object has apiVersion, kind and metadata"
                .into(),
        });
    }
    for field in ["apiVersion", "kind", "metadata.name", "metadata.namespace"] {
        let pointer = format!("/{}", field.replace('.', "/"));
        let found = document.value.pointer(&pointer).filter(|v| !v.is_string() && !v.is_null());
        if let Some(found) = found {
            return Err(Error::Object {
                place: document.place(field),
                message: format!("{field} is read as {found}, and must be text: quote it"),
            });
        }
    }
    if document.api_version().is_empty() {
        return Err(missing("apiVersion", "write the group and version, as `sutler kinds` shows"));
    }
    if document.kind().is_empty() {
        return Err(missing("kind", "write the kind, as `sutler kinds` shows"));
    }
    if document.name().is_empty() {
        return Err(missing("metadata.name", "give the object a name"));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "apiVersion: v1\nkind: A\nmetadata:\n  name: x\n---\napiVersion: v1\nkind: B\nmetadata: {name: web}\nspec:\n  size: 1\n";

    #[test]
    fn documents_know_their_place() {
        let documents: Vec<_> =
            parse("f.yaml", TWO).unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].place("metadata.name"), "f.yaml:4:3");
        assert_eq!(documents[1].place("spec.size"), "f.yaml:10:3");
        assert_eq!((documents[1].kind(), documents[1].name()), ("B", "web"));
    }

    #[test]
    fn json_streams_and_lists_are_taken_apart() {
        let text = "{\"apiVersion\":\"v1\",\"kind\":\"A\",\n \"metadata\":{\"name\":\"x\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n {\"apiVersion\":\"v1\",\"kind\":\"B\",\"metadata\":{\"name\":\"y\"}}]}";
        let documents: Vec<_> =
            parse("f.json", text).unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(documents.iter().map(Document::kind).collect::<Vec<_>>(), ["A", "B"]);
        assert!(
            documents[1].place("kind").starts_with("f.json:4:"),
            "{}",
            documents[1].place("kind")
        );
    }

    #[test]
    fn mistakes_name_file_line_and_column() {
        let error = parse("f.yaml", "a: [1\nb: 2\n").unwrap_err().to_string();
        assert!(error.starts_with("f.yaml:"), "{error}");
        let error = parse("f.json", "{\"a\": 1,\n \"b\" 2}").unwrap_err().to_string();
        assert!(error.starts_with("f.json:2:"), "{error}");
        let error = parse("f.json", "{\"a\": 1,\n \"a\": 2}").unwrap_err().to_string();
        assert!(error.starts_with("f.json:2:") && error.contains("duplicate"), "{error}");
    }

    #[test]
    fn objects_without_identity_are_refused_alone() {
        let text = "kind: A\nmetadata: {name: x}\n---\napiVersion: v1\nkind: B\nmetadata:\n  generateName: y-\n---\napiVersion: v1\nkind: C\nmetadata: {name: z}\n---\njust text\n---\napiVersion: v1\nkind: D\nmetadata: {name: yes}\n";
        let results = parse("f.yaml", text).unwrap();
        let errors: Vec<String> =
            results.iter().filter_map(|r| r.as_ref().err().map(ToString::to_string)).collect();
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(errors[0].contains("apiVersion is missing"), "{errors:?}");
        assert!(errors[1].starts_with("f.yaml:6:1: metadata.name is missing"), "{errors:?}");
        assert!(errors[2].contains("no mapping"), "{errors:?}");
        assert!(errors[3].contains("metadata.name is read as true"), "{errors:?}");
    }

    #[test]
    fn folders_are_read_in_order_and_broken_files_do_not_hide_others() {
        let folder = tempfile::tempdir().unwrap();
        let sub = folder.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let write = |path: PathBuf, text: &str| fs::write(path, text).unwrap();
        write(folder.path().join("b.yaml"), "apiVersion: v1\nkind: B\nmetadata: {name: b}\n");
        write(folder.path().join("a.yml"), "a: [");
        write(folder.path().join("note.txt"), "a: [");
        write(sub.join("c.json"), r#"{"apiVersion":"v1","kind":"C","metadata":{"name":"c"}}"#);
        let (documents, errors) = load(&[folder.path().to_owned()], false);
        assert_eq!((documents.len(), errors.len()), (1, 1));
        let (documents, _) = load(&[folder.path().to_owned()], true);
        assert_eq!(documents.len(), 2);
        let (_, errors) = load(&[folder.path().join("none.yaml")], false);
        assert!(errors[0].to_string().contains("none.yaml"));
    }
}
