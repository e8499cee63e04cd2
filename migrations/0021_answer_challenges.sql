-- Where a certificate came from, and the answers that certificate authorities look for.

SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Those from before this were imported, or made by the local authority: nothing renews them by itself.
ALTER TABLE certificates ADD COLUMN source text NOT NULL DEFAULT 'import';
-- The account at the authority, which alone may say that a later certificate replaces this one.
ALTER TABLE certificates ADD COLUMN account_id text COLLATE "C";
ALTER TABLE certificates
    ADD CONSTRAINT certificates_source_known CHECK (source IN ('acme', 'local', 'import')) NOT VALID;

-- Answers to challenges (RFC 8555, 8; RFC 8737). Whichever edge the authority reaches looks here.
CREATE TABLE acme_challenges (
    kind         text NOT NULL CHECK (kind IN ('http-01', 'tls-alpn-01', 'dns-01')),
    -- The hostname to be proved; for dns-01 the name of the record.
    name         text COLLATE "C" NOT NULL,
    token        text COLLATE "C" NOT NULL,
    -- What the edge answers with: the key authorization; for dns-01 the record's value.
    answer       text NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (kind, name, token)
);
CREATE INDEX acme_challenges_by_age ON acme_challenges (expires_at);
