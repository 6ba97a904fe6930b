//! One process per seed, each a copy of the same beginning: nothing that one run leaves behind can
//! reach another.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use sutler_control::rules::Rule;

use crate::{Outcome, Scenario};

/// Runs seeds in copies of this process. It must be made, and used, while there is one thread.
pub struct Farm {
    most: usize,
    running: BTreeMap<libc::pid_t, (u64, OwnedFd)>,
}

impl Farm {
    /// A farm that runs this many seeds at the same time.
    pub fn new(most: usize) -> Self {
        // What every run needs and none changes is made once, before the copies.
        crate::world::warm_up();
        Self { most: most.max(1), running: BTreeMap::new() }
    }

    /// Whether another seed can begin.
    pub fn has_room(&self) -> bool {
        self.running.len() < self.most
    }

    /// Whether nothing is running.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Begins a seed.
    #[expect(unsafe_code, reason = "these are calls of the system that copy a process")]
    pub fn begin(&mut self, seed: u64, scenario: Scenario, broken: Option<Rule>, keep_log: bool) {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0, "a pipe can be made");
        // SAFETY: the descriptors are new and belong to nobody else.
        let (read, write) =
            unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: this process has one thread, so the copy is whole.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "a process can be made");
        if pid == 0 {
            drop(read);
            let outcome = crate::run(seed, scenario, broken, keep_log);
            let text = serde_json::to_vec(&outcome).unwrap_or_default();
            let sent = File::from(write).write_all(&text).is_ok();
            // Which lines were run is written down at the very end.
            if std::env::var_os("LLVM_PROFILE_FILE").is_some() {
                std::process::exit(i32::from(!sent));
            }
            // SAFETY: ends this copy without running what the original will run at its end.
            unsafe { libc::_exit(i32::from(!sent)) };
        }
        self.running.insert(pid, (seed, read));
    }

    /// Waits for one seed to end.
    #[expect(unsafe_code, reason = "this is the system's call that waits for a process")]
    pub fn take(&mut self) -> Option<Outcome> {
        // The pipe is read to its end before its process is waited for: a long log would otherwise
        // never fit.
        let pid = self.first_to_say_something()?;
        let (seed, read) = self.running.remove(&pid)?;
        let mut text = Vec::new();
        let _ = File::from(read).read_to_end(&mut text);
        let mut status = 0;
        // SAFETY: `pid` is a child of this process that nobody else waits for.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        Some(serde_json::from_slice(&text).unwrap_or_else(|_| Outcome {
            seed,
            violation: Some(format!("the run ended with status {status}")),
            log: Vec::new(),
            hash: 0,
            seconds: 0,
        }))
    }

    /// The run that has something to say, which all do at their end: the others go on beside those that
    /// take its place.
    #[expect(unsafe_code, reason = "this is the system's call that waits for one of several pipes")]
    fn first_to_say_something(&self) -> Option<libc::pid_t> {
        let mut pipes: Vec<libc::pollfd> = self
            .running
            .values()
            .map(|(_, read)| libc::pollfd {
                fd: read.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let count = libc::nfds_t::try_from(pipes.len()).ok()?;
        // SAFETY: `pipes` has this many entries, whose descriptors are open.
        unsafe { libc::poll(pipes.as_mut_ptr(), count, -1) };
        let ready = pipes.iter().position(|pipe| pipe.revents != 0).unwrap_or(0);
        self.running.keys().nth(ready).copied()
    }

    /// Runs one seed.
    pub fn run(&mut self, seed: u64, broken: Option<Rule>, keep_log: bool) -> Option<Outcome> {
        self.begin(seed, Scenario::of(seed), broken, keep_log);
        self.take()
    }
}
