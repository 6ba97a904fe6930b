//! `sutler secrets`: the encryption of Secrets at rest, on a data folder that no server uses.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use sutler_kv::{
    crypto::Keyring,
    sqlite::{Options, Sqlite},
};

use crate::{
    client::errors::chain,
    error::Error,
    serve::{DataDir, KEY_VARIABLE},
    ui::Ui,
};

/// What to do with the keys.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Encrypt all stored Secrets anew, with a new key
    ///
    /// Where the keys are in $SUTLER_SECRETS_KEY, which nobody but you can change, this takes two
    /// runs: the first prints the keys to put there, the second uses the newest of them.
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
    if let (None, Ok(text)) = (secrets_key_file, std::env::var(KEY_VARIABLE)) {
        return match rotate_given(&data.database(), &text)? {
            Given::Next(keys) => {
                ui.note(&format!(
                    "nothing has changed yet: set ${KEY_VARIABLE} to this and run it again"
                ));
                Ok(ui.line(&keys)?)
            }
            Given::Done(key) => {
                ui.note(&format!(
                    "{} is encrypted with the newest key; ${KEY_VARIABLE} needs no other:",
                    data_dir.display()
                ));
                Ok(ui.line(&key)?)
            }
        };
    }
    let keys = secrets_key_file.clone().unwrap_or_else(|| data.keys());
    rotate(&data.database(), &keys)?;
    ui.note(&format!("{} is encrypted with a new key, in {}", data_dir.display(), keys.display()));
    Ok(())
}

/// Makes a new key, seals everything with it and forgets the old one. Cut off at any point, the
/// file still opens the store, and doing it again ends it.
fn rotate(database: &Path, keys: &Path) -> Result<(), Error> {
    exists(database)?;
    let keyring = Keyring::load(keys).map_err(|e| failed(keys, &e))?;
    let store = open(database, keyring)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(store.rotate(keys)).map_err(|e| failed(database, &e))
}

/// What came of a rotation with keys that are kept elsewhere; the text is for there.
#[derive(Debug)]
enum Given {
    /// A key is needed that is kept there first: were it only here, a crash could lose it.
    Next(String),
    /// Everything is sealed with the newest key.
    Done(String),
}

/// With one key, makes another; with more, seals everything with the newest.
fn rotate_given(database: &Path, text: &str) -> Result<Given, Error> {
    exists(database)?;
    let keyring = Keyring::parse(text)
        .map_err(|e| Error::Failed(format!("${KEY_VARIABLE}: {}", chain(&e))))?;
    let store = open(database, keyring.clone())?;
    if keyring.ids().count() == 1 {
        return Ok(Given::Next(keyring.with_new_key().to_text(',').to_string()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(store.reseal(keyring.clone())).map_err(|e| failed(database, &e))?;
    Ok(Given::Done(keyring.newest_only().to_text(',').to_string()))
}

fn exists(database: &Path) -> Result<(), Error> {
    if database.exists() {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{} is not there: name the data folder of a server with --data-dir",
        database.display()
    )))
}

fn open(database: &Path, keyring: Keyring) -> Result<Sqlite, Error> {
    let options = Options { keyring: Some(keyring), ..Options::default() };
    Sqlite::open(database, options).map_err(|e| failed(database, &e))
}

fn failed(what: &Path, error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Failed(format!("{}: {}", what.display(), chain(error)))
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
    fn keys_that_are_kept_elsewhere_take_two_runs() {
        let folder = tempfile::tempdir().unwrap();
        let database = DataDir::new(folder.path()).database();
        let options = |text: &str| Options {
            keyring: Some(Keyring::parse(text).unwrap()),
            encrypt: vec!["core/secrets/".into()],
            ..Options::default()
        };
        let first = Keyring::generate().to_text(',').to_string();
        drop(Sqlite::open(&database, options(&first)).unwrap());
        let Given::Next(both) = rotate_given(&database, &first).unwrap() else { panic!("done") };
        assert!(both.starts_with(&format!("{first},")), "the first key stays and stands first");
        // Nothing has changed: the first key still does.
        drop(Sqlite::open(&database, options(&first)).unwrap());
        let Given::Done(second) = rotate_given(&database, &both).unwrap() else { panic!("next") };
        assert_eq!(both, format!("{first},{second}"));
        drop(Sqlite::open(&database, options(&second)).unwrap());
        assert!(Sqlite::open(&database, options(&first)).is_err());
        let error = rotate_given(&database, "x").unwrap_err().to_string();
        assert!(error.starts_with("$SUTLER_SECRETS_KEY: "), "{error}");
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
