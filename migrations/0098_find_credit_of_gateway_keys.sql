-- What find_gateway_key returns, which edges of the version before call, and the plan for which the account's present month was
-- charged: after an upgrade in its course that is a cheaper one, whose credit is the most that is in reach until the dearer one
-- is paid. One row in any case.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

INSERT INTO edge_functions (name) VALUES ('find_gateway_key_and_credit');

CREATE FUNCTION find_gateway_key_and_credit(secret bytea)
RETURNS TABLE (epoch text, seq bigint, seq_end bigint, token_id text, user_id text, org_id text, limit_cents integer,
               account_limit_cents integer, plan text, body_bytes integer, max_tokens integer, charged_plan text)
LANGUAGE sql STABLE
AS $$
    SELECT k.epoch, k.seq, k.seq_end, k.token_id, k.user_id, k.org_id, k.limit_cents, k.account_limit_cents, k.plan,
           k.body_bytes, k.max_tokens,
           (SELECT p.plan FROM subscriptions s JOIN payments p ON p.subscription_id = s.id AND p.period = s.period
            WHERE s.account = COALESCE(k.user_id, k.org_id) AND s.status IN ('active', 'past_due')
            ORDER BY p.attempt DESC LIMIT 1)
    FROM find_gateway_key(secret) k
$$;
