-- Moves apart in time what the scene made within a second, and writes what programs asked of models.
UPDATE deployments SET created_at = created_at - (rank * rank * 7 + rank) * interval '1 hour',
                       superseded_at = superseded_at - ((rank - 1) * (rank - 1) * 7 + rank - 1) * interval '1 hour'
FROM (SELECT id AS deployment, row_number() OVER (PARTITION BY project_id ORDER BY created_at DESC) AS rank FROM deployments) AS ranked
WHERE deployment = id;
UPDATE projects SET created_at = created_at - interval '211 days' - (length(name) * 9) * interval '1 day';
UPDATE users SET created_at = created_at - interval '400 days';
UPDATE tokens SET created_at = created_at - (rank * 17) * interval '1 day'
FROM (SELECT id AS token, row_number() OVER (ORDER BY created_at) AS rank FROM tokens) AS ranked WHERE token = id;

UPDATE org_members SET joined_at = joined_at - (rank * 23) * interval '1 day'
FROM (SELECT user_id AS member, row_number() OVER (ORDER BY joined_at DESC) AS rank FROM org_members) AS ranked WHERE member = user_id;

INSERT INTO bandwidth_months (month, account, people_bytes)
SELECT date_trunc('month', now(), 'UTC')::date, account, bytes
FROM (SELECT id AS account, 61200000000 AS bytes FROM users WHERE vcs_login = '$login'
      UNION ALL SELECT id, 83400000000 FROM orgs WHERE name = 'harbour') AS used
ON CONFLICT (month, account) DO UPDATE SET people_bytes = EXCLUDED.people_bytes;

INSERT INTO ai_usage_days (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
SELECT account, day::date, model, ceil(n * weight), ceil(n * weight * 840), ceil(n * weight * 310), ceil(n * weight * 41000)
FROM (SELECT id AS account FROM users WHERE vcs_login = '$login' UNION ALL SELECT id FROM orgs WHERE name = 'harbour') AS accounts,
     generate_series(date_trunc('month', now(), 'UTC'), now(), interval '1 day') AS day,
     LATERAL (SELECT 20 + 90 * (0.5 + 0.5 * sin(extract(day FROM day)))) AS shape (n),
     (SELECT model, weight FROM (VALUES (1, 1.0), (2, 0.4), (3, 0.15)) AS weights (place, weight)
      JOIN (SELECT model, row_number() OVER (ORDER BY model) AS place
            FROM unnest(ARRAY['svc/mistral-small', 'svc/mistral-medium', 'svc/qwen3-coder-30b']) AS model) AS models USING (place)) AS models
ON CONFLICT DO NOTHING;
