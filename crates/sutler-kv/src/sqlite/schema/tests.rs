use super::*;
use crate::engine::{Engine as _, Range};
use crate::sqlite::Sqlite;

/// A store of each released schema, all with the same content.
const RELEASED: [&str; MIGRATIONS.len()] = [include_str!("released/1.sql")];

#[tokio::test]
async fn a_store_of_every_released_schema_is_migrated() {
    for (schema, script) in (1..).zip(RELEASED) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        Connection::open(&path).unwrap().execute_batch(script).unwrap();
        let store = Sqlite::open(&path, Options::default()).unwrap();
        assert_eq!((store.version(), store.oldest()), (4, 2), "schema {schema}");
        let page = store.list(Range::default()).await.unwrap();
        assert_eq!(page.records.len(), 1);
        assert_eq!((&*page.records[0].key, &page.records[0].value[..]), ("t/a/1", &b"uno"[..]));
        let old = store.list(Range { at: Some(2), ..Range::default() }).await.unwrap();
        assert_eq!(old.records.len(), 2);
        let (changes, _) = store.changes("t/a/", 2, 0).await.unwrap();
        assert_eq!(changes[0].before.as_deref(), Some(&b"one"[..]));
        assert!(changes[1].deleted);
        drop(store);
        let made = folder.path().join("made.db");
        drop(Sqlite::open(&made, Options::default()).unwrap());
        assert_eq!(schema_of(&path), schema_of(&made), "schema {schema}");
    }
}

/// What a database is made of, without how it was spelled.
fn schema_of(path: &Path) -> Vec<(String, String)> {
    let connection = Connection::open(path).unwrap();
    let mut statement =
        connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY 1").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
    rows.map(|row| {
        let (name, sql) = row.unwrap();
        let lines = sql.lines().map(str::trim).filter(|line| !line.starts_with("--"));
        (name, lines.collect::<Vec<_>>().join(" "))
    })
    .collect()
}

#[test]
fn steps_run_once_in_order_and_whole() {
    let mut connection = Connection::open_in_memory().unwrap();
    let first = "CREATE TABLE steps (n); INSERT INTO steps VALUES (1)";
    let broken = "INSERT INTO steps VALUES (2); INSERT INTO nothing VALUES (2)";
    let second = "INSERT INTO steps VALUES (2)";
    let third = "INSERT INTO steps VALUES (3)";
    let state = |connection: &Connection| {
        let sql = "SELECT group_concat(n) FROM steps";
        let steps: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        (steps, identity(connection).unwrap())
    };
    migrate(&mut connection, &[first]).unwrap();
    assert_eq!(state(&connection), ("1".to_owned(), (true, 1)));
    migrate(&mut connection, &[first, broken, third]).unwrap_err();
    assert_eq!(state(&connection), ("1".to_owned(), (true, 1)));
    migrate(&mut connection, &[first, second, third]).unwrap();
    migrate(&mut connection, &[first, second, third]).unwrap();
    assert_eq!(state(&connection), ("1,2,3".to_owned(), (true, 3)));
}
