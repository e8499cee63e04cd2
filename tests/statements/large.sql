-- Fills every table with rows whose values are made from their number, and tells the planner that there are far more of them. Checks,
-- which made-up values violate, are dropped; foreign keys are not looked at. $ROWS, $SITES and $DEPLOYMENTS are replaced.
SET session_replication_role = replica;
SET statement_timeout = 0;
SET synchronous_commit = off;
DO $$
DECLARE
    filled record;
    col record;
    columns text;
    made text;
    expression text;
BEGIN
    FOR filled IN SELECT conrelid::regclass AS rel, conname FROM pg_constraint
                  WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND coninhcount = 0 LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', filled.rel, filled.conname);
    END LOOP;
    FOR filled IN SELECT oid, oid::regclass::text AS rel FROM pg_class
                  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
                    AND relname <> '_sqlx_migrations' LOOP
        columns := '';
        made := '';
        FOR col IN SELECT attname, attnum, attnotnull, format_type(atttypid, NULL) AS type FROM pg_attribute
                   WHERE attrelid = filled.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = ''
                   LOOP
            expression := CASE
                -- One in a hundred is due; the others are in the future, or in the past.
                WHEN col.type = 'timestamp with time zone'
                     AND col.attname ~ '^(next_|expires|leased_until|due_|full_at|check_|not_after|until)|_until$'
                    THEN 'now() + (n - $ROWS / 100) * interval ''10 minutes'''
                WHEN col.type = 'timestamp with time zone' THEN 'now() - n * interval ''30 days'' / ($ROWS * 0.9)'
                WHEN col.type = 'date' THEN 'current_date - n % 365'
                WHEN col.type = 'boolean' THEN 'n % 100 = 0'
                WHEN col.type = 'smallint' THEN '(n % 24)::smallint'
                WHEN col.type = 'bytea' THEN 'decode(md5(n::text), ''hex'')'
                WHEN col.type IN ('json', 'jsonb') THEN '''{}''::' || col.type
                WHEN col.type = 'interval' THEN 'interval ''1 day'''
                WHEN col.type = 'text[]' THEN 'ARRAY[''x'' || n]'
                WHEN col.type LIKE '%[]' THEN '''{}''::' || col.type
                WHEN col.type IN ('integer', 'bigint', 'numeric', 'double precision') THEN 'n'
                ELSE format('(''x'' || n)::%s', col.type) END;
            IF NOT col.attnotnull THEN
                expression := format('CASE WHEN n %% 10 = 0 THEN %s END', expression);
            END IF;
            expression := CASE filled.rel || '.' || col.attname
                WHEN 'deployments.status' THEN '(ARRAY[''live'', ''superseded'', ''superseded'', ''failed'', ''superseded''])[1 + n % 5]'
                WHEN 'deployments.project_id' THEN '''x'' || n / 5'
                WHEN 'certificate_orders.certificate_id' THEN '''x'' || n'
                WHEN 'route_changes.published_at' THEN 'now()'
                WHEN 'ai_usage_versions.keys_summed' THEN 'n % 100 <> 0'
                ELSE expression END;
            columns := columns || ', ' || quote_ident(col.attname);
            made := made || ', ' || expression;
        END LOOP;
        EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM generate_series(1, $ROWS) AS n ON CONFLICT DO NOTHING',
                       filled.rel, substr(columns, 3), substr(made, 3));
    END LOOP;
END
$$;
ANALYZE;
UPDATE pg_class SET reltuples = reltuples * $SITES / $ROWS
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i') AND reltuples > 10;
UPDATE pg_class SET reltuples = reltuples * $DEPLOYMENTS / $SITES
    WHERE relname = 'deployments' OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'deployments'::regclass);
CREATE FUNCTION plan_of(types text, statement text, arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'PREPARE planned ' || types || ' AS ' || statement;
    EXECUTE 'EXPLAIN (FORMAT JSON) EXECUTE planned ' || arguments INTO plan;
    DEALLOCATE planned;
    RETURN plan;
END
$$;
