-- Runs of edges that have nothing left to settle: all that they admitted to the AI gateway is in `ai_usage`, or was given back. What a
-- Redis that comes back with an old memory holds of them is charged to nobody.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE settled_edges (
    -- Made up anew at each start of an edge.
    edge_id     text COLLATE "C" PRIMARY KEY,
    settled_at  timestamptz NOT NULL
);
CREATE INDEX settled_edges_by_age ON settled_edges (settled_at);
