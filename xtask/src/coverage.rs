//! Compares line coverage with its goals: `xtask coverage FILE`, where FILE is what `cargo llvm-cov --json`
//! writes.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// A part of the code: its name, the least share of its lines in percent, and its files, or folders with a
/// slash at their end.
type Part = (&'static str, u64, &'static [&'static str]);

const PARTS: [Part; 5] = [
    (
        "discovery",
        85,
        &[
            "crates/sutler-control/src/claims.rs",
            "crates/sutler-control/src/fresh.rs",
            "crates/sutler-control/src/index.rs",
            "crates/sutler-control/src/index/",
            "crates/sutler-control/src/plan/find.rs",
            "crates/sutler-control/src/plan/row.rs",
            "crates/sutler-nodes/src/node/discoverer.rs",
            "crates/sutler-provider/src/inventory/keeper.rs",
            "crates/sutler-provider/src/inventory/view.rs",
        ],
    ),
    (
        "joiner",
        80,
        &["crates/sutler-nodes/src/node/joiner.rs", "crates/sutler-nodes/src/cluster/index.rs"],
    ),
    ("drainer", 80, &["crates/sutler-nodes/src/node/drainer.rs"]),
    (
        "terminator",
        80,
        &["crates/sutler-nodes/src/node/execute.rs", "crates/sutler-nodes/src/node/plan.rs"],
    ),
    ("NodeGroup", 80, &["crates/sutler-nodes/src/group.rs", "crates/sutler-nodes/src/group/"]),
];

/// Prints how much of each part is covered, and fails where that is too little.
pub(crate) fn check() -> Result<()> {
    let file = std::env::args().nth(2).context("usage: xtask coverage FILE")?;
    let text = fs::read_to_string(&file).with_context(|| file.clone())?;
    let report: Value = serde_json::from_str(&text).context(file)?;
    let covered = lines(&report)?;
    let mut short = Vec::new();
    for (name, goal, files) in PARTS {
        let (all, run) = sum(&covered, files)?;
        println!("{name}: {run} of {all} lines, {:.1} % (goal {goal} %)", percent(run, all));
        if run * 100 < goal * all {
            short.push(name);
        }
    }
    match short.is_empty() {
        true => Ok(()),
        false => bail!("too little of {} is covered", short.join(", ")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn percent(run: u64, all: u64) -> f64 {
    run as f64 * 100.0 / all as f64
}

/// Lines of each file, and how many of them were run.
fn lines(report: &Value) -> Result<BTreeMap<String, (u64, u64)>> {
    let files = report["data"][0]["files"].as_array().context("there are no files in it")?;
    let read = |file: &Value| {
        let lines = &file["summary"]["lines"];
        Some((
            file["filename"].as_str()?.to_owned(),
            (lines["count"].as_u64()?, lines["covered"].as_u64()?),
        ))
    };
    files.iter().map(|file| read(file).context("a file without lines")).collect()
}

fn sum(covered: &BTreeMap<String, (u64, u64)>, files: &[&str]) -> Result<(u64, u64)> {
    let mut sum = (0, 0);
    for wanted in files {
        let is = |name: &str| match wanted.ends_with('/') {
            true => name.contains(&format!("/{wanted}")),
            false => name.ends_with(&format!("/{wanted}")),
        };
        let found = covered.iter().filter(|(name, _)| is(name)).map(|(_, lines)| *lines);
        let (all, run) = found.fold((0, 0), |(all, run), (a, r)| (all + a, run + r));
        ensure!(all > 0, "nothing is known of {wanted}: has it been moved?");
        sum = (sum.0 + all, sum.1 + run);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_counted_together_and_what_is_missing_is_named() {
        let file = |name: &str, all: u64, run: u64| serde_json::json!({"filename": name, "summary": {"lines": {"count": all, "covered": run}}});
        let files = [file("/x/a/group.rs", 10, 9), file("/x/a/group/plan.rs", 20, 10)];
        let report = serde_json::json!({ "data": [{ "files": files }] });
        let covered = lines(&report).unwrap();
        assert_eq!(sum(&covered, &["a/group.rs", "a/group/"]).unwrap(), (30, 19));
        assert!(sum(&covered, &["a/other.rs"]).unwrap_err().to_string().contains("a/other.rs"));
        assert!(lines(&Value::Null).is_err());
    }
}
