-- The last time at which a request under way showed that its process lives. Null in rows of programs that do not show it, whose
-- requests count from their beginning.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE idempotency_keys ADD COLUMN alive_at timestamptz;
