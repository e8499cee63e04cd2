-- That a completion used nothing is known to whoever did not come to ask a provider for it (given with certainty 3), or saw that one
-- fail (given with 4). Both are kept as 3.
--
-- It takes the place of a reservation alone. Of what was seen of an answer it says nothing: who finds no record of a completion in a
-- dead edge's journal cannot tell whether it had one that is settled.
--
-- What a provider failed at gets a row where there is none, and is no request in any sum: who finds only its beginning in a dead edge's
-- journal may come later, and would charge it.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- As before, except for these.
CREATE OR REPLACE FUNCTION record_ai_usage(
    ids text[], accounts text[], tokens text[], models text[], providers text[], prompts bigint[], completions bigint[],
    costs bigint[], certainties smallint[], times timestamptz[])
RETURNS TABLE (account_id text, day date, version bigint, day_tokens bigint, month_cost bigint)
LANGUAGE plpgsql
-- What cannot be skipped: an account whose first row another writer is inserting.
SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    held text[];
    inserted bigint;
BEGIN
    SELECT coalesce(array_agg(free.account_id), '{}') INTO held
    FROM (SELECT account_id FROM ai_usage_versions WHERE account_id = ANY (accounts)
          ORDER BY account_id FOR UPDATE SKIP LOCKED) AS free;
    held := held || ARRAY(
        SELECT DISTINCT given FROM unnest(accounts) AS given
        WHERE NOT EXISTS (SELECT FROM ai_usage_versions AS known WHERE known.account_id = given));
    -- Each statement from here on sees what the last holder of these locks has written.
    INSERT INTO ai_usage_versions AS versions (account_id, version, keys_summed)
    SELECT given, 1, true FROM unnest(held) AS given ORDER BY given
    ON CONFLICT (account_id) DO UPDATE SET version = versions.version + 1;

    WITH given AS (
        SELECT * FROM unnest(ids, accounts, tokens, models, providers, prompts, completions, costs, certainties, times)
               AS given (id, account_id, token_id, model, provider, prompt_tokens, completion_tokens, cost_microcents,
                         certainty, created_at)
        WHERE account_id = ANY (held) AND certainty <> 3),
    added AS (
        INSERT INTO ai_usage (id, account_id, token_id, model, provider, prompt_tokens, completion_tokens,
                              cost_microcents, estimated, certainty, created_at)
        SELECT id, account_id, token_id, model, provider, prompt_tokens, completion_tokens, cost_microcents,
               certainty < 2, least(certainty, 3), created_at
        FROM given
        ON CONFLICT (id) DO NOTHING
        RETURNING account_id, token_id, (created_at AT TIME ZONE 'UTC')::date AS day, model, prompt_tokens,
                  completion_tokens, cost_microcents, certainty),
    used AS (
        SELECT * FROM added WHERE certainty < 3),
    keyed AS (
        INSERT INTO ai_usage_keys AS keys (account_id, token_id, month, cost_microcents)
        SELECT account_id, token_id, date_trunc('month', day::timestamp)::date AS month, sum(cost_microcents)
        FROM used GROUP BY account_id, token_id, month ORDER BY account_id, token_id, month
        ON CONFLICT (account_id, token_id, month) DO UPDATE SET
            cost_microcents = keys.cost_microcents + excluded.cost_microcents),
    summed AS (
        INSERT INTO ai_usage_days AS days
               (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
        SELECT account_id, day, model, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_microcents)
        FROM used GROUP BY account_id, day, model ORDER BY account_id, day, model
        ON CONFLICT (account_id, day, model) DO UPDATE SET
            requests = days.requests + excluded.requests,
            prompt_tokens = days.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = days.completion_tokens + excluded.completion_tokens,
            cost_microcents = days.cost_microcents + excluded.cost_microcents)
    SELECT count(*) INTO inserted FROM added;

    IF inserted < cardinality(ids) THEN
        WITH given AS (
            SELECT id, account_id, prompt_tokens, completion_tokens, cost_microcents, least(certainty, 3) AS certainty
            FROM unnest(ids, accounts, prompts, completions, costs, certainties)
                 AS given (id, account_id, prompt_tokens, completion_tokens, cost_microcents, certainty)
            WHERE account_id = ANY (held) AND certainty > 0),
        old AS (
            SELECT usage.* FROM ai_usage AS usage JOIN given USING (id)
            WHERE CASE WHEN usage.estimated THEN usage.certainty ELSE 2 END
                < CASE WHEN given.certainty = 3 THEN 1 ELSE given.certainty END),
        corrected AS (
            UPDATE ai_usage AS usage SET
                prompt_tokens = given.prompt_tokens, completion_tokens = given.completion_tokens,
                cost_microcents = given.cost_microcents, certainty = given.certainty, estimated = given.certainty < 2
            FROM given JOIN old USING (id)
            WHERE usage.id = given.id
            RETURNING usage.account_id, usage.token_id, (usage.created_at AT TIME ZONE 'UTC')::date AS day, usage.model,
                      CASE WHEN usage.certainty = 3 THEN 1 ELSE 0 END AS withdrawn,
                      usage.prompt_tokens - old.prompt_tokens AS prompt_tokens,
                      usage.completion_tokens - old.completion_tokens AS completion_tokens,
                      usage.cost_microcents - old.cost_microcents AS cost_microcents),
        keyed AS (
            UPDATE ai_usage_keys AS keys SET cost_microcents = keys.cost_microcents + sums.cost_microcents
            FROM (SELECT account_id, token_id, date_trunc('month', day::timestamp)::date AS month,
                         sum(cost_microcents)::bigint AS cost_microcents
                  FROM corrected GROUP BY account_id, token_id, month) AS sums
            WHERE keys.account_id = sums.account_id AND keys.token_id = sums.token_id AND keys.month = sums.month),
        sums AS (
            SELECT account_id, day, model, sum(withdrawn)::bigint AS withdrawn, sum(prompt_tokens)::bigint AS prompt_tokens,
                   sum(completion_tokens)::bigint AS completion_tokens, sum(cost_microcents)::bigint AS cost_microcents
            FROM corrected GROUP BY account_id, day, model)
        UPDATE ai_usage_days AS days SET
            requests = days.requests - sums.withdrawn,
            prompt_tokens = days.prompt_tokens + sums.prompt_tokens,
            completion_tokens = days.completion_tokens + sums.completion_tokens,
            cost_microcents = days.cost_microcents + sums.cost_microcents
        FROM sums
        WHERE days.account_id = sums.account_id AND days.day = sums.day AND days.model = sums.model;
    END IF;

    RETURN QUERY
    SELECT wanted.account_id, wanted.day, versions.version,
           coalesce(sum(days.prompt_tokens + days.completion_tokens) FILTER (WHERE days.day = wanted.day), 0)::bigint,
           coalesce(sum(days.cost_microcents), 0)::bigint
    FROM (SELECT DISTINCT given.account_id, (given.at AT TIME ZONE 'UTC')::date AS day
          FROM unnest(accounts, times) AS given (account_id, at) WHERE given.account_id = ANY (held)) AS wanted
    JOIN ai_usage_versions AS versions ON versions.account_id = wanted.account_id
    LEFT JOIN ai_usage_days AS days ON days.account_id = wanted.account_id
        AND days.day >= date_trunc('month', wanted.day::timestamp)
        AND days.day < date_trunc('month', wanted.day::timestamp) + interval '1 month'
    GROUP BY wanted.account_id, wanted.day, versions.version;
END
$$;
