-- For an account's completions of the last minute: an id begins with the time of its admission. Not made CONCURRENTLY, as
-- the table is of the same release.
CREATE INDEX ai_usage_of_account ON ai_usage (account_id, id);
