//! The platform's state in a folder.
//!
//! One file holds all: `state.<n>`, one transaction per line. It is only ever appended to; when it
//! has grown far beyond what it says, the state is written to `state.<n+1>`, which becomes the one by
//! a rename. A line that a kill has torn is the last one and was never answered, so it is dropped.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use sutler_provider::{Error, ErrorKind, Result};

use crate::{
    settings::Settings,
    state::{Op, State},
};

/// A log below this is never written anew.
const SMALL: u64 = 1 << 20;

/// How many times larger than after its last rewriting a log may be.
const GROWTH: u64 = 4;

pub(crate) struct Disk {
    dir: PathBuf,
    sync: bool,
    generation: u64,
    file: File,
    length: u64,
    /// Length after the last rewriting.
    base: u64,
    small: u64,
    /// Held as long as the folder is open.
    _lock: File,
    /// A failed write could not be taken back: nothing may be appended behind it.
    torn: bool,
}

impl Disk {
    /// Opens a folder, or makes it.
    pub(crate) fn open(dir: &Path, settings: &Settings) -> Result<(Self, State)> {
        Self::open_with(dir, settings, SMALL)
    }

    pub(crate) fn open_with(dir: &Path, settings: &Settings, small: u64) -> Result<(Self, State)> {
        fs::create_dir_all(dir).map_err(|error| failed("make the folder", error))?;
        let lock = lock(dir)?;
        let generation = newest(dir)?;
        let path = file_name(dir, generation);
        let mut state = State::new(settings.ids);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| failed("open the state", error))?;
        let (length, changes) = replay(&mut file, &mut state)?;
        file.set_len(length).map_err(|error| failed("drop a torn line", error))?;
        file.seek(SeekFrom::Start(length)).map_err(|error| failed("find the end", error))?;
        state.find_free();
        // One that says little for its length is written anew with the next change.
        let rows = state.dump().count() as u64;
        let base = if changes > rows.saturating_mul(GROWTH) { 0 } else { length };
        let disk = Self {
            dir: dir.to_owned(),
            sync: settings.sync,
            generation,
            file,
            length,
            base,
            small,
            _lock: lock,
            torn: false,
        };
        Ok((disk, state))
    }

    /// Writes a transaction. On an error nothing of it is there.
    pub(crate) fn append(&mut self, ops: &[Op], state: &State) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        if self.torn {
            let why = "the state's file is damaged by a failed write; open the folder again";
            return Err(Error::new(ErrorKind::Internal, why));
        }
        let mut line = serde_json::to_vec(ops).map_err(|error| failed("encode a change", error))?;
        line.push(b'\n');
        if let Err(error) = self.write(&line) {
            let back = self.file.set_len(self.length);
            let back = back.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            self.torn = back.is_err();
            return Err(Error::unavailable("the state cannot be written").because(error));
        }
        self.length += line.len() as u64;
        if self.length > self.small && self.length > self.base.saturating_mul(GROWTH) {
            self.rewrite(state);
        }
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.file.write_all(line)?;
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    /// Writes the state anew. Where that fails, the old file goes on.
    pub(crate) fn rewrite(&mut self, state: &State) {
        let generation = self.generation + 1;
        match write_all(&self.dir, generation, state, self.sync) {
            Ok((file, length)) => {
                let old = file_name(&self.dir, self.generation);
                (self.file, self.length, self.base) = (file, length, length);
                self.generation = generation;
                if let Err(error) = fs::remove_file(old) {
                    tracing::warn!(%error, "an old state could not be removed");
                }
            }
            Err(error) => {
                // Tried again only once the file has grown as much again.
                self.base = self.length;
                tracing::warn!(%error, "the state could not be written anew");
            }
        }
    }
}

fn write_all(
    dir: &Path,
    generation: u64,
    state: &State,
    sync: bool,
) -> std::io::Result<(File, u64)> {
    let draft = dir.join("draft");
    let mut writer = BufWriter::new(File::create(&draft)?);
    for op in state.dump() {
        serde_json::to_writer(&mut writer, &[op])?;
        writer.write_all(b"\n")?;
    }
    let mut file = writer.into_inner()?;
    if sync {
        file.sync_all()?;
    }
    let length = file.stream_position()?;
    fs::rename(&draft, file_name(dir, generation))?;
    if sync {
        File::open(dir)?.sync_all()?;
    }
    Ok((file, length))
}

/// Reads all whole lines, and returns where they end and how many changes they hold.
fn replay(file: &mut File, state: &mut State) -> Result<(u64, u64)> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let (mut length, mut changes) = (0, 0);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        let read = read.map_err(|error| failed("read the state", error))?;
        if line.last() != Some(&b'\n') {
            return Ok((length, changes));
        }
        let ops: Vec<Op> = serde_json::from_slice(&line).map_err(|error| {
            let why = format!("the state is damaged at byte {length}");
            Error::new(ErrorKind::Internal, why).because(error)
        })?;
        changes += ops.len() as u64;
        for op in ops {
            state.apply(op);
        }
        length += read as u64;
    }
}

fn lock(dir: &Path) -> Result<File> {
    let file = File::create(dir.join("lock")).map_err(|error| failed("make the lock", error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let why = format!("another process has {} open", dir.display());
            Err(Error::conflict(why))
        }
        Err(TryLockError::Error(error)) => Err(failed("take the lock", error)),
    }
}

/// The newest state's number; older ones, which a kill may have left, are removed.
fn newest(dir: &Path) -> Result<u64> {
    let entries = fs::read_dir(dir).map_err(|error| failed("read the folder", error))?;
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| failed("read the folder", error))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("state."));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    let newest = found.pop().unwrap_or(0);
    for old in found {
        let removed = fs::remove_file(file_name(dir, old));
        removed.map_err(|error| failed("remove an old state", error))?;
    }
    Ok(newest)
}

fn file_name(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("state.{generation}"))
}

fn failed(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Internal, format!("could not {what}")).because(error)
}
