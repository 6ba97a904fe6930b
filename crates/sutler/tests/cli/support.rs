//! A server of its own for each test, and the program run against it.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use tempfile::TempDir;

use crate::runs::{READY, Run};

/// A server, and a folder for the test's files.
pub(crate) struct Server {
    child: Option<Child>,
    kubeconfig: PathBuf,
    /// Where the test may write.
    pub(crate) folder: TempDir,
}

impl Server {
    /// Starts `sutler serve` on memory and waits for its line. With `SUTLER_TEST_KUBECONFIG` the
    /// tests run against that server instead.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(kubeconfig) = std::env::var_os("SUTLER_TEST_KUBECONFIG") {
            return Self { child: None, kubeconfig: kubeconfig.into(), folder };
        }
        let data = folder.path().join("data");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sutler"))
            .args([
                "serve",
                "--api-only",
                "--store",
                "memory",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with(READY), "the server did not start: {line:?}");
        // It writes on: a pipe without a reader would end it.
        child.stdout = Some(stdout.into_inner());
        Self { child: Some(child), kubeconfig: data.join("admin.kubeconfig"), folder }
    }

    /// Whether it is our own server.
    pub(crate) fn is_ours(&self) -> bool {
        self.child.is_some()
    }

    /// A file in the test's folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program, ready to run against this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sutler"));
        command
            .args(args)
            .env("SUTLER_KUBECONFIG", &self.kubeconfig)
            .env_remove("SUTLER_EDITOR")
            .env_remove("KUBE_EDITOR")
            .env_remove("VISUAL")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.command(args).output().unwrap().into()
    }

    /// Runs it, and it must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "sutler {args:?}\n{}{}", run.out, run.err);
        run.out
    }

    /// Applies a text from standard input.
    pub(crate) fn apply(&self, text: &str) -> Run {
        let mut child = self.command(&["apply", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Runs `edit` with a shell command as the editor; `$1` is the file.
    pub(crate) fn edit(&self, args: &[&str], editor: &str) -> Run {
        let mut all = vec!["edit"];
        all.extend(args);
        let editor = format!("edit() {{ {editor}; }}; edit");
        self.command(&all).env("EDITOR", editor).output().unwrap().into()
    }

    /// Makes a namespace with the name of the test.
    pub(crate) fn namespace(&self, name: &str) {
        if !self.is_ours() {
            // A server that goes on may hold what an earlier run left.
            self.ok(&["delete", "ns", name, "--ignore-not-found"]);
        }
        let run =
            self.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"));
        assert_eq!(run.code, 0, "{run:?}");
    }

    /// Ends the server as an operator would.
    pub(crate) fn terminate(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        Some(child.wait().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
