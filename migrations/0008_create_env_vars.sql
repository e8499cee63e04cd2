-- A project's environment variables. The value is sealed with the master key, for this row only.
CREATE TABLE env_vars (
    project_id    text COLLATE "C" NOT NULL REFERENCES projects ON DELETE CASCADE,
    key           text COLLATE "C" NOT NULL CHECK (key ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'),
    sealed_value  bytea NOT NULL,
    scope         text NOT NULL DEFAULT 'runtime' CHECK (scope IN ('runtime', 'build', 'both')),
    -- The value's size in the clear: what a project may keep in all is counted without opening anything.
    value_bytes   integer NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (project_id, key)
);
