-- no-transaction
-- The activity of a person: what was done to their account, to their own projects, and to them in an organization.
CREATE INDEX CONCURRENTLY audit_log_by_person ON audit_log (user_id, id DESC) WHERE user_id IS NOT NULL;
