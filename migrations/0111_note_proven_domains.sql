-- A domain whose project has shown that it is theirs, by a record in its DNS, stays with it against others who show the same for as long
-- as it leads here. Those from before this were shown by nobody.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE custom_domains ADD COLUMN proven_at timestamptz;
