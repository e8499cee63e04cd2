-- A change is not always a project's: the members of an org and the tokens of the gateway are remembered by edges too.
-- The ids tell the kinds apart by their prefixes.
ALTER TABLE route_changes RENAME COLUMN project_id TO subject;
