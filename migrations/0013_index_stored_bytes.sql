-- no-transaction
-- What an account stores is summed at every upload, from this index alone.
CREATE INDEX CONCURRENTLY deployments_stored ON deployments (project_id) INCLUDE (stored_bytes, bytes)
    WHERE status IN ('live', 'superseded');
