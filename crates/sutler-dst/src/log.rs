//! What happened, in order, and a hash over all of it.

use std::{
    cell::RefCell,
    collections::VecDeque,
    fmt,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

/// How many lines are kept when not all are.
const TAIL: usize = 60;

/// More than any run that settles writes.
const LIMIT: u64 = 12_000;

/// The same where as many machines are made as the largest runs have.
const LARGE_LIMIT: u64 = 200_000;

/// A log that everything in a run shares.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Lines>>);

struct Lines {
    begun: Option<Instant>,
    lines: VecDeque<String>,
    hash: u64,
    all: bool,
    large: bool,
    count: u64,
    wrong: Option<String>,
}

impl Log {
    /// An empty log, of which all is kept or the end.
    pub fn new(all: bool) -> Self {
        Self(Arc::new(Mutex::new(Lines {
            begun: None,
            lines: VecDeque::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            all,
            large: false,
            count: 0,
            wrong: None,
        })))
    }

    /// Notes what was found wrong first, where it happened, and for a run that has to be cut off.
    pub fn found_wrong(&self, what: &str) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.wrong.is_some() {
            return;
        }
        log.wrong = Some(what.to_owned());
        drop(log);
        self.line("judge", what);
    }

    /// Allows for the lines of a large run.
    pub fn expect_many(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).large = true;
    }

    /// Adds a line with the virtual time.
    pub fn line(&self, who: &str, what: impl fmt::Display) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.count += 1;
        if log.count > if log.large { LARGE_LIMIT } else { LIMIT } {
            // Time stands still while something goes round in circles: nothing else can end it.
            let wrong = log.wrong.as_deref().unwrap_or("nothing was wrong before");
            for line in &log.lines {
                eprintln!("{line}");
            }
            eprintln!("{} lines, and no end: {wrong}", log.count);
            std::process::exit(3);
        }
        let now = Instant::now();
        let begun = *log.begun.get_or_insert(now);
        let line = format!("{:>12.6} {who:<5} {what}", (now - begun).as_secs_f64());
        for byte in line.bytes() {
            log.hash = (log.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if !log.all && log.lines.len() >= TAIL {
            log.lines.pop_front();
        }
        log.lines.push_back(line);
    }

    /// What was kept, and the hash.
    pub fn end(&self) -> (Vec<String>, u64) {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (log.lines.iter().cloned().collect(), log.hash)
    }
}

/// A run is one thread: what it shares needs no lock.
pub type Shared<T> = Rc<RefCell<T>>;
