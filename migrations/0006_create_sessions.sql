-- Signing in on the web, and the way from there through the gate of an organization's site.

CREATE TABLE sessions (
    id            text COLLATE "C" PRIMARY KEY,
    user_id       text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    secret_hash   bytea NOT NULL UNIQUE,
    -- "Firefox on Linux": enough for its owner to know it again.
    browser       text NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz NOT NULL,
    -- Moves on with use, never beyond the longest life of a session.
    expires_at    timestamptz NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id, id DESC);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Sign-ins under way at the code host. Taken out by the person's return: each works once.
CREATE TABLE sign_ins (
    state_hash       bytea PRIMARY KEY,
    -- Of the secret in the cookie of the browser that began it: nobody else can end it.
    browser_hash     bytea NOT NULL,
    -- What proves to the code host that the exchange comes from who began (PKCE).
    sealed_verifier  bytea NOT NULL,
    return_to        text NOT NULL,
    expires_at       timestamptz NOT NULL
);
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires_at);

-- One-time ways from the console into a gated site. Taken out by the edge that lets the visitor in.
CREATE TABLE gate_tickets (
    secret_hash     bytea PRIMARY KEY,
    -- Of the secret in the cookie of the browser that asked for entry at the site.
    visitor_hash    bytea NOT NULL,
    host            text NOT NULL,
    project_id      text COLLATE "C" NOT NULL REFERENCES projects ON DELETE CASCADE,
    access_version  bigint NOT NULL,
    user_id         text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    expires_at      timestamptz NOT NULL
);
CREATE INDEX gate_tickets_by_expiry ON gate_tickets (expires_at);
CREATE INDEX gate_tickets_by_project ON gate_tickets (project_id);
CREATE INDEX gate_tickets_by_user ON gate_tickets (user_id);

-- Counts the times a person has signed out everywhere: the cookies of gated sites carry it and die with it.
ALTER TABLE users ADD COLUMN gate_version bigint NOT NULL DEFAULT 1;
