-- The spine: who there is, what they publish, what the edges must be told.
-- Ids are text that sorts by time; COLLATE "C" keeps that order whatever the database's locale.

CREATE TABLE users (
    id          text COLLATE "C" PRIMARY KEY,
    vcs_id      text NOT NULL UNIQUE,
    vcs_login   text NOT NULL,
    email       text,
    created_at  timestamptz NOT NULL
);

CREATE TABLE orgs (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    display_name  text,
    created_at    timestamptz NOT NULL
);

CREATE TABLE org_members (
    org_id     text COLLATE "C" NOT NULL REFERENCES orgs ON DELETE CASCADE,
    user_id    text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    role       text NOT NULL CHECK (role IN ('member', 'admin', 'owner')),
    joined_at  timestamptz NOT NULL,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX org_members_by_user ON org_members (user_id);

CREATE TABLE tokens (
    id           text COLLATE "C" PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('cli', 'ai', 'deploy')),
    user_id      text COLLATE "C" REFERENCES users ON DELETE CASCADE,
    org_id       text COLLATE "C" REFERENCES orgs ON DELETE CASCADE,
    created_by   text COLLATE "C" REFERENCES users ON DELETE SET NULL,
    label        text,
    secret_hash  bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL,
    revoked_at   timestamptz,
    -- A cli token is a user's, a deploy token an org's, an ai token either's.
    CHECK ((user_id IS NULL) <> (org_id IS NULL)),
    CHECK (kind <> 'cli' OR user_id IS NOT NULL),
    CHECK (kind <> 'deploy' OR org_id IS NOT NULL)
);
CREATE INDEX tokens_by_user ON tokens (user_id, id DESC);
CREATE INDEX tokens_by_org ON tokens (org_id, id DESC);

CREATE TABLE device_grants (
    device_code_hash    bytea PRIMARY KEY,
    user_code           text NOT NULL UNIQUE,
    -- The code host's own device code, sealed; null for the local kind.
    sealed_device_code  bytea,
    interval_seconds    integer NOT NULL,
    state               text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    user_id             text COLLATE "C" REFERENCES users ON DELETE CASCADE,
    created_at          timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    last_polled_at      timestamptz
);
CREATE INDEX device_grants_by_expiry ON device_grants (expires_at);

CREATE TABLE projects (
    id                    text COLLATE "C" PRIMARY KEY,
    name                  text COLLATE "C" NOT NULL UNIQUE,
    user_id               text COLLATE "C" REFERENCES users ON DELETE CASCADE,
    org_id                text COLLATE "C" REFERENCES orgs ON DELETE RESTRICT,
    active_deployment_id  text COLLATE "C",
    access_mode           text NOT NULL DEFAULT 'public' CHECK (access_mode IN ('public', 'password', 'org')),
    password_hash         text,
    -- Counts every change of access: gate cookies carry it and die with it.
    access_version        bigint NOT NULL DEFAULT 1,
    -- The three words, for the project behind a share.
    share_name            text COLLATE "C" UNIQUE,
    expires_at            timestamptz,
    suspended_at          timestamptz,
    created_at            timestamptz NOT NULL,
    CHECK ((user_id IS NULL) <> (org_id IS NULL)),
    CHECK (access_mode <> 'password' OR password_hash IS NOT NULL),
    CHECK ((share_name IS NULL) = (expires_at IS NULL))
);
CREATE INDEX projects_by_user ON projects (user_id, id DESC);
CREATE INDEX projects_by_org ON projects (org_id, id DESC);
CREATE INDEX projects_by_expiry ON projects (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE deployments (
    id              text COLLATE "C" PRIMARY KEY,
    project_id      text COLLATE "C" NOT NULL REFERENCES projects ON DELETE CASCADE,
    status          text NOT NULL CHECK (status IN ('uploading', 'live', 'superseded', 'failed')),
    files           integer NOT NULL DEFAULT 0,
    bytes           bigint NOT NULL DEFAULT 0,
    cli_version     text,
    git_sha         text,
    created_by      text,
    failure         text,
    -- The project's access_version when it last went live: content published under another gate is not lent to open tabs.
    access_version  bigint,
    created_at      timestamptz NOT NULL,
    superseded_at   timestamptz
);
CREATE INDEX deployments_by_project ON deployments (project_id, id DESC);
CREATE UNIQUE INDEX deployments_one_live ON deployments (project_id) WHERE status = 'live';
CREATE INDEX deployments_uploading ON deployments (created_at) WHERE status = 'uploading';

ALTER TABLE projects ADD CONSTRAINT projects_active_deployment
    FOREIGN KEY (active_deployment_id) REFERENCES deployments DEFERRABLE INITIALLY DEFERRED;

-- Packs whose deployment is gone; a job removes the objects, then the row. Written with the delete, so none is forgotten.
CREATE TABLE pack_removals (
    deployment_id    text COLLATE "C" PRIMARY KEY,
    queued_at        timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL,
    attempts         integer NOT NULL DEFAULT 0
);

-- Changes that edges must learn of. One counter row, locked until commit, makes seq follow the order of commits
-- without gaps: an edge that has seen seq N has seen everything before it.
CREATE TABLE route_counter (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    last_seq  bigint NOT NULL
);
INSERT INTO route_counter (last_seq) VALUES (0);

CREATE TABLE route_changes (
    seq           bigint PRIMARY KEY,
    project_id    text COLLATE "C" NOT NULL,
    -- Hosts that begin or cease to exist, as labels: see common::routes::HostKey.
    hosts         text[] NOT NULL,
    created_at    timestamptz NOT NULL,
    published_at  timestamptz
);
CREATE INDEX route_changes_unpublished ON route_changes (seq) WHERE published_at IS NULL;

-- Answers to requests with an Idempotency-Key. The answer is sealed with a key derived from the caller's own secret.
CREATE TABLE idempotency_keys (
    scope_hash     bytea PRIMARY KEY,
    request_hash   bytea,
    status         smallint,
    sealed_answer  bytea,
    created_at     timestamptz NOT NULL
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE certificates (
    id          text COLLATE "C" PRIMARY KEY,
    -- DNS names it covers, wildcards as *.name.
    names       text[] NOT NULL,
    chain_pem   text NOT NULL,
    sealed_key  bytea NOT NULL,
    not_before  timestamptz NOT NULL,
    not_after   timestamptz NOT NULL,
    created_at  timestamptz NOT NULL
);
CREATE INDEX certificates_by_name ON certificates USING gin (names);

-- One row per background job; holding its lock is holding the lease.
CREATE TABLE job_leases (
    job          text PRIMARY KEY,
    last_run_at  timestamptz,
    last_error   text
);
