-- The row that makes a file a store: fixed holds its id and secret, state what every write moves (see meta.go).
CREATE TABLE meta (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    fixed BLOB NOT NULL,
    state BLOB NOT NULL
);

-- Values that many records share: policies' terms and holders (see words.go). Never changed, never deleted.
CREATE TABLE words (
    id   INTEGER PRIMARY KEY,
    data BLOB NOT NULL UNIQUE,
    sum  INTEGER NOT NULL -- CRC-32C of both
);

-- due and expires are whole seconds since 1970, rounded down: indexes find candidates, data decides (see record.go).
CREATE TABLE records (
    id      INTEGER PRIMARY KEY,
    hash    INTEGER NOT NULL, -- of the identity, keyed with the store's secret; the next free number where another identity has it
    due     INTEGER,          -- open records only, and not yet of those that were just made: see young.go
    expires INTEGER,          -- the others only: when purge has to look at it; of tombstones 2^36 more
    result  INTEGER,          -- results.id
    data    BLOB NOT NULL
);
CREATE UNIQUE INDEX records_hash ON records (hash);
CREATE INDEX records_due ON records (due) WHERE due IS NOT NULL;
CREATE INDEX records_expires ON records (expires) WHERE expires IS NOT NULL;

-- Apart from the records, and in the order in which they came: a record's row keeps its size when it is completed, and pages fill up.
CREATE TABLE results (
    id   INTEGER PRIMARY KEY,
    head BLOB NOT NULL,
    body BLOB
);

CREATE TABLE timeline (
    id     INTEGER PRIMARY KEY,
    record INTEGER NOT NULL,
    data   BLOB NOT NULL
);
CREATE INDEX timeline_record ON timeline (record);

CREATE TABLE settings (
    name      TEXT NOT NULL,
    tenant    TEXT NOT NULL,
    operation TEXT NOT NULL,
    value     TEXT NOT NULL,
    until     INTEGER NOT NULL, -- nanoseconds since 1970, 0: stays
    PRIMARY KEY (name, tenant, operation)
) WITHOUT ROWID;
