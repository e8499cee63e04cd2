-- The constraint that 0083 has widened.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE store_sweep VALIDATE CONSTRAINT store_sweep_stopped_for_check;
