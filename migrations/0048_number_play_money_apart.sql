-- What is paid with play money has series of numbers of its own: whoever tries the service out, and then sells, begins at one. What
-- has a number keeps it.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE invoices ADD COLUMN is_play boolean NOT NULL DEFAULT false;

-- A few rows a year: looked through in no time.
-- squawk-ignore ban-drop-constraint
ALTER TABLE invoice_numbers DROP CONSTRAINT invoice_numbers_kind_check;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE invoice_numbers ADD CONSTRAINT invoice_numbers_kind_check CHECK (kind IN ('invoice', 'credit_note', 'play_invoice', 'play_credit_note'));
