-- Hostnames of people's own, and the project that each of them leads to.

CREATE TABLE custom_domains (
    -- In its DNS form (see common::domain::Hostname). The key: whoever attaches a name first has it.
    domain      text COLLATE "C" PRIMARY KEY CHECK (domain ~ '^[a-z0-9.-]{3,253}$'),
    project_id  text COLLATE "C" NOT NULL REFERENCES projects ON DELETE CASCADE,
    created_at  timestamptz NOT NULL
);
CREATE INDEX custom_domains_by_project ON custom_domains (project_id, created_at DESC);
