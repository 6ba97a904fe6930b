//! What a person sees: standard output and error, colours, and the line that shows a wait.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
};

/// Where output goes and how it may look.
pub(crate) struct Ui {
    /// Whether standard output may be coloured.
    pub(crate) color: bool,
    err_color: bool,
    err_tty: bool,
    /// How many lines on standard error are drawn anew with the next change.
    live: Cell<usize>,
}

/// What a piece of text stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    Plain,
    /// A heading.
    Bold,
    /// A secondary remark.
    Dim,
    /// It went well.
    Good,
    /// It is under way.
    Busy,
    /// It failed.
    Bad,
}

impl Tone {
    /// The text in this tone; unchanged where colours are off.
    pub(crate) fn paint(self, text: &str, color: bool) -> String {
        let code = match self {
            _ if !color => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The tone of a word that says how something is.
    pub(crate) fn of_state(word: &str) -> Self {
        match word {
            "True" | "Running" | "Ready" | "Active" | "Bound" | "Succeeded" | "Healthy"
            | "HEALTHY" | "Completed" => Self::Good,
            "Failed" | "Error" | "Unhealthy" | "Unreachable" | "UNHEALTHY" | "UNREACHABLE"
            | "Lost" | "Warning" => Self::Bad,
            "False" | "Unknown" | "Pending" | "Provisioning" | "Deleting" | "Terminating"
            | "Reconfiguring" => Self::Busy,
            _ => Self::Plain,
        }
    }
}

impl Ui {
    /// Looks at the terminal and the environment.
    pub(crate) fn detect(no_color: bool) -> Self {
        let wanted = !no_color
            && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            && std::env::var_os("TERM").is_none_or(|v| v != "dumb");
        let err_tty = io::stderr().is_terminal();
        Self {
            color: wanted && io::stdout().is_terminal(),
            err_color: wanted && err_tty,
            err_tty,
            live: Cell::new(0),
        }
    }

    /// Writes to standard output. A reader that went away is an error, not a crash.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        self.clear_live();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Reports an error; further lines of it are indented by who made them.
    pub(crate) fn error(&self, text: &str) {
        self.clear_live();
        eprintln!("{} {text}", Tone::Bad.paint("error:", self.err_color));
    }

    /// Reports something worth knowing that is no error.
    pub(crate) fn note(&self, text: &str) {
        self.clear_live();
        eprintln!("{text}");
    }

    /// Shows what is waited for: one line that is redrawn on a terminal, a line per change
    /// elsewhere.
    pub(crate) fn waiting(&self, text: &str) {
        if self.err_tty {
            self.block(&[Tone::Dim.paint(text, self.err_color)]);
        } else {
            eprintln!("{text}");
        }
    }

    /// Whether what shows a wait is drawn anew rather than printed line by line.
    pub(crate) fn is_live(&self) -> bool {
        self.err_tty
    }

    /// Whether standard error may be coloured.
    pub(crate) fn err_color(&self) -> bool {
        self.err_color
    }

    /// Draws lines in the place of those that were drawn before, in one piece. Only for a terminal.
    pub(crate) fn block(&self, lines: &[String]) {
        let width = width();
        let cut: Vec<String> = lines.iter().map(|line| fit(line, width)).collect();
        eprint!("{}{}", self.take_live(), cut.join("\n"));
        self.live.set(lines.len());
    }

    /// Takes the lines that show a wait away.
    pub(crate) fn clear_live(&self) {
        eprint!("{}", self.take_live());
    }

    fn take_live(&self) -> String {
        match self.live.replace(0) {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            lines => format!("\r\x1b[{}A\x1b[J", lines - 1),
        }
    }
}

/// How wide the terminal is.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0)).max(20)
}

/// How high the terminal is.
pub(crate) fn height() -> usize {
    terminal_size::terminal_size().map_or(40, |(_, height)| usize::from(height.0)).max(5)
}

/// A line that fits; colours take no room and are ended where it is cut.
pub(crate) fn fit(line: &str, width: usize) -> String {
    let (mut out, mut used, mut escape) = (String::new(), 0, false);
    for c in line.chars() {
        match (escape, c) {
            (false, '\x1b') => escape = true,
            (true, c) if c.is_ascii_alphabetic() => escape = false,
            (true, _) => {}
            (false, _) if used == width => return out + "\x1b[0m",
            (false, _) => used += 1,
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_colours_ended() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "abc\x1b[0m");
        assert_eq!(fit("\x1b[31mabc\x1b[0m", 3), "\x1b[31mabc\x1b[0m");
    }

    #[test]
    fn without_colour_text_is_untouched() {
        assert_eq!(Tone::Bad.paint("x", false), "x");
        assert_eq!(Tone::Plain.paint("x", true), "x");
        assert_eq!(Tone::Bad.paint("x", true), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn states_have_tones() {
        assert_eq!(Tone::of_state("Running"), Tone::Good);
        assert_eq!(Tone::of_state("Failed"), Tone::Bad);
        assert_eq!(Tone::of_state("web-1"), Tone::Plain);
    }
}
