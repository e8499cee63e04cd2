-- no-transaction
-- What an account has deleted and the store still has is summed whenever it deletes or publishes something.
CREATE INDEX CONCURRENTLY pack_removals_by_payer ON pack_removals (payer, next_attempt_at) INCLUDE (bytes) WHERE payer IS NOT NULL;
