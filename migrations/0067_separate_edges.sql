-- Edges get a role of their own in the database: it reads the columns that edges need, writes by functions, and does nothing else.
-- `admin grant-edge` makes one and grants; admin grants anew after migrations. Edges that still use the owner's role are not
-- affected.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- What an edge may do, a line each. A later migration that has edges read or call more adds a row.
CREATE TABLE edge_grants (
    -- What stands between GRANT and TO.
    what  text COLLATE "C" PRIMARY KEY CHECK (what ~ '^SELECT \([a-z0-9_, ]+\) ON [a-z0-9_]+$')
);
INSERT INTO edge_grants (what) VALUES
    ('SELECT (last_seq, epoch) ON route_counter'),
    ('SELECT (seq, subject, hosts, nonce) ON route_changes'),
    ('SELECT (id) ON pending_route_changes'),
    ('SELECT (oldest_migration, oldest_version) ON schema_floor'),
    ('SELECT (id, sealed_check) ON master_key_checks'),
    ('SELECT (id, name, share_name, user_id, org_id, active_deployment_id, access_mode, password_hash, access_version, expires_at, suspended_at, suspended_for) ON projects'),
    ('SELECT (id, project_id, status, access_version, superseded_at) ON deployments'),
    ('SELECT (domain, project_id) ON custom_domains'),
    ('SELECT (account, month, percent, plan) ON bandwidth_levels'),
    ('SELECT (account, plan, status) ON subscriptions'),
    ('SELECT (org_id, user_id) ON org_members'),
    ('SELECT (id, gate_version) ON users'),
    ('SELECT (id, names, chain_pem, sealed_key, not_before, not_after, created_at, revoked_at) ON certificates'),
    ('SELECT (kind, name, token, answer, expires_at) ON acme_challenges'),
    ('SELECT (name) ON database_name'),
    ('SELECT (source, networks, read_at) ON agent_networks'),
    ('SELECT (key_id, agent, public_key, expires_at) ON agent_keys'),
    ('SELECT (id, account_id) ON ai_usage'),
    ('SELECT (account_id, day, prompt_tokens, completion_tokens, cost_microcents) ON ai_usage_days'),
    ('SELECT (account_id, token_id, month, cost_microcents) ON ai_usage_keys'),
    ('SELECT (account_id, version, keys_summed) ON ai_usage_versions');

-- The functions by which edges write, or look up what they may not list. They run with their owner's rights, and find nothing in any
-- schema but their own.
CREATE TABLE edge_functions (
    name  text COLLATE "C" PRIMARY KEY
);
INSERT INTO edge_functions (name) VALUES
    ('append_traffic'), ('find_ai_key'), ('note_settled_edges'), ('record_ai_usage_by_key'), ('sum_ai_usage_keys'),
    ('take_gate_ticket'), ('visitor_salt');

-- The roles of edges, and what of the above each was last granted.
CREATE TABLE edge_roles (
    role_name  text COLLATE "C" PRIMARY KEY,
    granted    text NOT NULL
);

-- Returns the `ai` token with this secret, unless it was revoked, and what its account may spend; one row in any case, with the
-- changes that the reading includes: every one up to `seq` of `epoch`, and none beyond `seq_end`.
CREATE FUNCTION find_ai_key(secret bytea)
RETURNS TABLE (epoch text, seq bigint, seq_end bigint, token_id text, user_id text, org_id text, limit_cents integer,
               account_limit_cents integer, plan text)
LANGUAGE sql STABLE
AS $$
    SELECT c.epoch, c.last_seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int, t.id, t.user_id, t.org_id, t.monthly_limit_cents, o.ai_monthly_limit_cents, s.plan
    FROM route_counter c
    LEFT JOIN tokens t ON t.secret_hash = secret AND t.kind = 'ai' AND t.revoked_at IS NULL
    LEFT JOIN orgs o ON o.id = t.org_id
    LEFT JOIN subscriptions s ON s.account = COALESCE(t.user_id, t.org_id) AND s.status IN ('active', 'past_due')
$$;

-- Takes a ticket out, whoever presents it. It is worth nothing afterwards.
CREATE FUNCTION take_gate_ticket(secret bytea)
RETURNS TABLE (visitor_hash bytea, host text, project_id text, access_version bigint, user_id text, gate_version bigint,
               expires_at timestamptz)
LANGUAGE sql
AS $$
    DELETE FROM gate_tickets t USING users u WHERE t.secret_hash = secret AND u.id = t.user_id
    RETURNING t.visitor_hash, t.host, t.project_id, t.access_version, t.user_id, u.gate_version, t.expires_at
$$;

-- Notes edges that have nothing left to settle.
CREATE FUNCTION note_settled_edges(edges text[], settled timestamptz) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO settled_edges (edge_id, settled_at) SELECT edge, settled FROM unnest(edges) AS edge ORDER BY edge
    ON CONFLICT DO NOTHING
$$;

-- Returns the salt of a day: the one that some edge has given it, else the proposed one. An update that changes nothing returns the row
-- of whoever was first, also one that is just being written.
CREATE FUNCTION visitor_salt(of_day date, proposed bytea) RETURNS bytea
LANGUAGE sql
AS $$
    INSERT INTO visitor_salts AS known (day, salt) VALUES (of_day, proposed)
    ON CONFLICT (day) DO UPDATE SET salt = known.salt RETURNING salt
$$;

-- Names what a role was granted, or is to be: changes with the lists, with every migration, because one that replaces a function takes
-- back how it runs, and when the role or the tables are others: a restored database may lack all rights that were granted.
CREATE FUNCTION edge_grants_version(of_role text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    migrations text := '';
BEGIN
    IF to_regclass('_sqlx_migrations') IS NOT NULL THEN
        EXECUTE 'SELECT count(*)::text FROM _sqlx_migrations' INTO migrations;
    END IF;
    RETURN md5(concat_ws(E'\n', migrations,
        (SELECT oid FROM pg_class WHERE oid = to_regclass('edge_roles')),
        (SELECT oid FROM pg_roles WHERE rolname = of_role),
        (SELECT string_agg(what, E'\n' ORDER BY what) FROM edge_grants),
        (SELECT string_agg(name, E'\n' ORDER BY name) FROM edge_functions)));
END
$$;

-- Grants a role what edges need, and takes everything else in this schema from it. Called by the owner of the tables.
CREATE FUNCTION grant_edge(to_role text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here CONSTANT text := current_schema();
    me CONSTANT oid := (SELECT oid FROM pg_roles WHERE rolname = current_user);
    edge pg_roles;
    item record;
BEGIN
    -- One at a time: grants of the same thing at the same time fail.
    PERFORM pg_advisory_xact_lock(hashtext('svc: grant_edge'));
    SELECT * INTO edge FROM pg_roles WHERE rolname = to_role;
    IF edge IS NULL THEN
        RAISE EXCEPTION 'there is no role %', to_role USING ERRCODE = 'undefined_object';
    END IF;
    IF edge.rolsuper OR edge.rolcreaterole OR edge.rolbypassrls OR edge.rolreplication OR pg_has_role(edge.oid, me, 'MEMBER') THEN
        RAISE EXCEPTION 'the role % may do more than an edge', to_role USING ERRCODE = 'invalid_grant_operation';
    END IF;
    BEGIN
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', here);
    EXCEPTION WHEN insufficient_privilege THEN
        -- Another role's schema. From PostgreSQL 15 on nobody else may create there anyway.
        NULL;
    END;
    FOR item IN
        SELECT relation.oid::regclass AS name FROM pg_class AS relation
        WHERE relation.relnamespace = here::regnamespace AND relation.relowner = me
          AND (EXISTS (SELECT FROM aclexplode(relation.relacl) AS acl WHERE acl.grantee = edge.oid)
               OR EXISTS (SELECT FROM pg_attribute AS attribute, aclexplode(attribute.attacl) AS acl
                          WHERE attribute.attrelid = relation.oid AND acl.grantee = edge.oid))
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %I', item.name, to_role);
    END LOOP;
    -- Everybody may call a new function, unless that is taken back.
    FOR item IN
        SELECT routine.oid::regprocedure AS name, granted.name IS NOT NULL AS is_granted,
               routine.proacl IS NULL OR EXISTS (
                   SELECT FROM aclexplode(routine.proacl) AS acl WHERE acl.grantee IN (0, edge.oid)) AS is_open,
               routine.prosecdef AND EXISTS (
                   SELECT FROM unnest(routine.proconfig) AS setting WHERE setting LIKE 'search_path=%') AS is_owners
        FROM pg_proc AS routine LEFT JOIN edge_functions AS granted ON granted.name = routine.proname
        WHERE routine.pronamespace = here::regnamespace AND routine.proowner = me AND routine.prokind IN ('f', 'p')
          AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = routine.oid AND deptype = 'e')
    LOOP
        IF item.is_open THEN
            EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC, %I', item.name, to_role);
        END IF;
        IF item.is_granted THEN
            IF NOT item.is_owners THEN
                -- Temporary tables come last, where they would otherwise come first.
                EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', item.name, here);
            END IF;
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', item.name, to_role);
        END IF;
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', here, to_role);
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), to_role);
    FOR item IN SELECT what FROM edge_grants ORDER BY what LOOP
        EXECUTE format('GRANT %s TO %I', item.what, to_role);
    END LOOP;
    INSERT INTO edge_roles AS known (role_name, granted) VALUES (to_role, edge_grants_version(to_role))
    ON CONFLICT (role_name) DO UPDATE SET granted = excluded.granted;
END
$$;

-- Grants anew the roles of edges that were granted something else than what edges may do now. One that this server does not have is
-- left out: the database was restored elsewhere.
CREATE FUNCTION grant_edges_anew() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT role_name FROM edge_roles
        WHERE granted <> edge_grants_version(role_name) AND EXISTS (SELECT FROM pg_roles WHERE rolname = role_name)
        ORDER BY role_name
    LOOP
        PERFORM grant_edge(known.role_name);
    END LOOP;
END
$$;

-- Makes a role that can log in with this password, or gives the one that there is this password. Returns whether it was made.
CREATE FUNCTION make_edge_role(new_role text, new_password text) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM edge_roles WHERE role_name = new_role)
       AND EXISTS (SELECT FROM pg_roles WHERE rolname = new_role) THEN
        EXECUTE format('ALTER ROLE %I PASSWORD %L', new_role, new_password);
        RETURN false;
    END IF;
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L', new_role, new_password);
    RETURN true;
END
$$;
