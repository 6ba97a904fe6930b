-- A store as the first release of this schema left it. Never changed after that release.
PRAGMA page_size = 8192;
CREATE TABLE log (
    version INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    before INTEGER,
    deleted INTEGER NOT NULL,
    seal INTEGER,
    value BLOB NOT NULL
) STRICT;
CREATE INDEX log_key ON log (key, version, deleted);
CREATE INDEX log_seal ON log (seal) WHERE seal IS NOT NULL;
CREATE TABLE seals (
    id INTEGER PRIMARY KEY,
    proof BLOB NOT NULL
) STRICT;
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    oldest INTEGER NOT NULL,
    swept INTEGER NOT NULL,
    sealed TEXT NOT NULL
) STRICT;
INSERT INTO state VALUES (0, 2, 1, '');
INSERT INTO log VALUES (1, 't/a/1', NULL, 0, NULL, x'6f6e65');
INSERT INTO log VALUES (2, 't/a/2', NULL, 0, NULL, x'74776f');
INSERT INTO log VALUES (3, 't/a/1', 1, 0, NULL, x'756e6f');
INSERT INTO log VALUES (4, 't/a/2', 2, 1, NULL, x'6c617374');
PRAGMA application_id = 0x5355544c;
PRAGMA user_version = 1;
