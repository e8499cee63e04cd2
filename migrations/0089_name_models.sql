-- The names that an account has given to models of the AI gateway, for clients that ask for names of their own.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE users ADD COLUMN ai_aliases jsonb;
ALTER TABLE users ADD CONSTRAINT users_ai_aliases
    CHECK (jsonb_typeof(ai_aliases) = 'array' AND octet_length(ai_aliases::text) <= 8192) NOT VALID;
ALTER TABLE orgs ADD COLUMN ai_aliases jsonb;
ALTER TABLE orgs ADD CONSTRAINT orgs_ai_aliases
    CHECK (jsonb_typeof(ai_aliases) = 'array' AND octet_length(ai_aliases::text) <= 8192) NOT VALID;

INSERT INTO edge_functions (name) VALUES ('find_model_aliases');

-- An edge's role may read neither table.
CREATE FUNCTION find_model_aliases(owner_user text, owner_org text)
RETURNS jsonb
LANGUAGE sql STABLE
AS $$
    SELECT COALESCE((SELECT ai_aliases FROM users WHERE id = owner_user),
                    (SELECT ai_aliases FROM orgs WHERE id = owner_org))
$$;
