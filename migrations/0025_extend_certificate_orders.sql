-- What an order has cost, since when its authority wants it, and which certificates were revoked.

SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Numbers the leases of all rows: a row that was deleted and made again has no lease that an older one had. Far above what rows
-- have counted by themselves until now.
CREATE SEQUENCE certificate_turns AS bigint START WITH 1000000000;

ALTER TABLE certificate_orders
    -- Whether the order under way was counted against the account's allowance.
    ADD COLUMN is_counted boolean NOT NULL DEFAULT false,
    -- The start of the window in which the authority wants the certificate replaced, once it has said.
    ADD COLUMN window_starts_at timestamptz;

ALTER TABLE certificates ADD COLUMN revoked_at timestamptz;
