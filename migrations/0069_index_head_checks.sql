-- no-transaction
-- The links whose branch is to be looked at next are found without reading all of them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS repo_links_by_check ON repo_links (check_head_at);
