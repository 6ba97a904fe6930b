//! What is on a simulated hypervisor, read from its folder while its server runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

/// The machines of the platform in this folder, by ID. A line that is being written is left out.
pub(crate) fn machines(folder: &Path) -> BTreeMap<String, Value> {
    present(folder, "machine")
}

/// The disks that outlive their machines on the platform in this folder, by key.
pub(crate) fn kept(folder: &Path) -> BTreeMap<String, Value> {
    present(folder, "kept")
}

fn present(folder: &Path, what: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    changes(folder, what, |id, row| {
        match row {
            Value::Null => found.remove(id),
            row => found.insert(id.to_owned(), row.clone()),
        };
    });
    found
}

/// The IDs of all machines that were ever there, as far back as the file goes.
pub(crate) fn ever(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    changes(folder, "machine", |id, _| {
        found.insert(id.to_owned());
    });
    found
}

fn changes(folder: &Path, what: &str, mut take: impl FnMut(&str, &Value)) {
    let Some(file) = newest(folder) else { return };
    let text = std::fs::read(file).unwrap();
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let changes: Vec<Value> = serde_json::from_slice(line).unwrap();
        for change in changes {
            let Some([Value::String(id), row]) = change[what].as_array().map(Vec::as_slice) else {
                continue;
            };
            take(id, row);
        }
    }
}

fn newest(folder: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| {
            let number = path.file_name()?.to_str()?.strip_prefix("state.")?.parse::<u64>().ok()?;
            Some((number, path))
        })
        .max()
        .map(|(_, path)| path)
}
