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
    live: Cell<bool>,
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
            | "Completed" => Self::Good,
            "Failed" | "Error" | "Unhealthy" | "Unreachable" | "Lost" | "Warning" => Self::Bad,
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
            live: Cell::new(false),
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
            eprint!("\r\x1b[K{}", Tone::Dim.paint(text, self.err_color));
            self.live.set(true);
        } else {
            eprintln!("{text}");
        }
    }

    /// Takes the line that shows a wait away.
    pub(crate) fn clear_live(&self) {
        if self.live.replace(false) {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
