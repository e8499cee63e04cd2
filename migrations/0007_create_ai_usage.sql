-- What the AI gateway's completions used. No foreign keys: what was used is owed although the key, or the org, is gone.
CREATE TABLE ai_usage (
    -- Made up at admission. Being unique is what makes counting twice impossible.
    id                 text COLLATE "C" PRIMARY KEY,
    account_id         text COLLATE "C" NOT NULL,
    token_id           text COLLATE "C" NOT NULL,
    model              text COLLATE "C" NOT NULL,
    provider           text NOT NULL,
    prompt_tokens      bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens  bigint NOT NULL CHECK (completion_tokens >= 0),
    -- Millionths of a cent: tokens times the price of a million, in cents.
    cost_microcents    bigint NOT NULL CHECK (cost_microcents >= 0),
    -- Nobody heard what it really used. What is heard later takes its place.
    estimated          boolean NOT NULL,
    created_at         timestamptz NOT NULL
);

-- The same by day, kept in the same transaction: what usage is shown from and budgets are rebuilt from.
CREATE TABLE ai_usage_days (
    account_id         text COLLATE "C" NOT NULL,
    day                date NOT NULL,
    model              text COLLATE "C" NOT NULL,
    requests           bigint NOT NULL,
    prompt_tokens      bigint NOT NULL,
    completion_tokens  bigint NOT NULL,
    cost_microcents    bigint NOT NULL,
    PRIMARY KEY (account_id, day, model)
);

-- Counts what was written for an account. Its lock puts the writers of one account in an order, so that totals read under
-- it are of a known age, and an older total never takes the place of a newer one.
CREATE TABLE ai_usage_versions (
    account_id  text COLLATE "C" PRIMARY KEY,
    version     bigint NOT NULL
);
