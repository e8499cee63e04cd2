-- no-transaction
-- A number is given once in its series, and play money has series of its own.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS invoices_in_series ON invoices (kind, is_play, year, sequence);
