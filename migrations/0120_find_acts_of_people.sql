-- no-transaction
-- The activity of a person: what they did.
CREATE INDEX CONCURRENTLY audit_log_by_actor ON audit_log (actor_user_id, id DESC) WHERE actor_user_id IS NOT NULL;
