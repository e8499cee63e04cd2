-- Since when the provider does not know a payment that is under way, or is not the configured one any more.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE payments ADD COLUMN lost_since timestamptz;
