-- What a look through the store found lost or damaged, and which packs were copied to the replica of the store.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE pack_faults (
    deployment_id  text COLLATE "C" NOT NULL REFERENCES deployments ON DELETE CASCADE,
    kind           text NOT NULL CHECK (kind IN ('manifest_missing', 'manifest_damaged', 'data_missing', 'data_damaged')),
    project_id     text COLLATE "C" NOT NULL REFERENCES projects ON DELETE CASCADE,
    -- The first file that has to do with it, and how many are known to; none where it is the manifest that names them.
    path           text,
    paths          integer NOT NULL CHECK (paths >= 0),
    found_at       timestamptz NOT NULL,
    repaired_at    timestamptz,
    PRIMARY KEY (deployment_id, kind)
);
CREATE INDEX pack_faults_open ON pack_faults (deployment_id) WHERE repaired_at IS NULL;
CREATE INDEX pack_faults_by_project ON pack_faults (project_id);

-- Without a foreign key: a replica keeps the packs of deployments that were deleted.
CREATE TABLE pack_copies (
    deployment_id  text COLLATE "C" NOT NULL,
    replica        text NOT NULL,
    copied_at      timestamptz NOT NULL,
    PRIMARY KEY (deployment_id, replica)
);
