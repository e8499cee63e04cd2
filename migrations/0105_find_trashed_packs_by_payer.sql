-- no-transaction
-- What an account has deleted and the store still has is summed whenever it deletes or publishes something.
CREATE INDEX CONCURRENTLY trashed_packs_by_payer ON trashed_packs (payer, seen_at_second, deployment_id) INCLUDE (bytes) WHERE payer IS NOT NULL;
