//! The folders of providers' processes, with their sockets and credentials: none outlives the process that
//! made it for longer than until the next one starts.

use std::{fs::File, io::Result, os::unix::fs::MetadataExt as _, path::Path, sync::Once};

use tempfile::TempDir;

const PREFIX: &str = "sutler-";

/// A file that is locked for as long as its folder is in use, however its process ends.
const HELD: &str = "held";

/// A folder that nobody else can look into. It goes when this is dropped.
pub(super) struct Folder {
    dir: TempDir,
    _held: File,
}

impl Folder {
    /// A new one. The first removes what processes left that were killed.
    pub(super) fn new() -> Result<Self> {
        static SWEPT: Once = Once::new();
        let base = std::env::temp_dir();
        let new = Self::within(&base)?;
        let uid = new.path().metadata()?.uid();
        SWEPT.call_once(|| sweep(&base, uid));
        Ok(new)
    }

    fn within(base: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(base)?;
        // It has its name once it is locked: nobody finds it free before.
        let coming = dir.path().join("coming");
        let held = File::create_new(&coming)?;
        held.lock()?;
        std::fs::rename(&coming, dir.path().join(HELD))?;
        Ok(Self { dir, _held: held })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes this user's folders that nobody holds any more. What is in those of others is not opened: what
/// has the name of a file there may be anything.
fn sweep(base: &Path, uid: u32) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // A link is itself here, and not where it leads.
        let ours = named && entry.metadata().is_ok_and(|dir| dir.is_dir() && dir.uid() == uid);
        let held = if ours { File::open(entry.path().join(HELD)).ok() } else { None };
        if held.is_some_and(|held| held.try_lock().is_ok()) {
            let removed = std::fs::remove_dir_all(entry.path());
            let path = entry.path();
            match removed {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "removed what a killed process left")
                }
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "what a killed process left cannot be removed");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let live = Folder::within(base.path()).unwrap();
        let killed = Folder::within(base.path()).unwrap();
        let left = killed.path().to_owned();
        std::fs::write(left.join("password"), "x").unwrap();
        // The lock goes with its process, the folder does not.
        let Folder { dir, _held } = killed;
        let _ = dir.keep();
        drop(_held);
        let others = base.path().join("sutler-of-somebody");
        std::fs::create_dir(&others).unwrap();
        let uid = base.path().metadata().unwrap().uid();
        // Another user's: it is not looked into.
        sweep(base.path(), uid + 1);
        assert!(left.exists());
        let link = base.path().join("sutler-link");
        std::os::unix::fs::symlink(&left, &link).unwrap();
        sweep(base.path(), uid);
        assert!(!left.exists());
        assert!(live.path().exists() && others.exists() && link.symlink_metadata().is_ok());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
