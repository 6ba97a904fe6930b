//! Programs that tests run, to their end or beside them.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

/// What the server's first line on standard output begins with, once it can be used.
pub(crate) const READY: &str = "Sutler serves the Kubernetes API at https://";

/// What a finished run printed.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A run that goes on, and the lines that it prints. It ends with this, if not before.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<Box<dyn Read>>,
}

impl Running {
    /// Follows standard output.
    pub(crate) fn out(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        Self { child, lines: BufReader::new(Box::new(out)) }
    }

    /// Follows standard error.
    pub(crate) fn err(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let err = child.stderr.take().unwrap();
        Self { child, lines: BufReader::new(Box::new(err)) }
    }

    /// The next line; none comes after the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended");
        line.trim_end().to_owned()
    }

    /// Reads up to the first line that holds a text.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for the end and gives the exit code.
    pub(crate) fn end(mut self) -> i32 {
        std::io::copy(&mut self.lines, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
