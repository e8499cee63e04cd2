-- Looks through all of ai_usage, under a lock that neither reads nor writes wait for. A very large table takes minutes.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '1h';

ALTER TABLE ai_usage VALIDATE CONSTRAINT ai_usage_kinds;
