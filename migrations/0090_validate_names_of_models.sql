-- Checked against what there is, which stops nobody.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE users VALIDATE CONSTRAINT users_ai_aliases;
ALTER TABLE orgs VALIDATE CONSTRAINT orgs_ai_aliases;
