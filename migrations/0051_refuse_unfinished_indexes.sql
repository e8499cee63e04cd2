-- A start that was interrupted while it made an index without locking the table left it invalid, and `IF NOT EXISTS` took it for the
-- finished one the next time: queries do not use it, and what it should keep unique was not looked at.
DO $$
DECLARE
    unfinished text;
BEGIN
    SELECT string_agg(indexrelid::regclass::text, ', ' ORDER BY indexrelid) INTO unfinished FROM pg_index
    WHERE NOT indisvalid
      AND indexrelid IN (to_regclass('invoices_in_series'), to_regclass('certificates_by_end'));
    IF unfinished IS NOT NULL THEN
        RAISE EXCEPTION 'an earlier start was interrupted and left this index unfinished: %; run REINDEX INDEX CONCURRENTLY for it, then start again', unfinished;
    END IF;
END
$$;
