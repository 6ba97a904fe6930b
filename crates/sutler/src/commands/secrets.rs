//! `sutler secrets`: the encryption of Secrets at rest, on a data folder that no server uses.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use sutler_kv::{
    crypto::Keyring,
    sqlite::{Options, Sqlite},
};

use crate::{client::errors::chain, error::Error, serve::DataDir, ui::Ui};

/// What to do with the keys.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Encrypt all stored Secrets anew, with a new key
    RotateKey {
        /// The data folder of a server that is stopped
        #[arg(long, value_name = "FOLDER", default_value = ".sutler")]
        data_dir: PathBuf,
        /// The file with the keys, where it is not in the data folder
        #[arg(long, value_name = "FILE")]
        secrets_key_file: Option<PathBuf>,
    },
}

/// Rotates the key.
pub(crate) fn run(command: &SecretsCommand, ui: &Ui) -> Result<(), Error> {
    let SecretsCommand::RotateKey { data_dir, secrets_key_file } = command;
    let data = DataDir::new(data_dir);
    let keys = secrets_key_file.clone().unwrap_or_else(|| data.keys());
    rotate(&data.database(), &keys)?;
    ui.note(&format!("{} is encrypted with a new key, in {}", data_dir.display(), keys.display()));
    Ok(())
}

/// Makes a new key, seals everything with it and forgets the old one. Cut off at any point, the
/// file still opens the store, and doing it again ends it.
fn rotate(database: &Path, keys: &Path) -> Result<(), Error> {
    let failed = |what: &Path, error: &(dyn std::error::Error + 'static)| {
        Error::Failed(format!("{}: {}", what.display(), chain(error)))
    };
    if !database.exists() {
        return Err(Error::Failed(format!(
            "{} is not there: name the data folder of a server with --data-dir",
            database.display()
        )));
    }
    let keyring = Keyring::load(keys).map_err(|e| failed(keys, &e))?;
    let options = Options { keyring: Some(keyring), ..Options::default() };
    let store = Sqlite::open(database, options).map_err(|e| failed(database, &e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(store.rotate(keys)).map_err(|e| failed(database, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_and_the_store_opens_with_the_new_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        let (database, keys) = (data.database(), data.keys());
        let options = |keyring| Options {
            keyring: Some(keyring),
            encrypt: vec!["/secrets/".into()],
            ..Options::default()
        };
        let first = Keyring::load_or_create(&keys).unwrap();
        drop(Sqlite::open(&database, options(first.clone())).unwrap());
        rotate(&database, &keys).unwrap();
        let second = Keyring::load(&keys).unwrap();
        assert!(second.newest() > first.newest());
        assert_eq!(second.ids().count(), 1);
        drop(Sqlite::open(&database, options(second)).unwrap());
    }

    #[test]
    fn a_missing_store_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = rotate(&folder.path().join("none.db"), &folder.path().join("k")).unwrap_err();
        assert!(error.to_string().contains("--data-dir"), "{error}");
        let database = folder.path().join("d.db");
        std::fs::write(&database, "").unwrap();
        let error = rotate(&database, &folder.path().join("k")).unwrap_err();
        assert!(error.to_string().contains("key file"), "{error}");
    }
}
