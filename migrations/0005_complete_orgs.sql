-- Whose plan the org counts against; null once that account is gone.
ALTER TABLE orgs ADD COLUMN created_by text COLLATE "C" REFERENCES users ON DELETE SET NULL;
CREATE INDEX orgs_by_creator ON orgs (created_by);

-- An org always has an owner. The code says so with an error of its own (`last_owner`); this holds for every other way
-- too, such as the deletion of an account. Checked at the commit, and under the org's lock: otherwise two owners who
-- leave at once would each still see the other.
CREATE FUNCTION require_org_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM orgs WHERE id = OLD.org_id FOR NO KEY UPDATE;
    -- Not found: the org is being deleted, with its members.
    IF FOUND AND NOT EXISTS (SELECT 1 FROM org_members WHERE org_id = OLD.org_id AND role = 'owner') THEN
        RAISE EXCEPTION 'organization % would be left without an owner', OLD.org_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'org_members_owner';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER org_members_owner AFTER UPDATE OR DELETE ON org_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.role = 'owner') EXECUTE FUNCTION require_org_owner();

CREATE TABLE invites (
    id           text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL REFERENCES orgs ON DELETE CASCADE,
    email        text NOT NULL,
    role         text NOT NULL CHECK (role IN ('member', 'admin')),
    secret_hash  bytea NOT NULL UNIQUE,
    invited_by   text COLLATE "C" REFERENCES users ON DELETE SET NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- Accepted or revoked; null while it is pending.
    ended_at     timestamptz,
    accepted_by  text COLLATE "C" REFERENCES users ON DELETE SET NULL
);
CREATE INDEX invites_pending ON invites (org_id, id DESC) WHERE ended_at IS NULL;
CREATE INDEX invites_by_expiry ON invites (expires_at);

-- At most 512 KB each, and read rarely: browsers and proxies keep them for a year.
CREATE TABLE org_icons (
    org_id      text COLLATE "C" PRIMARY KEY REFERENCES orgs ON DELETE CASCADE,
    format      text NOT NULL CHECK (format IN ('png', 'jpeg', 'webp', 'gif')),
    image       bytea NOT NULL CHECK (octet_length(image) <= 524288),
    -- The beginning of the image's SHA-256, in hex: `?v=` and the ETag.
    version     text NOT NULL,
    updated_at  timestamptz NOT NULL
);
