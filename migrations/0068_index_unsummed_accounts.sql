-- no-transaction
-- Hardly any account is left to be summed: they are found without reading all the others.
CREATE INDEX CONCURRENTLY IF NOT EXISTS ai_usage_versions_unsummed ON ai_usage_versions (account_id) WHERE NOT keys_summed;
