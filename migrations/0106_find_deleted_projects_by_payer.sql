-- no-transaction
-- What an account has deleted and the store still has is summed whenever it deletes or publishes something.
CREATE INDEX CONCURRENTLY deleted_projects_by_payer ON deleted_projects (payer, deleted_at DESC, id DESC) INCLUDE (bytes) WHERE payer IS NOT NULL;
