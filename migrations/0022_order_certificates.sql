-- Orders of certificates, the accounts at the authorities, and what each account may still ask for.

SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE acme_accounts (
    id                  text COLLATE "C" PRIMARY KEY,
    directory_url       text NOT NULL,
    -- The authority's own name of the account.
    url                 text NOT NULL,
    sealed_credentials  bytea NOT NULL,
    created_at          timestamptz NOT NULL,
    -- Kept after its end: certificates that it was given can be revoked by it only.
    retired_at          timestamptz,
    -- The authority wants to hear nothing before (Retry-After).
    held_until          timestamptz
);
CREATE UNIQUE INDEX acme_accounts_live ON acme_accounts (directory_url) WHERE retired_at IS NULL;

-- What an account has used of the authority's limits. A bucket refills steadily; one that is full needs no row.
CREATE TABLE acme_budgets (
    account_id  text COLLATE "C" NOT NULL REFERENCES acme_accounts ON DELETE CASCADE,
    bucket      text COLLATE "C" NOT NULL,
    full_at     timestamptz NOT NULL,
    PRIMARY KEY (account_id, bucket)
);
CREATE INDEX acme_budgets_by_age ON acme_budgets (full_at);

-- One row for each name that is to have a certificate.
CREATE TABLE certificate_orders (
    -- A hostname, or a wildcard of the platform's.
    name             text COLLATE "C" PRIMARY KEY CHECK (name ~ '^(\*\.)?[a-z0-9.-]{3,253}$'),
    -- Null for the platform's own names.
    domain           text COLLATE "C" UNIQUE REFERENCES custom_domains ON DELETE CASCADE,
    state            text NOT NULL
        CHECK (state IN ('waiting_for_dns', 'checking', 'ordering', 'live', 'renewing', 'blocked')),
    -- What is in the way, in one sentence.
    message          text,
    since            timestamptz NOT NULL,
    -- When somebody last asked for the certificate.
    watched_at       timestamptz NOT NULL,
    -- Null when nothing is to be done.
    next_attempt_at  timestamptz,
    -- Failures at the authority in a row.
    failures         integer NOT NULL DEFAULT 0,
    leased_until     timestamptz,
    -- Counts the leases: whoever holds an older one notices.
    turn             bigint NOT NULL DEFAULT 0,
    -- The order under way: written before anything else happens to it, its key before the authority has the request.
    account_id       text COLLATE "C" REFERENCES acme_accounts ON DELETE RESTRICT,
    order_url        text,
    sealed_key       bytea,
    -- Whether the authority has refused to take the order for the replacement of the certificate before.
    forgo_replaces   boolean NOT NULL DEFAULT false,
    -- The certificate that the name has, when it is renewed, and when the authority is asked about that.
    certificate_id   text COLLATE "C" REFERENCES certificates ON DELETE SET NULL,
    renew_at         timestamptz,
    -- The end of the time in which it should be renewed. What is due first is worked on first.
    due_by           timestamptz,
    ask_window_at    timestamptz,
    CHECK (order_url IS NULL OR account_id IS NOT NULL)
);
CREATE INDEX certificate_orders_by_attempt ON certificate_orders (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX certificate_orders_by_renewal ON certificate_orders (renew_at) WHERE state = 'live';
CREATE INDEX certificate_orders_by_window ON certificate_orders (ask_window_at) WHERE state = 'live';
CREATE INDEX certificate_orders_by_certificate ON certificate_orders (certificate_id);
