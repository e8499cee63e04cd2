-- The account that pays for a deleted deployment while its pack is in the store, and the bytes that it counts with there. Both are null
-- for what was deleted before this migration, or by a program that does not know it.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE pack_removals ADD COLUMN payer text COLLATE "C", ADD COLUMN bytes bigint;
ALTER TABLE trashed_packs ADD COLUMN payer text COLLATE "C", ADD COLUMN bytes bigint;
ALTER TABLE deleted_projects ADD COLUMN payer text COLLATE "C", ADD COLUMN bytes bigint;

-- Whether an account has a subscription that entitles it to a plan.
CREATE FUNCTION has_plan(of_account text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM subscriptions s WHERE s.account = of_account AND s.status IN ('active', 'past_due'))
$$;

-- The account in whose name the bytes of deleted deployments count: the owner, or the creator of an organization without a subscription.
-- Organizations are free to make and to delete; people are not.
CREATE FUNCTION payer_of(owner text) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT COALESCE((SELECT o.created_by FROM orgs o WHERE o.id = owner AND NOT has_plan(o.id)), owner)
$$;

-- Whether an account had a subscription that was paid for and that ended since `since`: what it used of the month before is paid, and is
-- no other organization's.
CREATE FUNCTION was_paid_since(of_account text, since timestamptz) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM subscriptions s
                   WHERE s.account = of_account AND s.anchored_at IS NOT NULL AND s.ended_at >= since)
$$;

-- The organizations whose use counts against one plan with that of `org`: all that its creator has made and that have no subscription.
-- One with a subscription, or without a known creator, counts alone.
CREATE FUNCTION orgs_counted_with(org text) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 3
AS $$
    SELECT org WHERE org IS NOT NULL
    UNION
    SELECT other.id FROM orgs mine JOIN orgs other ON other.created_by = mine.created_by
    WHERE mine.id = org AND NOT has_plan(mine.id) AND NOT has_plan(other.id)
$$;

-- The organizations whose use of the month that began at `since` counts against one plan with that of `org`: those of
-- `orgs_counted_with`, and what their creator has deleted since, without what was paid for in the month.
CREATE FUNCTION orgs_sharing_month(org text, since timestamptz) RETURNS SETOF text
LANGUAGE sql STABLE ROWS 3
AS $$
    SELECT org WHERE org IS NOT NULL
    UNION
    SELECT other.id FROM orgs mine JOIN orgs other ON other.created_by = mine.created_by
    WHERE mine.id = org AND NOT has_plan(mine.id) AND NOT was_paid_since(mine.id, since)
      AND NOT has_plan(other.id) AND NOT was_paid_since(other.id, since)
    UNION
    SELECT other.id FROM orgs mine JOIN deleted_orgs other ON other.created_by = mine.created_by AND other.deleted_at >= since
    WHERE mine.id = org AND NOT has_plan(mine.id) AND NOT was_paid_since(mine.id, since)
      AND NOT was_paid_since(other.id, since)
$$;

-- The parts of one month's AI credit that organizations without a subscription have drawn from their creator's: together no more than the
-- free plan's credit. A row outlives its organization.
CREATE TABLE free_credit_parts (
    created_by  text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    month       date NOT NULL,
    org_id      text COLLATE "C" NOT NULL,
    microcents  bigint NOT NULL CHECK (microcents >= 0),
    -- The last time that an edge asked. An edge asks again before it goes by an older answer.
    asked_at    timestamptz NOT NULL,
    PRIMARY KEY (created_by, month, org_id)
);
CREATE INDEX free_credit_parts_by_month ON free_credit_parts (month);

-- Returns what the AI completions of an organization may cost in a month, and whether others share the credit: the part of its creator's
-- credit that it has drawn, raised by `step` as far as the credit of the free plan reaches. What others have drawn and left unused for half
-- an hour goes back first. `credit` itself for an organization that shares with none: with a subscription now, or one that was
-- paid for and ended this month, or without a known creator.
CREATE FUNCTION draw_free_credit(of_org text, of_month date, credit bigint, step bigint)
RETURNS TABLE (drawn bigint, is_shared boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    creator text;
    used bigint;
    mine bigint;
    others bigint;
    wanted bigint;
BEGIN
    SELECT o.created_by INTO creator FROM orgs o
    WHERE o.id = of_org AND NOT has_plan(o.id) AND NOT was_paid_since(o.id, of_month::timestamp AT TIME ZONE 'UTC');
    IF creator IS NULL THEN
        RETURN QUERY SELECT credit, false;
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('free credit ' || creator, 0));
    SELECT COALESCE(sum(d.cost_microcents), 0)::bigint INTO used FROM ai_usage_days d
    WHERE d.account_id = of_org AND d.day >= of_month AND d.day < of_month + interval '1 month';
    INSERT INTO free_credit_parts AS p (created_by, month, org_id, microcents, asked_at)
    VALUES (creator, of_month, of_org, used, clock_timestamp())
    ON CONFLICT (created_by, month, org_id)
    DO UPDATE SET asked_at = excluded.asked_at, microcents = greatest(p.microcents, excluded.microcents)
    RETURNING p.microcents INTO mine;
    IF step > 0 THEN
        wanted := mine + step;
        SELECT COALESCE(sum(p.microcents), 0)::bigint INTO others FROM free_credit_parts p
        WHERE p.created_by = creator AND p.month = of_month AND p.org_id <> of_org;
        IF wanted + others > credit THEN
            UPDATE free_credit_parts p SET microcents = least(p.microcents, (
                SELECT COALESCE(sum(d.cost_microcents), 0)::bigint FROM ai_usage_days d
                WHERE d.account_id = p.org_id AND d.day >= of_month AND d.day < of_month + interval '1 month'))
            WHERE p.created_by = creator AND p.month = of_month AND p.org_id <> of_org
              AND p.asked_at < clock_timestamp() - interval '30 minutes';
            SELECT COALESCE(sum(p.microcents), 0)::bigint INTO others FROM free_credit_parts p
            WHERE p.created_by = creator AND p.month = of_month AND p.org_id <> of_org;
        END IF;
        mine := greatest(mine, least(wanted, credit - others));
        UPDATE free_credit_parts p SET microcents = mine
        WHERE p.created_by = creator AND p.month = of_month AND p.org_id = of_org;
    END IF;
    RETURN QUERY SELECT mine, true;
END
$$;

INSERT INTO edge_functions (name) VALUES ('draw_free_credit');
