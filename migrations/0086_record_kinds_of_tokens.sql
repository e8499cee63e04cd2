-- The tokens of completions by kind (cached, written to a cache, thought with), their images, what was assumed of their kinds, and how they
-- ended. Programs of the version before go on by record_ai_usage_by_key: what they record has no kinds and no ending.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Null: not reported by the provider, or recorded by an older program.
ALTER TABLE ai_usage ADD COLUMN cached_tokens bigint;
ALTER TABLE ai_usage ADD COLUMN cache_write_tokens bigint;
ALTER TABLE ai_usage ADD COLUMN reasoning_tokens bigint;
ALTER TABLE ai_usage ADD COLUMN images bigint;
-- Bits of the kinds that the provider has not reported and that were charged at the dearer price: 1 cached, 2 written, 4 thought with.
ALTER TABLE ai_usage ADD COLUMN assumed smallint;
-- 1 stop, 2 length, 3 tool calls, 4 content filter, 5 the client had left, 6 cut by the gateway, 7 the provider failed, 8 not known.
ALTER TABLE ai_usage ADD COLUMN ending smallint;
ALTER TABLE ai_usage ADD CONSTRAINT ai_usage_kinds
    CHECK (cached_tokens >= 0 AND cache_write_tokens >= 0 AND reasoning_tokens >= 0 AND images >= 0) NOT VALID;

ALTER TABLE ai_usage_days ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE ai_usage_days ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE ai_usage_days ADD COLUMN reasoning_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE ai_usage_days ADD COLUMN images bigint NOT NULL DEFAULT 0;

-- What record_ai_usage and record_ai_usage_by_key did, with the kinds.
CREATE FUNCTION record_ai_usage_by_kind(
    ids text[], accounts text[], tokens text[], models text[], providers text[], prompts bigint[], completions bigint[],
    costs bigint[], certainties smallint[], times timestamptz[], cached bigint[], cache_writes bigint[], reasonings bigint[],
    image_counts bigint[], assumptions smallint[], endings smallint[])
RETURNS TABLE (account_id text, day date, version bigint, day_tokens bigint, month_cost bigint,
               key_tokens text[], key_costs bigint[])
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
        SELECT * FROM unnest(ids, accounts, tokens, models, providers, prompts, completions, costs, certainties, times,
                             cached, cache_writes, reasonings, image_counts, assumptions, endings)
               AS given (id, account_id, token_id, model, provider, prompt_tokens, completion_tokens, cost_microcents,
                         certainty, created_at, cached_tokens, cache_write_tokens, reasoning_tokens, images, assumed,
                         ending)
        WHERE account_id = ANY (held) AND certainty <> 3),
    added AS (
        INSERT INTO ai_usage (id, account_id, token_id, model, provider, prompt_tokens, completion_tokens,
                              cost_microcents, estimated, certainty, created_at, cached_tokens, cache_write_tokens,
                              reasoning_tokens, images, assumed, ending)
        SELECT id, account_id, token_id, model, provider, prompt_tokens, completion_tokens, cost_microcents,
               certainty < 2, least(certainty, 3), created_at, cached_tokens, cache_write_tokens, reasoning_tokens, images,
               assumed, ending
        FROM given
        ON CONFLICT (id) DO NOTHING
        RETURNING account_id, token_id, (created_at AT TIME ZONE 'UTC')::date AS day, model, prompt_tokens,
                  completion_tokens, cost_microcents, certainty, cached_tokens, cache_write_tokens, reasoning_tokens,
                  images),
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
               (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents, cached_tokens,
                cache_write_tokens, reasoning_tokens, images)
        SELECT account_id, day, model, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_microcents),
               coalesce(sum(cached_tokens), 0), coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0),
               coalesce(sum(images), 0)
        FROM used GROUP BY account_id, day, model ORDER BY account_id, day, model
        ON CONFLICT (account_id, day, model) DO UPDATE SET
            requests = days.requests + excluded.requests,
            prompt_tokens = days.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = days.completion_tokens + excluded.completion_tokens,
            cost_microcents = days.cost_microcents + excluded.cost_microcents,
            cached_tokens = days.cached_tokens + excluded.cached_tokens,
            cache_write_tokens = days.cache_write_tokens + excluded.cache_write_tokens,
            reasoning_tokens = days.reasoning_tokens + excluded.reasoning_tokens,
            images = days.images + excluded.images)
    SELECT count(*) INTO inserted FROM added;

    IF inserted < cardinality(ids) THEN
        WITH given AS (
            SELECT id, account_id, prompt_tokens, completion_tokens, cost_microcents, least(certainty, 3) AS certainty,
                   cached_tokens, cache_write_tokens, reasoning_tokens, images, assumed, ending
            FROM unnest(ids, accounts, prompts, completions, costs, certainties, cached, cache_writes, reasonings,
                        image_counts, assumptions, endings)
                 AS given (id, account_id, prompt_tokens, completion_tokens, cost_microcents, certainty, cached_tokens,
                           cache_write_tokens, reasoning_tokens, images, assumed, ending)
            WHERE account_id = ANY (held) AND certainty > 0),
        old AS (
            SELECT usage.* FROM ai_usage AS usage JOIN given USING (id)
            WHERE CASE WHEN usage.estimated THEN usage.certainty ELSE 2 END
                < CASE WHEN given.certainty = 3 THEN 1 ELSE given.certainty END),
        corrected AS (
            UPDATE ai_usage AS usage SET
                prompt_tokens = given.prompt_tokens, completion_tokens = given.completion_tokens,
                cost_microcents = given.cost_microcents, certainty = given.certainty, estimated = given.certainty < 2,
                cached_tokens = given.cached_tokens, cache_write_tokens = given.cache_write_tokens,
                reasoning_tokens = given.reasoning_tokens, images = given.images, assumed = given.assumed,
                ending = given.ending
            FROM given JOIN old USING (id)
            WHERE usage.id = given.id
            RETURNING usage.account_id, usage.token_id, (usage.created_at AT TIME ZONE 'UTC')::date AS day, usage.model,
                      CASE WHEN usage.certainty = 3 THEN 1 ELSE 0 END AS withdrawn,
                      usage.prompt_tokens - old.prompt_tokens AS prompt_tokens,
                      usage.completion_tokens - old.completion_tokens AS completion_tokens,
                      usage.cost_microcents - old.cost_microcents AS cost_microcents,
                      coalesce(usage.cached_tokens, 0) - coalesce(old.cached_tokens, 0) AS cached_tokens,
                      coalesce(usage.cache_write_tokens, 0) - coalesce(old.cache_write_tokens, 0) AS cache_write_tokens,
                      coalesce(usage.reasoning_tokens, 0) - coalesce(old.reasoning_tokens, 0) AS reasoning_tokens,
                      coalesce(usage.images, 0) - coalesce(old.images, 0) AS images),
        keyed AS (
            UPDATE ai_usage_keys AS keys SET cost_microcents = keys.cost_microcents + sums.cost_microcents
            FROM (SELECT account_id, token_id, date_trunc('month', day::timestamp)::date AS month,
                         sum(cost_microcents)::bigint AS cost_microcents
                  FROM corrected GROUP BY account_id, token_id, month) AS sums
            WHERE keys.account_id = sums.account_id AND keys.token_id = sums.token_id AND keys.month = sums.month),
        sums AS (
            SELECT account_id, day, model, sum(withdrawn)::bigint AS withdrawn, sum(prompt_tokens)::bigint AS prompt_tokens,
                   sum(completion_tokens)::bigint AS completion_tokens, sum(cost_microcents)::bigint AS cost_microcents,
                   sum(cached_tokens)::bigint AS cached_tokens, sum(cache_write_tokens)::bigint AS cache_write_tokens,
                   sum(reasoning_tokens)::bigint AS reasoning_tokens, sum(images)::bigint AS images
            FROM corrected GROUP BY account_id, day, model)
        UPDATE ai_usage_days AS days SET
            requests = days.requests - sums.withdrawn,
            prompt_tokens = days.prompt_tokens + sums.prompt_tokens,
            completion_tokens = days.completion_tokens + sums.completion_tokens,
            cost_microcents = days.cost_microcents + sums.cost_microcents,
            cached_tokens = days.cached_tokens + sums.cached_tokens,
            cache_write_tokens = days.cache_write_tokens + sums.cache_write_tokens,
            reasoning_tokens = days.reasoning_tokens + sums.reasoning_tokens,
            images = days.images + sums.images
        FROM sums
        WHERE days.account_id = sums.account_id AND days.day = sums.day AND days.model = sums.model;
    END IF;

    RETURN QUERY
    SELECT spent.account_id, spent.day, spent.version, spent.day_tokens, spent.month_cost,
           of_keys.tokens, of_keys.costs
    FROM (
        SELECT wanted.account_id, wanted.day, versions.version,
               coalesce(sum(days.prompt_tokens + days.completion_tokens) FILTER (WHERE days.day = wanted.day), 0)::bigint
                   AS day_tokens,
               coalesce(sum(days.cost_microcents), 0)::bigint AS month_cost
        FROM (SELECT DISTINCT given.account_id, (given.at AT TIME ZONE 'UTC')::date AS day
              FROM unnest(accounts, times) AS given (account_id, at) WHERE given.account_id = ANY (held)) AS wanted
        JOIN ai_usage_versions AS versions ON versions.account_id = wanted.account_id
        LEFT JOIN ai_usage_days AS days ON days.account_id = wanted.account_id
            AND days.day >= date_trunc('month', wanted.day::timestamp)
            AND days.day < date_trunc('month', wanted.day::timestamp) + interval '1 month'
        GROUP BY wanted.account_id, wanted.day, versions.version) AS spent
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(keys.token_id), '{}') AS tokens, coalesce(array_agg(keys.cost_microcents), '{}') AS costs
        FROM ai_usage_keys AS keys
        WHERE keys.account_id = spent.account_id AND keys.month = date_trunc('month', spent.day::timestamp)::date
          AND keys.token_id = ANY (record_ai_usage_by_kind.tokens)) AS of_keys;
END
$$;

-- The same for programs that know no kinds. A correction by one of them takes away those of the estimate that it corrects.
CREATE OR REPLACE FUNCTION record_ai_usage(
    ids text[], accounts text[], tokens text[], models text[], providers text[], prompts bigint[], completions bigint[],
    costs bigint[], certainties smallint[], times timestamptz[])
RETURNS TABLE (account_id text, day date, version bigint, day_tokens bigint, month_cost bigint)
LANGUAGE sql
AS $$
    SELECT account_id, day, version, day_tokens, month_cost FROM record_ai_usage_by_kind(
        ids, accounts, tokens, models, providers, prompts, completions, costs, certainties, times,
        NULL, NULL, NULL, NULL, NULL, NULL)
$$;

INSERT INTO edge_functions (name) VALUES ('record_ai_usage_by_kind');
