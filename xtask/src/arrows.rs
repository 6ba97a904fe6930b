//! The arrows between crates: ARCHITECTURE.md's table must say what `cargo metadata` says.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

type Arrows = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check() -> Result<()> {
    let (real, without_lints) = from_cargo()?;
    let written = from_document()?;
    let mut wrong = Vec::new();
    for (krate, uses) in &real {
        match written.get(krate) {
            None => wrong.push(format!("{krate} is not in the table of ARCHITECTURE.md")),
            Some(allowed) => wrong.extend(
                uses.difference(allowed)
                    .map(|used| format!("{krate} uses {used}, which the table does not allow")),
            ),
        }
    }
    let gone = written.keys().filter(|krate| !real.contains_key(*krate));
    wrong.extend(gone.map(|krate| format!("{krate} is in the table and not in the workspace")));
    wrong.extend(
        without_lints.iter().map(|krate| format!("{krate} does not take the workspace's lints")),
    );
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n  "));
    }
    println!("arrows: {} crates are as ARCHITECTURE.md says", real.len());
    Ok(())
}

/// Each crate's dependencies within the workspace, tests aside; and crates without our lints.
fn from_cargo() -> Result<(Arrows, Vec<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .context("cargo metadata did not run")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("metadata has no packages")?;
    let names: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut arrows = Arrows::new();
    let mut without_lints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let manifest = package["manifest_path"].as_str().context("a package has no manifest")?;
        let text = std::fs::read_to_string(manifest)?;
        if !text.contains("[lints]\nworkspace = true") {
            without_lints.push(name.to_owned());
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let uses = dependencies
            .filter(|d| d["kind"] != "dev")
            .filter_map(|d| d["name"].as_str())
            .filter(|d| names.contains(d))
            .map(str::to_owned)
            .collect();
        arrows.insert(name.to_owned(), uses);
    }
    Ok((arrows, without_lints))
}

/// The rows `| `crate` | owns | uses |` of the table under "Crates and arrows".
fn from_document() -> Result<Arrows> {
    let text = std::fs::read_to_string("ARCHITECTURE.md").context("ARCHITECTURE.md")?;
    let mut arrows = Arrows::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells.as_slice() else { continue };
        arrows.insert(words(name).next().unwrap_or_default(), words(uses).collect());
    }
    if arrows.is_empty() {
        bail!("ARCHITECTURE.md has no table of crates");
    }
    Ok(arrows)
}

/// The words in backticks.
fn words(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}
