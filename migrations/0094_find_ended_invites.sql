-- no-transaction
-- Those of an organization that are over: the oldest are forgotten, and a deletion takes all of them.
CREATE INDEX CONCURRENTLY invites_by_org ON invites (org_id, id DESC);
