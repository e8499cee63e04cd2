-- Who did what to which org or project. Written in the transaction of the change itself, and never changed again.
-- People, tokens, orgs and projects stand here by value and without foreign keys: an entry outlives all of them.
CREATE TABLE audit_log (
    id            text COLLATE "C" PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    -- A dotted verb of common::domain::audit::Action; not checked here, so that a new one needs no migration.
    action        text NOT NULL,
    actor_kind    text NOT NULL CHECK (actor_kind IN ('user', 'deploy_token', 'code_host', 'platform')),
    actor_user_id text COLLATE "C",
    -- A person's login, a deploy token's label, a code host's account: as it was then.
    actor_name    text,
    token_id      text COLLATE "C",
    org_id        text COLLATE "C",
    org_name      text COLLATE "C",
    project_id    text COLLATE "C",
    project_name  text COLLATE "C",
    -- What else there is to say; never a secret.
    detail        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(detail) = 'object'),
    CHECK ((actor_kind = 'user') = (actor_user_id IS NOT NULL)),
    CHECK ((org_id IS NULL) = (org_name IS NULL)),
    CHECK ((project_id IS NULL) = (project_name IS NULL)),
    CHECK (org_id IS NOT NULL OR project_id IS NOT NULL)
);
CREATE INDEX audit_log_by_org ON audit_log (org_id, id DESC) WHERE org_id IS NOT NULL;
CREATE INDEX audit_log_by_project ON audit_log (project_id, id DESC) WHERE project_id IS NOT NULL;

-- Append-only, for everybody who speaks to the database and not only for our programs.
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
