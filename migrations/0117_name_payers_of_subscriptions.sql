-- Who gave the mandate that an organization's subscription is charged to: the owner who paid at its checkout. Nobody else's mandate is
-- charged, and theirs no longer once they are no owner.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Null for a person's own subscription, and where it is not known.
ALTER TABLE subscriptions ADD COLUMN payer text COLLATE "C";
-- The person whose mandates the provider keeps under this customer; null likewise.
ALTER TABLE billing_customers ADD COLUMN payer text COLLATE "C";

-- Letters about accounts that are not the recipient's own have a bound together, which those about the recipient's own do not share.
ALTER TABLE letters ADD COLUMN of_others boolean NOT NULL DEFAULT false;
