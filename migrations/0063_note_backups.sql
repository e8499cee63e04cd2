-- Backups that were made, so that admin can say how old the last one is; and how old a program may be that works on this schema.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE backups (
    -- The name under which the backup is kept at its place; they sort by time.
    name         text COLLATE "C" PRIMARY KEY,
    -- The time of the snapshot: what was committed later is not in it.
    began_at     timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    place        text NOT NULL,
    packs        bigint NOT NULL CHECK (packs >= 0),
    -- Of the packs and the dump, and the part of it that this backup had to copy.
    bytes        bigint NOT NULL CHECK (bytes >= 0),
    copied_bytes bigint NOT NULL CHECK (copied_bytes >= 0)
);
CREATE INDEX backups_by_time ON backups (began_at);

-- One row. A program that knows no migration as new as `oldest_migration` must not work on this database: a contract has taken away
-- what it reads. `oldest_version` is that program's version, for people.
CREATE TABLE schema_floor (
    is_only          boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    oldest_migration bigint NOT NULL,
    oldest_version   text NOT NULL
);
INSERT INTO schema_floor (oldest_migration, oldest_version) VALUES (0, '0.1.0');
