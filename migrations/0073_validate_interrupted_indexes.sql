-- A start that was interrupted while it made one of these indexes without locking the table left it invalid, and `IF NOT EXISTS` took it
-- for the finished one at the next start: queries did not use it. It is built anew where that has happened. The tables have a row an
-- account and a row a link, so that this takes a moment; where it takes longer, the operator does it, without a lock.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

DO $$
DECLARE
    unfinished regclass;
BEGIN
    FOR unfinished IN
        SELECT indexrelid::regclass FROM pg_index
        WHERE NOT indisvalid
          AND indexrelid IN (to_regclass('ai_usage_versions_unsummed'), to_regclass('repo_links_by_check'))
        ORDER BY indexrelid
    LOOP
        BEGIN
            EXECUTE format('REINDEX INDEX %s', unfinished);
        EXCEPTION WHEN query_canceled OR lock_not_available THEN
            RAISE EXCEPTION 'an earlier start was interrupted and left this index unfinished: %; run REINDEX INDEX CONCURRENTLY for it, then start again', unfinished;
        END;
    END LOOP;
END
$$;
