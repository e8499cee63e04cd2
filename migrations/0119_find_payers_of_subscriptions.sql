-- Apart from the columns' own migration, so that requests do not wait for it. A subscription whose payer is not found here is charged as before.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The audit log knows who began the checkout that was paid.
UPDATE subscriptions s SET payer = (
    SELECT a.actor_user_id FROM audit_log a
    WHERE a.org_id = s.account AND a.action = 'billing.plan' AND a.detail->>'what' = 'checkout'
      AND a.actor_user_id IS NOT NULL AND a.created_at <= s.anchored_at
    ORDER BY a.id DESC LIMIT 1)
WHERE s.status IN ('active', 'past_due') AND s.account LIKE 'org\_%';
UPDATE billing_customers c SET payer = s.payer FROM subscriptions s
WHERE s.account = c.account AND s.status IN ('active', 'past_due') AND s.payer IS NOT NULL;
