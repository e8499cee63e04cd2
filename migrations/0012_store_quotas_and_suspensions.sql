-- What a deployment takes of the store, and why a site was taken down.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Data and manifest, compressed variants included. Null of deployments from before: they count with the size of their files.
ALTER TABLE deployments ADD COLUMN stored_bytes bigint;

-- Null of sites that were suspended before reasons were kept.
ALTER TABLE projects ADD COLUMN suspended_for text;
ALTER TABLE projects ADD CONSTRAINT projects_suspended_for
    CHECK (suspended_for IS NULL OR (suspended_at IS NOT NULL AND suspended_for IN ('abuse', 'legal', 'payment'))) NOT VALID;
