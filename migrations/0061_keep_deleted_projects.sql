-- Projects that were deleted and can be restored for some days: their rows as they were. They come back by column, so that a column
-- that is added meanwhile has its default; a test compares the columns with the schema.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE deleted_projects (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    -- The owner, for whom alone it can be restored. An account that is deleted takes them along.
    user_id       text COLLATE "C" REFERENCES users ON DELETE CASCADE,
    org_id        text COLLATE "C" REFERENCES orgs ON DELETE CASCADE,
    deleted_at    timestamptz NOT NULL,
    project       jsonb NOT NULL,
    deployments   jsonb NOT NULL,
    domains       jsonb NOT NULL,
    repo_link     jsonb,
    public_stats  jsonb,
    CHECK ((user_id IS NULL) <> (org_id IS NULL))
);
CREATE INDEX deleted_projects_by_user ON deleted_projects (user_id, id DESC);
CREATE INDEX deleted_projects_by_org ON deleted_projects (org_id, id DESC);
CREATE INDEX deleted_projects_by_age ON deleted_projects (deleted_at);

-- Their variables, in a column of their own: a rotation of the master key seals them anew. The associated data of a value is
-- that of `env_vars`, so that it moves as it is.
CREATE TABLE deleted_env_vars (
    project_id    text COLLATE "C" NOT NULL REFERENCES deleted_projects ON DELETE CASCADE,
    key           text COLLATE "C" NOT NULL,
    sealed_value  bytea NOT NULL,
    scope         text NOT NULL,
    value_bytes   integer NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (project_id, key)
);
