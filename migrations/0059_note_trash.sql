-- What is known of the store's packs beyond the records of deployments: how far the sweep has looked for packs without a record,
-- why it stopped, and which packs are in the trash.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE store_sweep (
    only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- This database knew every pack of the store that was written before. What it does not know of those written later belongs to
    -- another database, or to a newer state of this one. Null until the store was first looked at.
    in_step_until     timestamptz,
    -- The last pack that this round has looked at, and its counts so far.
    position          text COLLATE "C",
    looked            bigint NOT NULL DEFAULT 0,
    unknown           bigint NOT NULL DEFAULT 0,
    -- The last pack of the trash that was looked at.
    trash_position    text COLLATE "C",
    -- The seconds for which the trash was watched in all. A clock that leaps adds no more than one interval.
    watched_seconds   bigint NOT NULL DEFAULT 0,
    watched_at        timestamptz,
    stopped_for       text CHECK (stopped_for IN ('clocks', 'older_database', 'share')),
    stopped_at        timestamptz,
    CHECK ((stopped_for IS NULL) = (stopped_at IS NULL))
);
INSERT INTO store_sweep DEFAULT VALUES;

-- Packs that this database has seen in the store's trash.
CREATE TABLE trashed_packs (
    deployment_id  text COLLATE "C" PRIMARY KEY,
    -- The project's name when the deployment was deleted; null when it is not known.
    project        text COLLATE "C",
    -- Whether this database has had it deleted. The others were found without a record.
    is_deletion    boolean NOT NULL,
    -- `store_sweep.watched_seconds` when it was first seen there.
    seen_at_second bigint NOT NULL
);

ALTER TABLE pack_removals ADD COLUMN project text COLLATE "C";
