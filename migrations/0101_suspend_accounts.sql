-- Accounts that the operator has suspended: none of their projects, shares and AI keys works, whenever it was made. Not a column of the
-- account, which its own members may delete.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE account_suspensions (
    account       text COLLATE "C" PRIMARY KEY,
    reason        text NOT NULL CHECK (reason IN ('abuse', 'legal', 'payment')),
    suspended_at  timestamptz NOT NULL
);

INSERT INTO edge_grants (what) VALUES ('SELECT (account, reason) ON account_suspensions');

-- The person that an entry of the audit log is about, where it is about an account and no project.
ALTER TABLE audit_log ADD COLUMN user_id text COLLATE "C";
-- A wider one takes its place. Programs before this one write no entry that only the wider one takes.
-- squawk-ignore ban-drop-constraint
ALTER TABLE audit_log DROP CONSTRAINT audit_log_check3;
ALTER TABLE audit_log ADD CONSTRAINT audit_log_subject
    CHECK (org_id IS NOT NULL OR project_id IS NOT NULL OR user_id IS NOT NULL) NOT VALID;
