-- no-transaction
-- Removals wait for days when their project can still be restored: those that are due are found among them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS pack_removals_due ON pack_removals (next_attempt_at);
