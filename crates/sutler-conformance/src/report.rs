//! What came of a run: as a table, and as JUnit XML.

use std::{fmt::Write as _, time::Duration};

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One for each case, in their order.
    pub results: Vec<CaseResult>,
    /// How long it took.
    pub took: Duration,
}

/// What came of one case.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// Its name: group and case.
    pub name: String,
    /// The rule that it checks.
    pub rule: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rule was kept.
    Passed,
    /// It was not asked of this platform, and why.
    Skipped(String),
    /// The rule was broken.
    Failed(Failure),
}

/// How a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong.
    pub message: String,
    /// What was sent and what came back, in order.
    pub exchanges: Vec<Exchange>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// What was sent.
    pub sent: String,
    /// What came back.
    pub received: String,
}

impl Report {
    /// The report of a provider that does not say what it can do.
    pub(crate) fn dead(why: String) -> Self {
        let failure = Failure {
            message: "nothing can be asked of a provider that does not say what it can do"
                .to_owned(),
            exchanges: vec![Exchange { sent: "capabilities".to_owned(), received: why }],
        };
        let result = CaseResult {
            name: "platform.capabilities_are_answered".to_owned(),
            rule: crate::rules::ANSWERS,
            outcome: Outcome::Failed(failure),
            took: Duration::ZERO,
        };
        Self { results: vec![result], took: Duration::ZERO }
    }

    /// Whether no rule was broken.
    pub fn is_ok(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Cases whose rule was broken.
    pub fn failures(&self) -> impl Iterator<Item = (&CaseResult, &Failure)> {
        self.results.iter().filter_map(|result| match &result.outcome {
            Outcome::Failed(failure) => Some((result, failure)),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
    }

    /// How many cases passed, were skipped and failed.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Outcome) -> bool| {
            self.results.iter().filter(|result| wanted(&result.outcome)).count()
        };
        (
            count(|outcome| matches!(outcome, Outcome::Passed)),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
        )
    }

    /// One line a case, then each failure in full.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let width = self.results.iter().map(|result| result.name.len()).max().unwrap_or(0);
        for result in &self.results {
            let (word, why) = match &result.outcome {
                Outcome::Passed => ("ok", String::new()),
                Outcome::Skipped(why) => ("skipped", why.clone()),
                Outcome::Failed(failure) => ("FAILED", failure.message.clone()),
            };
            let line = format!(
                "{:<width$}  {word:<7}  {:>8.3} s  {}",
                result.name,
                result.took.as_secs_f64(),
                why.lines().next().unwrap_or_default(),
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push_str(&self.broken());
        let (passed, skipped, failed) = self.counts();
        let _ = writeln!(
            out,
            "\n{passed} passed, {skipped} skipped, {failed} failed in {:.1} s",
            self.took.as_secs_f64()
        );
        out
    }

    /// Each failure in full.
    pub fn broken(&self) -> String {
        let mut out = String::new();
        for (result, failure) in self.failures() {
            // Writing to a string does not fail.
            let _ = write!(out, "\n{}\n{}", result.name, details(result, failure));
        }
        out
    }

    /// The same for machines.
    pub fn junit(&self) -> String {
        let (_, skipped, failed) = self.counts();
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let total = self.results.len();
        let time = self.took.as_secs_f64();
        let counts = format!(
            "tests=\"{total}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\" time=\"{time:.3}\""
        );
        let _ = writeln!(out, "<testsuites {counts}>");
        let _ = writeln!(out, "  <testsuite name=\"provider conformance\" {counts}>");
        for result in &self.results {
            let (group, name) = result.name.split_once('.').unwrap_or(("", &result.name));
            let case = format!(
                "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
                escape(group),
                escape(name),
                result.took.as_secs_f64()
            );
            let _ = match &result.outcome {
                Outcome::Passed => writeln!(out, "{case}/>"),
                Outcome::Skipped(why) => {
                    writeln!(out, "{case}><skipped message=\"{}\"/></testcase>", escape(why))
                }
                Outcome::Failed(failure) => writeln!(
                    out,
                    "{case}><failure type=\"{}\" message=\"{}\">{}</failure></testcase>",
                    escape(result.rule),
                    escape(&failure.message),
                    escape(&details(result, failure))
                ),
            };
        }
        out.push_str("  </testsuite>\n</testsuites>\n");
        out
    }
}

fn details(result: &CaseResult, failure: &Failure) -> String {
    let mut out = format!("  rule: {}\n  what: {}\n", result.rule, failure.message);
    for exchange in &failure.exchanges {
        let _ = write!(out, "  sent: {}\n  back: {}\n", exchange.sent, exchange.received);
    }
    out
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            // XML has no way to write the others.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
