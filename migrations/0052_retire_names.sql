-- Names that projects and orgs had until they were deleted. For a while only their former owner may take one again: nobody else
-- inherits whoever still follows its links. What was deleted before this table was made is free.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE retired_names (
    -- Projects and orgs have names apart.
    kind           text COLLATE "C" NOT NULL CHECK (kind IN ('project', 'org')),
    name           text COLLATE "C" NOT NULL,
    -- The accounts that may take it: the owner of a project, the owners of an org. They may be gone themselves.
    former_owners  text[] COLLATE "C" NOT NULL CHECK (cardinality(former_owners) > 0),
    retired_at     timestamptz NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX retired_names_by_age ON retired_names (retired_at);
-- An org that is deleted hands the names of its projects on to its owners.
CREATE INDEX retired_names_by_owner ON retired_names (former_owners);
