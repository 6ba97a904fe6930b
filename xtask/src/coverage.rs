//! Compares line coverage with its goals: `xtask coverage FILE`, where FILE is what `cargo llvm-cov --lcov`
//! writes. Each line of a file counts once, however many functions it is a part of.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, bail, ensure};

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
    let covered = lines(&text).context(file)?;
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
fn lines(report: &str) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut files: BTreeMap<&str, BTreeMap<u64, bool>> = BTreeMap::new();
    let mut name = None;
    for line in report.lines() {
        if let Some(file) = line.strip_prefix("SF:") {
            name = Some(file);
        } else if let Some(data) = line.strip_prefix("DA:") {
            let file = name.with_context(|| format!("{line} is of no file"))?;
            let mut parts = data.split(',').map(str::parse::<u64>);
            let (Some(Ok(number)), Some(Ok(runs))) = (parts.next(), parts.next()) else {
                bail!("{line} does not say how often which line was run");
            };
            *files.entry(file).or_default().entry(number).or_default() |= runs > 0;
        }
    }
    ensure!(!files.is_empty(), "there are no files in it");
    let count = |lines: &BTreeMap<u64, bool>| {
        (lines.len() as u64, lines.values().filter(|run| **run).count() as u64)
    };
    Ok(files.into_iter().map(|(name, lines)| (name.to_owned(), count(&lines))).collect())
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
        let report = "SF:/x/a/group.rs\nDA:1,3\nDA:2,0\nend_of_record\nSF:/x/a/group/plan.rs\n\
                      DA:7,0\nDA:7,1\nDA:8,0\nDA:9,0\nend_of_record\n";
        let covered = lines(report).unwrap();
        assert_eq!(sum(&covered, &["a/group.rs", "a/group/"]).unwrap(), (5, 2));
        assert!(sum(&covered, &["a/other.rs"]).unwrap_err().to_string().contains("a/other.rs"));
        assert!(lines("").is_err() && lines("DA:1,1").is_err());
        assert!(lines("SF:/x/a.rs\nDA:1").is_err());
    }
}
