-- Spending limits that were added in 0040 hold for every row.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE tokens VALIDATE CONSTRAINT tokens_monthly_limit;
ALTER TABLE orgs VALIDATE CONSTRAINT orgs_ai_monthly_limit;
