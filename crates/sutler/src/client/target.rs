//! What a command is about: `vm web`, `vm/web ns/prod`, `vm,provider`.

/// One kind, and one object of it or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The kind, as typed.
    pub(crate) kind: String,
    /// The object's name; absent is every object.
    pub(crate) name: Option<String>,
}

/// The words after a command do not say what is meant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    /// No kind at all.
    #[error(
        "say which kind: for example `sutler {0} vm`, `sutler {0} vm web` or `sutler {0} vm/web`"
    )]
    Missing(&'static str),
    /// `vm/a b`.
    #[error(
        "{0:?} has no kind: write every object as KIND/NAME, or name one kind in front of all names"
    )]
    Mixed(String),
    /// `vm/` or `/a`.
    #[error("{0:?} is not KIND/NAME")]
    Incomplete(String),
}

/// Reads the words after `command`.
pub(crate) fn parse(command: &'static str, words: &[String]) -> Result<Vec<Target>, Error> {
    let Some((first, names)) = words.split_first() else { return Err(Error::Missing(command)) };
    let all = |kind: &str| Target { kind: kind.to_owned(), name: None };
    if !first.contains('/') {
        let kinds: Vec<&str> = first.split(',').filter(|k| !k.is_empty()).collect();
        if kinds.is_empty() {
            return Err(Error::Missing(command));
        }
        if names.is_empty() {
            return Ok(kinds.into_iter().map(all).collect());
        }
        if let Some(pair) = names.iter().find(|n| n.contains('/')) {
            return Err(Error::Mixed(if names.len() == 1 { first.clone() } else { pair.clone() }));
        }
        return Ok(kinds
            .iter()
            .flat_map(|kind| {
                names.iter().map(|n| Target { kind: (*kind).to_owned(), name: Some(n.clone()) })
            })
            .collect());
    }
    words
        .iter()
        .map(|word| match word.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
                Ok(Target { kind: kind.to_owned(), name: Some(name.to_owned()) })
            }
            Some(_) => Err(Error::Incomplete(word.clone())),
            None => Err(Error::Mixed(word.clone())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Vec<(String, Option<String>)>, Error> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Ok(parse("get", &words)?.into_iter().map(|t| (t.kind, t.name)).collect())
    }

    #[test]
    fn kinds_names_and_pairs_are_read() {
        let some = |k: &str, n: &str| (k.to_owned(), Some(n.to_owned()));
        assert_eq!(read("vm").unwrap(), [("vm".to_owned(), None)]);
        assert_eq!(read("vm,prov").unwrap().len(), 2);
        assert_eq!(read("vm a b").unwrap(), [some("vm", "a"), some("vm", "b")]);
        assert_eq!(read("vm/a prov/b").unwrap(), [some("vm", "a"), some("prov", "b")]);
    }

    #[test]
    fn unclear_words_are_refused() {
        assert_eq!(read(""), Err(Error::Missing("get")));
        assert_eq!(read(","), Err(Error::Missing("get")));
        assert!(matches!(read("vm/a b"), Err(Error::Mixed(_))));
        assert!(matches!(read("vm a/b"), Err(Error::Mixed(_))));
        assert!(matches!(read("vm/"), Err(Error::Incomplete(_))));
    }
}
