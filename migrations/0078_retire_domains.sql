-- Custom domains of a deleted project are kept for its owner like its name: another account that attached one would get whoever still
-- follows its DNS here. Programs before this one retire none and look for none.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- A wider one takes its place below. Programs before this one write the two kinds that they know.
-- squawk-ignore ban-drop-constraint
ALTER TABLE retired_names DROP CONSTRAINT retired_names_kind_check;
ALTER TABLE retired_names
    ADD CONSTRAINT retired_names_kind_check CHECK (kind IN ('project', 'org', 'domain')) NOT VALID;
