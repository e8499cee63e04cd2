-- A copy of the database that was promoted, or a backup that was restored, may lack changes that edges had applied. Edges report them:
-- nobody else knows of them any more.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE lost_changes (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    edge_id          text COLLATE "C" NOT NULL CHECK (length(edge_id) BETWEEN 1 AND 64),
    -- The epoch that lacks them, and its newest change when the edge noticed.
    epoch            text COLLATE "C" NOT NULL CHECK (length(epoch) BETWEEN 1 AND 64),
    newest_seq       bigint NOT NULL,
    -- The numbers that they had.
    first_seq        bigint NOT NULL,
    last_seq         bigint NOT NULL CHECK (last_seq >= first_seq),
    -- What they touched, as far as the edge remembers: subjects, and hosts that began or ceased to exist.
    subjects         text[] NOT NULL,
    noted_at         timestamptz NOT NULL,
    -- When the operator was told.
    told_at          timestamptz,
    -- When the operator said that it is seen to.
    acknowledged_at  timestamptz
);

-- Notes what an edge found lost. Forgets what was noted a quarter of a year ago.
CREATE FUNCTION note_lost_changes(of_edge text, at_epoch text, newest bigint, first bigint, last bigint, names text[]) RETURNS void
LANGUAGE sql
AS $$
    DELETE FROM lost_changes WHERE id IN (
        SELECT id FROM lost_changes WHERE noted_at < clock_timestamp() - interval '90 days' FOR UPDATE SKIP LOCKED);
    INSERT INTO lost_changes (edge_id, epoch, newest_seq, first_seq, last_seq, subjects, noted_at)
    VALUES (of_edge, at_epoch, newest, first, last, names, clock_timestamp());
$$;

INSERT INTO edge_functions (name) VALUES ('note_lost_changes');
