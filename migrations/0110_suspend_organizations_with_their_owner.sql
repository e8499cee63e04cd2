-- Organizations that were suspended together with a person end their suspension together with that person's; one that was suspended
-- by itself stays so. Edges refuse the AI keys of an organization when all its owners are suspended, whatever became of it.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The person; null for an account that was suspended by itself, as all were before.
ALTER TABLE account_suspensions ADD COLUMN suspended_with text COLLATE "C";

INSERT INTO edge_functions (name) VALUES ('find_suspension_of_owners');

-- The reason of an organization's owners' suspensions when all of them are suspended, else null. An edge's role may not read the roles.
CREATE FUNCTION find_suspension_of_owners(of_org text)
RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT min(s.reason) FROM org_members m LEFT JOIN account_suspensions s ON s.account = m.user_id
    WHERE m.org_id = of_org AND m.role = 'owner'
    HAVING count(*) = count(s.account)
$$;
