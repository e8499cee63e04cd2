-- What a key of the AI gateway may ask less of than its plan allows: bytes of a request, and tokens of an answer.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE tokens ADD COLUMN gateway_body_bytes integer;
ALTER TABLE tokens ADD CONSTRAINT tokens_gateway_body_bytes
    CHECK (gateway_body_bytes BETWEEN 1024 AND 33554432) NOT VALID;
ALTER TABLE tokens ADD COLUMN gateway_max_tokens integer;
ALTER TABLE tokens ADD CONSTRAINT tokens_gateway_max_tokens
    CHECK (gateway_max_tokens BETWEEN 1 AND 1000000) NOT VALID;

INSERT INTO edge_functions (name) VALUES ('find_gateway_key');

-- What find_ai_key returns, which edges of the version before call, and these limits. One row in any case.
CREATE FUNCTION find_gateway_key(secret bytea)
RETURNS TABLE (epoch text, seq bigint, seq_end bigint, token_id text, user_id text, org_id text, limit_cents integer,
               account_limit_cents integer, plan text, body_bytes integer, max_tokens integer)
LANGUAGE sql STABLE
AS $$
    SELECT c.epoch, c.last_seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int, t.id, t.user_id, t.org_id,
           t.monthly_limit_cents, o.ai_monthly_limit_cents, s.plan, t.gateway_body_bytes, t.gateway_max_tokens
    FROM route_counter c
    LEFT JOIN tokens t ON t.secret_hash = secret AND t.kind = 'ai' AND t.revoked_at IS NULL
    LEFT JOIN orgs o ON o.id = t.org_id
    LEFT JOIN subscriptions s ON s.account = COALESCE(t.user_id, t.org_id) AND s.status IN ('active', 'past_due')
$$;
