-- Edges record every few seconds how far they have come, so that admin knows how many there are while Redis is away, and after a restart
-- of its own without Redis.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE edge_positions (
    edge_id  text COLLATE "C" PRIMARY KEY CHECK (length(edge_id) BETWEEN 1 AND 64),
    epoch    text NOT NULL CHECK (length(epoch) BETWEEN 1 AND 64),
    seq      bigint NOT NULL,
    seen_at  timestamptz NOT NULL
);

-- Records that an edge runs and how far it has come, or that it leaves. Takes out edges that have been silent for an hour.
CREATE FUNCTION record_edge(of_edge text, at_epoch text, at_seq bigint, is_leaving boolean) RETURNS void
LANGUAGE sql
AS $$
    DELETE FROM edge_positions WHERE edge_id IN (
        SELECT edge_id FROM edge_positions
        WHERE (is_leaving AND edge_id = of_edge) OR seen_at < clock_timestamp() - interval '1 hour'
        FOR UPDATE SKIP LOCKED);
    INSERT INTO edge_positions (edge_id, epoch, seq, seen_at)
    SELECT of_edge, at_epoch, at_seq, clock_timestamp() WHERE NOT is_leaving
    ON CONFLICT (edge_id) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, seen_at = excluded.seen_at;
$$;

INSERT INTO edge_functions (name) VALUES ('record_edge');
