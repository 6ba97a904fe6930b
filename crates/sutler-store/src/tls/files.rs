//! Files that hold secrets: readable by their owner only, and never half written.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::TlsError;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Makes the folder if need be, and takes everybody else's access away.
pub(super) fn private_dir(dir: &Path) -> Result<(), TlsError> {
    let failed = |source| TlsError::Write { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir).map_err(failed)?;
    tighten(dir, DIR_MODE).map_err(failed)
}

/// The text of a file that holds a secret; `None` when there is no such file. A mode that lets
/// others in, as after a careless restore, is corrected.
pub(super) fn read_private(path: &Path) -> Result<Option<String>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    match fs::read_to_string(path) {
        Ok(text) => {
            tighten(path, FILE_MODE).map_err(failed)?;
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Writes a file that only its owner may read: at every moment, crashes included, either the old
/// text is there or the new one.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    try_write(path, text).map_err(|source| TlsError::Write { path: path.to_owned(), source })
}

fn try_write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".tmp");
    let draft = folder.join(hidden);
    // One that a crash left behind might have another mode, so it is not reused.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(folder)?.sync_all()
}

fn tighten(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?.permissions().mode() & 0o777;
    if found & !mode == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), mode = format!("{found:o}"), "others had access; closed");
    fs::set_permissions(path, Permissions::from_mode(mode))
}
