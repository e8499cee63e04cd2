-- What we may do at the code host, for whom, and which pushes deploy what.

-- The tokens that people granted us when they signed in: access token and refresh token, sealed together.
CREATE TABLE code_host_grants (
    user_id             text COLLATE "C" PRIMARY KEY REFERENCES users ON DELETE CASCADE,
    sealed_tokens       bytea NOT NULL,
    expires_at          timestamptz,
    refresh_expires_at  timestamptz,
    -- Counts every change: a refresh token works once, so whoever was late takes what the other one got.
    version             bigint NOT NULL DEFAULT 1,
    refreshing_until    timestamptz,
    updated_at          timestamptz NOT NULL
);

-- Installations that are shared or linked; the code host's ids.
CREATE TABLE installations (
    id            bigint PRIMARY KEY,
    account       text NOT NULL,
    account_id    bigint NOT NULL,
    account_type  text NOT NULL,
    avatar_url    text,
    created_at    timestamptz NOT NULL,
    suspended_at  timestamptz
);

CREATE TABLE installation_shares (
    -- Alone the key: an installation is shared with one org at most, however many ask at once.
    installation_id  bigint PRIMARY KEY REFERENCES installations ON DELETE CASCADE,
    org_id           text COLLATE "C" NOT NULL REFERENCES orgs ON DELETE CASCADE,
    shared_by        text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    shared_at        timestamptz NOT NULL,
    UNIQUE (installation_id, org_id),
    -- Whoever leaves the org takes along what they shared with it.
    FOREIGN KEY (org_id, shared_by) REFERENCES org_members ON DELETE CASCADE
);
CREATE INDEX installation_shares_by_org ON installation_shares (org_id, shared_by);

CREATE TABLE repo_links (
    project_id        text COLLATE "C" PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
    installation_id   bigint NOT NULL REFERENCES installations ON DELETE CASCADE,
    -- The project's org; null when the project is personal. A link of another org than the project's is dead.
    org_id            text COLLATE "C",
    -- The repository: its id stays when its name changes hands.
    repo_id           bigint NOT NULL,
    repo              text NOT NULL,
    owner_avatar_url  text,
    branch            text NOT NULL,
    directory         text NOT NULL,
    linked_by         text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    linked_at         timestamptz NOT NULL,
    -- The last commit that was deployed, or failed to be.
    last_sha          text,
    -- A link of an org's project lives as long as the share it rests on.
    FOREIGN KEY (installation_id, org_id) REFERENCES installation_shares (installation_id, org_id) ON DELETE CASCADE
);
CREATE INDEX repo_links_by_repo ON repo_links (repo_id);
CREATE INDEX repo_links_by_installation ON repo_links (installation_id, org_id);
CREATE INDEX repo_links_by_org ON repo_links (org_id, linked_at);

-- Pushes to be deployed: the newest of each link. A job fetches the commit and removes the row as it goes live.
CREATE TABLE repo_deploys (
    project_id       text COLLATE "C" PRIMARY KEY REFERENCES repo_links ON DELETE CASCADE,
    sha              text NOT NULL,
    pusher           text NOT NULL,
    -- Counts the pushes: work on an older one notices.
    version          bigint NOT NULL DEFAULT 1,
    queued_at        timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL,
    attempts         integer NOT NULL DEFAULT 0,
    leased_until     timestamptz,
    last_error       text
);
CREATE INDEX repo_deploys_by_attempt ON repo_deploys (next_attempt_at);

-- Webhooks that were acted on, by the code host's delivery id: each counts once.
CREATE TABLE webhook_deliveries (
    id           text COLLATE "C" PRIMARY KEY,
    event        text NOT NULL,
    received_at  timestamptz NOT NULL
);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (received_at);
