//! Sealed values: what the files show, what false keys and false rows do, and changing the key.

use super::*;
use crate::crypto::KeyId;

const SECRET: &str = "do-not-show-this-to-anybody";

fn options(keyring: &Keyring) -> Options {
    Options {
        encrypt: vec!["core/secrets/".to_owned()],
        keyring: Some(keyring.clone()),
        ..Options::default()
    }
}

/// How often a text is in the files of the store.
fn seen(folder: &TempDir, text: &str) -> usize {
    let mut seen = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        seen += content.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    }
    seen
}

#[tokio::test]
async fn chosen_values_are_never_in_the_files() {
    let keyring = Keyring::generate();
    let (folder, store) = make(options(&keyring));
    put(&store, "core/secrets/a", SECRET).await.unwrap();
    put(&store, "core/secrets/a", &format!("{SECRET} again")).await.unwrap();
    delete(&store, "core/secrets/a", &format!("{SECRET} at last")).await.unwrap();
    put(&store, "core/configmaps/a", "may-be-shown").await.unwrap();
    let (changes, _) = store.changes("core/secrets/", 0, 0).await.unwrap();
    assert_eq!(changes.len(), 3);
    assert!(changes.iter().all(|change| change.value.starts_with(SECRET.as_bytes())));
    assert_eq!(seen(&folder, SECRET), 0);
    assert!(seen(&folder, "may-be-shown") > 0);
    drop(store);
    assert_eq!(seen(&folder, SECRET), 0);
}

#[tokio::test]
async fn the_keys_are_checked_before_serving() {
    let keyring = Keyring::generate();
    let (folder, store) = make(options(&keyring));
    put(&store, "core/secrets/a", SECRET).await.unwrap();
    drop(store);
    let refusal = |options| Sqlite::open(&path(&folder), options).unwrap_err().to_string();
    let wrong = refusal(options(&Keyring::generate()));
    assert!(wrong.contains("key 1 is not the key 1 that sealed"), "{wrong}");
    assert!(wrong.contains("give the keys that belong to this store"), "{wrong}");
    let missing = refusal(options(&Keyring::generate().with_new_key().newest_only()));
    assert!(missing.contains("sealed with key 1, which is not given"), "{missing}");
    let none = refusal(Options::default());
    assert!(none.contains("sealed with key 1, which is not given"), "{none}");
    let without = refusal(Options { keyring: None, ..options(&keyring) });
    assert!(without.contains("sealed with key 1, which is not given"), "{without}");
    assert!(Sqlite::open(&path(&folder), options(&keyring)).is_ok());

    let other = scratch();
    let without = Options { keyring: None, ..options(&keyring) };
    let none = Sqlite::open(&path(&other), without).unwrap_err().to_string();
    assert!(none.contains("no key is given"), "{none}");
}

#[tokio::test]
async fn rows_that_were_tampered_with_are_not_believed() {
    let (folder, store) = make(options(&Keyring::generate()));
    for key in ["core/secrets/a", "core/secrets/b", "core/secrets/b", "core/secrets/c"] {
        put(&store, key, SECRET).await.unwrap();
    }
    put(&store, "core/secrets/d", SECRET).await.unwrap();
    delete(&store, "core/secrets/d", SECRET).await.unwrap();
    let connection = Connection::open(path(&folder)).unwrap();
    for (tamper, key) in [
        // Another record's value, an older one of the same record, a plain one, half of one.
        ("UPDATE log SET value = (SELECT value FROM log WHERE version = 1) WHERE version = 4", "c"),
        ("UPDATE log SET value = (SELECT value FROM log WHERE version = 2) WHERE version = 3", "b"),
        ("UPDATE log SET value = x'706c61696e', seal = NULL WHERE version = 1", "a"),
        ("UPDATE log SET value = x'00' WHERE version = 1", "a"),
        ("UPDATE log SET seal = 7 WHERE version = 1", "a"),
        // A removal that is made into a value.
        ("UPDATE log SET deleted = 0 WHERE version = 6", "d"),
    ] {
        assert_eq!(connection.execute(tamper, []).unwrap(), 1);
        let key = format!("core/secrets/{key}");
        let refused = store.get(&key).await.unwrap_err();
        assert!(matches!(&refused, Error::Corrupt(why) if why.contains(&key)), "{refused}");
        let in_list = store.list(Range { prefix: key.clone(), ..Range::default() }).await;
        assert!(matches!(in_list, Err(Error::Corrupt(_))));
        let in_write = put_at(&store, &key).await;
        assert!(matches!(in_write, Err(Error::Corrupt(_))), "{in_write:?}");
    }
    // Nobody else is hurt.
    put(&store, "core/secrets/e", SECRET).await.unwrap();
    assert_eq!(value(&store, "core/secrets/e").await.unwrap().as_deref(), Some(SECRET));
}

async fn put_at(store: &Sqlite, key: &str) -> Result<Version, Error> {
    let action = Action::Put(Bytes::new());
    store.write(Write { key: key.into(), expect: Expect::Present, action, also: Vec::new() }).await
}

#[tokio::test]
async fn what_was_plain_is_sealed_when_a_prefix_is_added() {
    let (folder, store) = make(Options::default());
    for at in 0..300 {
        put(&store, &format!("core/secrets/{at}"), SECRET).await.unwrap();
    }
    put(&store, "core/secrets/0", &format!("{SECRET} {}", "x".repeat(20_000))).await.unwrap();
    delete(&store, "core/secrets/1", SECRET).await.unwrap();
    put(&store, "core/other/1", "may-be-shown").await.unwrap();
    store.compact(store.version()).await.unwrap();
    drop(store);
    assert!(seen(&folder, SECRET) > 0);
    let keyring = Keyring::generate();
    let store = Sqlite::open(&path(&folder), options(&keyring)).unwrap();
    assert_eq!(seen(&folder, SECRET), 0);
    assert!(seen(&folder, "may-be-shown") > 0);
    assert_eq!(value(&store, "core/secrets/2").await.unwrap().as_deref(), Some(SECRET));
    assert_eq!(store.count("core/secrets/").await.unwrap(), 299);
    drop(store);
    // Everything, by the prefix that every key has.
    let all = Options { encrypt: vec![String::new()], ..options(&keyring) };
    let store = Sqlite::open(&path(&folder), all).unwrap();
    assert_eq!(seen(&folder, "may-be-shown"), 0);
    assert_eq!(value(&store, "core/other/1").await.unwrap().as_deref(), Some("may-be-shown"));
    drop(store);
    // And no more of it: what is sealed stays so and is read.
    let store = Sqlite::open(&path(&folder), Options { encrypt: vec![], ..options(&keyring) });
    let store = store.unwrap();
    assert_eq!(value(&store, "core/secrets/2").await.unwrap().as_deref(), Some(SECRET));
    put(&store, "core/secrets/2", "open now").await.unwrap();
    assert!(seen(&folder, "open now") > 0);
}

#[tokio::test]
async fn a_new_key_seals_everything_anew_while_the_store_serves() {
    let old = Keyring::generate();
    let (folder, store) = make(options(&old));
    for at in 0..600 {
        put(&store, &format!("core/secrets/{}", at % 300), SECRET).await.unwrap();
    }
    let both = old.with_new_key();
    let other = Keyring::generate().with_new_key();
    assert!(matches!(store.reseal(other).await, Err(ResealError::Keys(KeyError::Wrong { id: 1 }))));
    let lacking = store.reseal(both.newest_only()).await;
    assert!(matches!(lacking, Err(ResealError::Keys(KeyError::Missing { id: 1 }))));
    let work = async {
        for at in 300..320 {
            put(&store, &format!("core/secrets/{at}"), SECRET).await.unwrap();
            assert_eq!(value(&store, "core/secrets/7").await.unwrap().as_deref(), Some(SECRET));
        }
    };
    let (resealed, ()) = tokio::join!(store.reseal(both.clone()), work);
    resealed.unwrap();
    store.reseal(both.clone()).await.unwrap();
    let (changes, _) = store.changes("core/secrets/", 0, 0).await.unwrap();
    assert_eq!(changes.len(), 620);
    drop(store);
    let refused = Sqlite::open(&path(&folder), options(&old)).unwrap_err().to_string();
    assert!(refused.contains("sealed with key 2, which is not given"), "{refused}");
    let store = Sqlite::open(&path(&folder), options(&both.newest_only())).unwrap();
    let (changes, _) = store.changes("core/secrets/", 0, 0).await.unwrap();
    assert!(changes.iter().all(|change| change.value == SECRET));
    assert_eq!(store.count("core/secrets/").await.unwrap(), 320);
}

#[tokio::test]
async fn a_change_of_key_that_was_cut_off_is_taken_up_again() {
    let old = Keyring::generate();
    let (folder, store) = make(options(&old));
    for at in 0..600 {
        put(&store, &format!("core/secrets/{at}"), SECRET).await.unwrap();
    }
    drop(store);
    // As a crash after the first chunk leaves it.
    let both = old.with_new_key();
    let mut connection = Connection::open(path(&folder)).unwrap();
    seals::register(&connection, &both).unwrap();
    assert!(seals::reseal_chunk(&mut connection, &both).unwrap());
    let count = |seal: KeyId| {
        let sql = "SELECT COUNT(*) FROM log WHERE seal = ?1";
        connection.query_row(sql, [seal], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert!(count(1) > 0 && count(2) > 0);
    let refused = Sqlite::open(&path(&folder), options(&both.newest_only()));
    assert!(refused.unwrap_err().to_string().contains("sealed with key 1"));
    let store = Sqlite::open(&path(&folder), options(&both)).unwrap();
    assert_eq!(store.list(Range::default()).await.unwrap().records.len(), 600);
    store.reseal(both.clone()).await.unwrap();
    assert_eq!((count(1), count(2)), (0, 600));
    drop(store);
    let store = Sqlite::open(&path(&folder), options(&both.newest_only())).unwrap();
    assert_eq!(store.list(Range::default()).await.unwrap().records.len(), 600);
}

#[tokio::test]
async fn a_key_file_is_rotated_whole() {
    let keys = scratch();
    let file = keys.path().join("keys");
    let first = Keyring::load_or_create(&file).unwrap();
    let (folder, store) = make(options(&first));
    put(&store, "core/secrets/a", SECRET).await.unwrap();
    store.rotate(&file).await.unwrap();
    assert_eq!(Keyring::load(&file).unwrap().ids().collect::<Vec<_>>(), [2]);
    store.rotate(&file).await.unwrap();
    drop(store);
    let rotated = Keyring::load(&file).unwrap();
    assert_eq!(rotated.ids().collect::<Vec<_>>(), [3]);
    let store = Sqlite::open(&path(&folder), options(&rotated)).unwrap();
    assert_eq!(value(&store, "core/secrets/a").await.unwrap().as_deref(), Some(SECRET));
}
