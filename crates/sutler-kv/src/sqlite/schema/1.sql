-- Every write, at the version it was given. The row with the highest version is never deleted, so
-- that versions go on after it.
CREATE TABLE log (
    version INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    -- The version that this one replaced; absent where the key was created.
    before INTEGER,
    deleted INTEGER NOT NULL,
    -- The key that sealed the value; absent where it is plain.
    seal INTEGER,
    value BLOB NOT NULL
) STRICT;

CREATE INDEX log_key ON log (key, version, deleted);

CREATE INDEX log_seal ON log (seal) WHERE seal IS NOT NULL;

-- The keys that values are sealed with, and how to recognise them.
CREATE TABLE seals (
    id INTEGER PRIMARY KEY,
    proof BLOB NOT NULL
) STRICT;

CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    -- The oldest version that can be asked for.
    oldest INTEGER NOT NULL,
    -- What these versions replaced is deleted already.
    swept INTEGER NOT NULL,
    -- The prefixes of keys whose values are all sealed, one a line.
    sealed TEXT NOT NULL
) STRICT;

INSERT INTO state VALUES (0, 0, 0, '');
