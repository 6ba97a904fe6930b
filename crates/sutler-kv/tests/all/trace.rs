//! What strace wrote: the calls of a process, and whether a sync came between two of them. The
//! tests of the whole server include this file, too.

use std::collections::BTreeMap;
use std::path::Path;

/// A call as the trace has it: the lines where it begins and ends, and what stands in between.
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) rest: &'a str,
    result: Option<&'a str>,
    begun: usize,
    ended: usize,
}

impl<'a> Call<'a> {
    /// What its first argument is open on.
    pub(crate) fn file(&self) -> Option<&'a str> {
        self.rest.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(file, _)| file)
    }

    fn is_on(&self, name: &str) -> bool {
        self.file().is_some_and(|file| Path::new(file).ends_with(name))
    }
}

/// Joins calls that the trace has in two parts, because another thread's came in between.
pub(crate) fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, line)) = line.split_once(' ') else { continue };
        let line = line.trim_start();
        let result = line.rsplit_once(" = ").map(|(_, result)| result.trim());
        if line.starts_with("<... ") {
            if let Some(call) = open.remove(thread) {
                calls[call].ended = at;
                calls[call].result = result;
            }
        } else if let Some((name, rest)) = line.split_once('(') {
            let unfinished = rest.ends_with("<unfinished ...>");
            if unfinished {
                open.insert(thread, calls.len());
            }
            let ended = if unfinished { usize::MAX } else { at };
            let result = if unfinished { None } else { result };
            calls.push(Call { name, rest, result, begun: at, ended });
        }
    }
    calls
}

/// Checks that between the end of the call that first appends `mark` to the file `log` and the
/// beginning of the next call that `answers`, a sync of that file begins and succeeds.
pub(crate) fn check(
    calls: &[Call<'_>],
    log: &str,
    mark: &str,
    answers: impl Fn(&Call<'_>) -> bool,
) -> Result<(), String> {
    let appended = calls
        .iter()
        .find(|call| call.name == "pwrite64" && call.is_on(log) && call.rest.contains(mark))
        .ok_or_else(|| format!("{mark} was never appended"))?;
    let answer = calls
        .iter()
        .find(|call| answers(call) && call.begun > appended.begun)
        .ok_or_else(|| format!("{mark} was never answered"))?;
    calls
        .iter()
        .find(|call| {
            matches!(call.name, "fsync" | "fdatasync")
                && call.is_on(log)
                && call.result == Some("0")
                && call.begun > appended.ended
                && call.ended < answer.begun
        })
        .map(|_| ())
        .ok_or_else(|| format!("{mark} was answered before it was synced"))
}
