-- no-transaction
-- What has ended is removed with every certificate that is stored, and operators list what ends next: neither looks through all.
CREATE INDEX CONCURRENTLY IF NOT EXISTS certificates_by_end ON certificates (not_after, id);
