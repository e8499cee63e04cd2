-- no-transaction
-- Whoever suspends a project that was deleted a moment ago is told who can restore it.
CREATE INDEX CONCURRENTLY deleted_projects_by_name ON deleted_projects (name, deleted_at DESC);
