//! Figures side by side.

use std::time::Duration;

use crate::load::Figures;

/// One row: what, ours, theirs, and how many times better ours is.
pub(crate) struct Row {
    what: &'static str,
    ours: String,
    theirs: String,
    ratio: Option<f64>,
    goal: &'static str,
}

/// All rows, with ratios.
pub(crate) fn compare(ours: &Figures, theirs: &Figures, in_process: f64) -> Vec<Row> {
    let rate = |what, ours: f64, theirs: f64, goal| Row {
        what,
        ours: format!("{ours:.0}/s"),
        theirs: format!("{theirs:.0}/s"),
        ratio: Some(ours / theirs),
        goal,
    };
    let time = |what, ours: Duration, theirs: Duration, goal| Row {
        what,
        ours: format!("{:.1} ms", millis(ours)),
        theirs: format!("{:.1} ms", millis(theirs)),
        ratio: Some(millis(theirs) / millis(ours)),
        goal,
    };
    let memory = |what, ours: u64, theirs: u64, goal| Row {
        what,
        ours: format!("{:.0} MB", megabytes(ours)),
        theirs: format!("{:.0} MB", megabytes(theirs)),
        ratio: Some(megabytes(theirs) / megabytes(ours)),
        goal,
    };
    let mut rows = vec![
        rate("creates, HTTPS, 64 in flight", ours.creates, theirs.creates, "3x"),
        rate("creates, in process", in_process, theirs.creates, "10x"),
        rate("updates, HTTPS, 64 in flight", ours.updates, theirs.updates, ""),
        time("page of 500, median", ours.page, theirs.page, "5x"),
        time("all pages", ours.pages, theirs.pages, ""),
        time("whole list", ours.whole, theirs.whole, ""),
        rate("fan-out, events", ours.fan_out, theirs.fan_out, ""),
        memory("RSS with all objects", ours.rss_loaded, theirs.rss_loaded, "8x"),
        memory("RSS with watchers", ours.rss_watched, theirs.rss_watched, ""),
    ];
    if let (Some(ours), Some(theirs)) = (ours.start, theirs.start) {
        rows.push(time("start until serving", ours, theirs, "200 ms"));
    }
    rows
}

/// The rows without a peer.
pub(crate) fn alone(ours: &Figures, in_process: f64) -> Vec<Row> {
    let mut rows = compare(ours, ours, in_process);
    for row in &mut rows {
        row.theirs = "-".into();
        row.ratio = None;
    }
    rows
}

/// Prints the table.
pub(crate) fn print(rows: &[Row]) {
    println!("\n{:<32} {:>12} {:>14} {:>8} {:>8}", "", "ours", "kube-apiserver", "ratio", "goal");
    for row in rows {
        let ratio = row.ratio.map_or_else(|| "-".into(), |r| format!("{r:.1}x"));
        println!("{:<32} {:>12} {:>14} {ratio:>8} {:>8}", row.what, row.ours, row.theirs, row.goal);
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
