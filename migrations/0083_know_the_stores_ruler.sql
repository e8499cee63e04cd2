-- A copy of a database has the name that its original has. `store_sweep.copy` is what told this database from its copies when it last ruled
-- the store: one that finds another value there than its own was made of a dump. The sweep stops for a new reason, `copy`.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE store_sweep ADD COLUMN copy text COLLATE "C";
-- It is made anew below, and wider.
-- squawk-ignore ban-drop-constraint
ALTER TABLE store_sweep DROP CONSTRAINT store_sweep_stopped_for_check;
ALTER TABLE store_sweep ADD CONSTRAINT store_sweep_stopped_for_check
    CHECK (stopped_for IN ('clocks', 'older_database', 'share', 'copy')) NOT VALID;
