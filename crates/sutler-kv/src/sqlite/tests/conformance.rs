//! The suite that every engine passes.

use super::*;

mod plain {
    use super::*;

    fn options(channel: usize) -> Options {
        Options { channel, ..Options::default() }
    }

    crate::engine_conformance!(|channel| make(options(channel)), |folder: &TempDir, store| {
        drop(store);
        Sqlite::open(&path(folder), options(1024)).unwrap()
    });
}

mod sealed {
    use std::sync::LazyLock;

    use super::*;

    static KEYS: LazyLock<Keyring> = LazyLock::new(Keyring::generate);

    /// Everything is sealed, and every bound is as tight as it can be.
    fn options(channel: usize) -> Options {
        Options {
            channel,
            batch: 2,
            queue: 1,
            readers: 1,
            encrypt: vec![String::new()],
            keyring: Some(KEYS.clone()),
            ..Options::default()
        }
    }

    crate::engine_conformance!(|channel| make(options(channel)), |folder: &TempDir, store| {
        drop(store);
        Sqlite::open(&path(folder), options(1024)).unwrap()
    });
}
