-- Who gave the mandate that an organization's subscription is charged to: the owner who paid at its checkout. Nobody else's mandate is
-- charged, and theirs no longer once they are no owner.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Null for a person's own subscription, and where it is not known.
ALTER TABLE subscriptions ADD COLUMN payer text COLLATE "C";
-- The person whose mandates the provider keeps under this customer; null likewise.
ALTER TABLE billing_customers ADD COLUMN payer text COLLATE "C";

-- The audit log knows who began the checkout that was paid.
UPDATE subscriptions s SET payer = (
    SELECT a.actor_user_id FROM audit_log a
    WHERE a.org_id = s.account AND a.action = 'billing.plan' AND a.detail->>'what' = 'checkout'
      AND a.actor_user_id IS NOT NULL AND a.created_at <= s.anchored_at
    ORDER BY a.id DESC LIMIT 1)
WHERE s.status IN ('active', 'past_due') AND s.account LIKE 'org\_%';
UPDATE billing_customers c SET payer = s.payer FROM subscriptions s
WHERE s.account = c.account AND s.status IN ('active', 'past_due') AND s.payer IS NOT NULL;

-- Letters about accounts that are not the recipient's own have a bound together, which those about the recipient's own do not share.
ALTER TABLE letters ADD COLUMN of_others boolean NOT NULL DEFAULT false;
