-- `invoices_in_series` takes its place.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- squawk-ignore ban-drop-constraint
ALTER TABLE invoices DROP CONSTRAINT invoices_kind_year_sequence_key;
