-- What an edge gives a person's organizations together is no more than what it gives a person: it knows who created each.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

INSERT INTO edge_grants (what) VALUES ('SELECT (id, created_by) ON orgs');
