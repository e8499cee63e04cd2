-- An edge that takes over a dead one's journal of traffic leaves out what that one had sent ahead of its batches. Without this right it
-- waits for it, and nothing of the journal is counted.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

INSERT INTO edge_grants (what) VALUES ('SELECT (edge_id, last_batch) ON traffic_edges');
