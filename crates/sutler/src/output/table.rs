//! Tables: the server's rows and columns, aligned.

use serde_json::Value;

use crate::ui::Tone;

/// Room between columns.
const GAP: &str = "   ";

/// What is shown of a server's table.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Columns of every priority.
    pub(crate) wide: bool,
    /// A first column with the namespace.
    pub(crate) namespace: bool,
    /// Names begin with `kind/`; this is the kind.
    pub(crate) kind: Option<String>,
    /// A last column with all labels.
    pub(crate) labels: bool,
    /// Columns with these labels.
    pub(crate) label_columns: Vec<String>,
    /// No line with column names.
    pub(crate) no_headers: bool,
    /// Colours.
    pub(crate) color: bool,
}

/// A printer of rows that stay aligned while more of them come.
#[derive(Debug, Default)]
pub(crate) struct Table {
    view: View,
    columns: Vec<Column>,
    widths: Vec<usize>,
    headed: bool,
}

#[derive(Debug, Clone)]
struct Column {
    index: usize,
    name: String,
    is_name: bool,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(view: View) -> Self {
        Self { view, ..Self::default() }
    }

    /// Renders the rows of a `Table` from the server, headed once. Later tables may leave their
    /// columns out, as those of a watch do.
    pub(crate) fn render(&mut self, table: &Value) -> String {
        if let Some(definitions) = table["columnDefinitions"].as_array()
            && !definitions.is_empty()
        {
            self.columns = self.choose(definitions);
        }
        let rows: Vec<Vec<String>> =
            table["rows"].as_array().into_iter().flatten().map(|row| self.cells(row)).collect();
        let mut lines = Vec::new();
        if !self.headed && !self.view.no_headers && !rows.is_empty() {
            lines.push(self.header());
        }
        self.headed |= !rows.is_empty();
        let headers = lines.len();
        lines.extend(rows);
        self.widths = widths(&lines, &self.widths);
        align(&lines, headers, &self.widths, self.view.color)
    }

    fn choose(&self, definitions: &[Value]) -> Vec<Column> {
        definitions
            .iter()
            .enumerate()
            .filter(|(_, d)| self.view.wide || d["priority"].as_i64().unwrap_or(0) == 0)
            .map(|(index, d)| Column {
                index,
                name: d["name"].as_str().unwrap_or_default().to_uppercase(),
                is_name: d["format"] == "name" || index == 0,
            })
            .collect()
    }

    fn header(&self) -> Vec<String> {
        let mut cells = Vec::new();
        if self.view.namespace {
            cells.push("NAMESPACE".to_owned());
        }
        cells.extend(self.columns.iter().map(|c| c.name.clone()));
        for label in &self.view.label_columns {
            cells.push(label.rsplit('/').next().unwrap_or(label).to_uppercase());
        }
        if self.view.labels {
            cells.push("LABELS".to_owned());
        }
        cells
    }

    fn cells(&self, row: &Value) -> Vec<String> {
        let metadata = &row["object"]["metadata"];
        let mut cells = Vec::new();
        if self.view.namespace {
            cells.push(cell(&metadata["namespace"]));
        }
        for column in &self.columns {
            let text = cell(&row["cells"][column.index]);
            match &self.view.kind {
                Some(kind) if column.is_name => cells.push(format!("{kind}/{text}")),
                _ => cells.push(text),
            }
        }
        for label in &self.view.label_columns {
            cells.push(cell(&metadata["labels"][label]));
        }
        if self.view.labels {
            let labels: Vec<String> = metadata["labels"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
                .collect();
            cells.push(if labels.is_empty() { "<none>".into() } else { labels.join(",") });
        }
        cells
    }
}

/// Rows of our own making, headed and aligned.
pub(crate) fn simple(header: &[&str], rows: Vec<Vec<String>>, color: bool) -> String {
    let mut lines = vec![header.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let widths = widths(&lines, &[]);
    align(&lines, 1, &widths, color)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => match text.split_once('\n') {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

fn widths(lines: &[Vec<String>], before: &[usize]) -> Vec<usize> {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0).max(before.len());
    (0..count)
        .map(|i| {
            let widest = lines.iter().filter_map(|l| l.get(i)).map(|c| c.chars().count()).max();
            widest.unwrap_or(0).max(before.get(i).copied().unwrap_or(0))
        })
        .collect()
}

fn align(lines: &[Vec<String>], headers: usize, widths: &[usize], color: bool) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (i, cell) in line.iter().enumerate() {
            let tone = if number < headers { Tone::Bold } else { Tone::of_state(cell) };
            text.push_str(&tone.paint(cell, color));
            if i + 1 < line.len() {
                let room = widths.get(i).copied().unwrap_or(0).saturating_sub(cell.chars().count());
                text.extend(std::iter::repeat_n(' ', room));
                text.push_str(GAP);
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Value {
        json!({"kind": "Table", "columnDefinitions": [
                {"name": "Name", "format": "name", "priority": 0},
                {"name": "Phase", "priority": 0}, {"name": "Host", "priority": 1}],
            "rows": [
                {"cells": ["web", "Running", "h1"], "object": {"metadata": {"namespace": "a", "labels": {"app": "x", "b": "y"}}}},
                {"cells": ["long-name", null, "h2"], "object": {"metadata": {"namespace": "b"}}}]})
    }

    #[test]
    fn columns_are_aligned_and_chosen() {
        assert_eq!(
            Table::new(View::default()).render(&table()),
            "NAME        PHASE\nweb         Running\nlong-name   <none>\n"
        );
        let view = View { wide: true, namespace: true, ..View::default() };
        assert_eq!(
            Table::new(view).render(&table()),
            "NAMESPACE   NAME        PHASE     HOST\na           web         Running   h1\nb           long-name   <none>    h2\n"
        );
        let view = View {
            labels: true,
            label_columns: vec!["x.io/app".into(), "app".into()],
            kind: Some("vm.g".into()),
            no_headers: true,
            ..View::default()
        };
        assert_eq!(
            Table::new(view).render(&table()),
            "vm.g/web         Running   <none>   x        app=x,b=y\nvm.g/long-name   <none>    <none>   <none>   <none>\n"
        );
    }

    #[test]
    fn later_rows_keep_the_widths_and_need_no_columns() {
        let mut printer = Table::new(View::default());
        printer.render(&table());
        let more = json!({"rows": [{"cells": ["db", "Failed", "h"], "object": {}}]});
        assert_eq!(printer.render(&more), "db          Failed\n");
    }

    #[test]
    fn many_lines_become_one_and_colours_do_not_count() {
        let rows = vec![vec!["Running".into(), "x".into()], vec!["b".into(), "y".into()]];
        let text = simple(&["A", "B"], rows, true);
        assert!(text.contains("\x1b[32mRunning\x1b[0m   x\n"), "{text:?}");
        assert!(text.contains("b         y\n"), "{text:?}");
        assert_eq!(cell(&json!("a\nb")), "a...");
    }
}
