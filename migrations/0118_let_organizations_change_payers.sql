-- An organization without a subscription counts against the free plan of the person in `orgs.created_by`: who created it, or the owner who
-- took it over since. Once that person is no owner, nothing new is made in it until an owner takes it over.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The persons who paid for an organization before. A row may outlive the organization.
CREATE TABLE former_payers (
    payer         text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    org_id        text COLLATE "C" NOT NULL,
    left_at       timestamptz NOT NULL,
    -- What the organization had sent to people in the month until then: it counts for the former payer until the month is over.
    people_bytes  bigint NOT NULL CHECK (people_bytes >= 0),
    PRIMARY KEY (payer, org_id)
);
CREATE INDEX former_payers_by_org ON former_payers (org_id);
CREATE INDEX former_payers_by_age ON former_payers (left_at);

-- As before, but that an organization whose payer is no owner draws nothing.
CREATE OR REPLACE FUNCTION draw_free_credit(of_org text, of_month date, credit bigint, step bigint)
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
    IF has_plan(of_org) OR was_paid_since(of_org, of_month::timestamp AT TIME ZONE 'UTC') THEN
        RETURN QUERY SELECT credit, false;
        RETURN;
    END IF;
    SELECT o.created_by INTO creator FROM orgs o JOIN org_members m ON m.org_id = o.id AND m.user_id = o.created_by
    WHERE o.id = of_org AND m.role = 'owner';
    IF creator IS NULL THEN
        RETURN QUERY SELECT 0::bigint, true;
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
