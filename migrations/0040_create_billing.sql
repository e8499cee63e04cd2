-- Subscriptions, payments and invoices. An account is named by its id alone: what was paid and invoiced outlives it.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The details that an account's invoices carry.
CREATE TABLE billing_profiles (
    account          text COLLATE "C" PRIMARY KEY CHECK (account ~ '^(usr|org)_[a-z0-9]{20}$'),
    name             text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
    country          text COLLATE "C" NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    -- Street, postcode and city, as lines of text: {lines, postcode, city}.
    address          jsonb,
    vat_number       text COLLATE "C",
    -- The registry's word about the number: pending, valid or invalid.
    vat_status       text CHECK (vat_status IN ('pending', 'valid', 'invalid')),
    vat_checked_at   timestamptz,
    -- The registry's proof that it was asked.
    vat_consultation text,
    -- Name and address that the registry has with the number; null where the state tells none.
    vat_name         text,
    vat_address      text,
    -- When the registry is asked again; null without a number.
    vat_next_check   timestamptz,
    vat_failures     integer NOT NULL DEFAULT 0,
    updated_at       timestamptz NOT NULL,
    CHECK ((vat_number IS NULL) = (vat_status IS NULL))
);
CREATE INDEX billing_profiles_due ON billing_profiles (vat_next_check) WHERE vat_next_check IS NOT NULL;

-- The account as a customer of the payment provider.
CREATE TABLE billing_customers (
    account      text COLLATE "C" NOT NULL CHECK (account ~ '^(usr|org)_[a-z0-9]{20}$'),
    provider     text NOT NULL CHECK (provider IN ('mollie', 'play')),
    customer_id  text COLLATE "C" NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (account, provider),
    UNIQUE (provider, customer_id)
);

CREATE TABLE subscriptions (
    id                    text COLLATE "C" PRIMARY KEY CHECK (id ~ '^sub_[a-z0-9]{20}$'),
    account               text COLLATE "C" NOT NULL CHECK (account ~ '^(usr|org)_[a-z0-9]{20}$'),
    -- The plan that the account has, and the one it will have from the next month on, if that is another.
    plan                  text NOT NULL,
    next_plan             text,
    status                text NOT NULL CHECK (status IN ('pending', 'active', 'past_due', 'ended')),
    -- The first payment's time, from which the months are counted; null while it is pending.
    anchored_at           timestamptz,
    -- The number of the present month, from 0, and its ends.
    period                integer NOT NULL DEFAULT 0 CHECK (period >= 0),
    period_start          timestamptz,
    period_end            timestamptz,
    -- The month that is charged next: the one after the present one, or the present one once its payment was taken back.
    due_period            integer NOT NULL DEFAULT 0 CHECK (due_period >= 0),
    cancel_at_period_end  boolean NOT NULL DEFAULT false,
    -- Charges for the month that is due that have failed.
    failures              integer NOT NULL DEFAULT 0,
    -- When a job has to do something for it; null when only the payer or the provider can.
    next_attempt_at       timestamptz,
    created_at            timestamptz NOT NULL,
    ended_at              timestamptz,
    end_reason            text CHECK (end_reason IN ('canceled', 'unpaid', 'never_paid', 'replaced')),
    CHECK ((status = 'pending') = (anchored_at IS NULL) OR status = 'ended'),
    CHECK ((anchored_at IS NULL) = (period_start IS NULL) AND (period_start IS NULL) = (period_end IS NULL)),
    CHECK ((status = 'ended') = (ended_at IS NOT NULL))
);
-- One at a time: this is what makes a second charge for the same account impossible.
CREATE UNIQUE INDEX subscriptions_entitled ON subscriptions (account) WHERE status IN ('active', 'past_due');
CREATE INDEX subscriptions_by_account ON subscriptions (account, id);
CREATE INDEX subscriptions_due ON subscriptions (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

CREATE TABLE payments (
    id               text COLLATE "C" PRIMARY KEY CHECK (id ~ '^pay_[a-z0-9]{20}$'),
    account          text COLLATE "C" NOT NULL,
    subscription_id  text COLLATE "C" NOT NULL REFERENCES subscriptions ON DELETE RESTRICT,
    sequence         text NOT NULL CHECK (sequence IN ('first', 'recurring')),
    -- The month that is paid, and the plan it is paid for.
    period           integer NOT NULL CHECK (period >= 0),
    plan             text NOT NULL,
    -- Charges for the month before this one.
    attempt          integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    net_cents        bigint NOT NULL CHECK (net_cents >= 0),
    vat_cents        bigint NOT NULL CHECK (vat_cents >= 0),
    total_cents      bigint NOT NULL CHECK (total_cents = net_cents + vat_cents),
    -- What the invoice will say: buyer, seller, lines, treatment of VAT, as they were when the payment was made.
    terms            jsonb NOT NULL,
    state            text NOT NULL CHECK (state IN ('intended', 'open', 'paid', 'failed', 'canceled', 'expired')),
    provider         text NOT NULL CHECK (provider IN ('mollie', 'play')),
    -- The provider's id; null until it has answered.
    provider_id      text COLLATE "C",
    checkout_url     text,
    method           text,
    failure          text,
    -- Whether it pays, or may pay, for its month. Not when its money was taken back, or when it was paid although nothing
    -- was left to be bought with it, so that it is given back.
    covers           boolean NOT NULL DEFAULT true,
    -- What the provider says of it that the ledger cannot follow; an operator has to look.
    difference       text,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    -- When a job asks the provider about it; null when it is settled and too old to be taken back.
    next_look_at     timestamptz,
    -- Answers of the provider that were no answer, in a row.
    look_failures    integer NOT NULL DEFAULT 0,
    UNIQUE (subscription_id, period, attempt),
    UNIQUE (provider, provider_id),
    CHECK ((state IN ('intended', 'open')) = (settled_at IS NULL)),
    CHECK (state <> 'open' OR provider_id IS NOT NULL)
);
-- One charge for a month that is under way or paid.
CREATE UNIQUE INDEX payments_live ON payments (subscription_id, period)
    WHERE state IN ('intended', 'open', 'paid') AND covers;
CREATE INDEX payments_by_account ON payments (account, id);
CREATE INDEX payments_due ON payments (next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX payments_differing ON payments (id) WHERE difference IS NOT NULL;

-- Money of a payment that went back: refunds and charge-backs.
CREATE TABLE payment_reversals (
    id           text COLLATE "C" PRIMARY KEY CHECK (id ~ '^rev_[a-z0-9]{20}$'),
    payment_id   text COLLATE "C" NOT NULL REFERENCES payments ON DELETE RESTRICT,
    kind         text NOT NULL CHECK (kind IN ('refund', 'chargeback')),
    total_cents  bigint NOT NULL CHECK (total_cents > 0),
    -- pending: asked for, and can still be called off. done: the money is gone. canceled: it never went, or came back.
    state        text NOT NULL CHECK (state IN ('pending', 'done', 'canceled')),
    provider_id  text COLLATE "C",
    reason       text,
    created_at   timestamptz NOT NULL,
    settled_at   timestamptz,
    UNIQUE (payment_id, kind, provider_id)
);
CREATE INDEX payment_reversals_pending ON payment_reversals (id) WHERE state = 'pending';

-- The last number of each year. Its row is locked from the number's choice to the commit, so that none is left out.
CREATE TABLE invoice_numbers (
    kind  text NOT NULL CHECK (kind IN ('invoice', 'credit_note')),
    year  integer NOT NULL CHECK (year BETWEEN 2000 AND 9999),
    last  integer NOT NULL CHECK (last >= 0),
    PRIMARY KEY (kind, year)
);

-- Invoices and credit notes, never changed but for `status`.
CREATE TABLE invoices (
    id            text COLLATE "C" PRIMARY KEY CHECK (id ~ '^ivc_[a-z0-9]{20}$'),
    account       text COLLATE "C" NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('invoice', 'credit_note')),
    number        text COLLATE "C" NOT NULL UNIQUE,
    year          integer NOT NULL,
    sequence      integer NOT NULL CHECK (sequence > 0),
    -- The payment that it bills, or whose reversal it credits.
    payment_id    text COLLATE "C" NOT NULL REFERENCES payments ON DELETE RESTRICT,
    reversal_id   text COLLATE "C" UNIQUE REFERENCES payment_reversals ON DELETE RESTRICT,
    -- The invoice that a credit note corrects.
    corrects      text COLLATE "C" REFERENCES invoices ON DELETE RESTRICT,
    -- The reversal whose money came back after it was credited, so that it is invoiced again.
    restores      text COLLATE "C" UNIQUE REFERENCES payment_reversals ON DELETE RESTRICT,
    status        text NOT NULL CHECK (status IN ('paid', 'refunded', 'partly_refunded', 'charged_back')),
    issued_at     timestamptz NOT NULL,
    currency      text NOT NULL DEFAULT 'EUR' CHECK (currency = 'EUR'),
    -- Positive on both kinds; a credit note's are given back.
    net_cents     bigint NOT NULL CHECK (net_cents >= 0),
    vat_cents     bigint NOT NULL CHECK (vat_cents >= 0),
    total_cents   bigint NOT NULL CHECK (total_cents = net_cents + vat_cents),
    -- Everything that its documents are rendered from.
    content       jsonb NOT NULL,
    -- When a job renders its documents; null when they are there.
    render_at       timestamptz,
    render_failures integer NOT NULL DEFAULT 0,
    UNIQUE (kind, year, sequence),
    CHECK ((kind = 'credit_note') = (corrects IS NOT NULL) AND (kind = 'credit_note') = (reversal_id IS NOT NULL)),
    CHECK (kind = 'invoice' OR restores IS NULL)
);
-- One invoice for a payment.
CREATE UNIQUE INDEX invoices_of_payment ON invoices (payment_id) WHERE kind = 'invoice' AND restores IS NULL;
CREATE INDEX invoices_by_payment ON invoices (payment_id);
CREATE INDEX invoices_by_account ON invoices (account, id);
CREATE INDEX invoices_to_render ON invoices (render_at) WHERE render_at IS NOT NULL;

CREATE TABLE invoice_documents (
    invoice_id  text COLLATE "C" PRIMARY KEY REFERENCES invoices ON DELETE RESTRICT,
    pdf         bytea NOT NULL,
    cii         text NOT NULL,
    ubl         text NOT NULL,
    rendered_at timestamptz NOT NULL
);

-- The provider that pays with play money: what a real one would keep on its side.
CREATE TABLE play_payments (
    id           text COLLATE "C" PRIMARY KEY,
    customer_id  text COLLATE "C" NOT NULL,
    -- The key of the request that made it: made again, it is the same payment.
    request_key  text COLLATE "C" NOT NULL UNIQUE,
    total_cents  bigint NOT NULL,
    description  text NOT NULL,
    redirect_url text NOT NULL,
    is_first     boolean NOT NULL,
    status       text NOT NULL CHECK (status IN ('open', 'paid', 'failed', 'canceled')),
    -- Of a first payment: whether the charges that follow it are paid as well.
    later_charges_pay boolean NOT NULL DEFAULT true,
    created_at   timestamptz NOT NULL
);
CREATE INDEX play_payments_by_customer ON play_payments (customer_id, created_at);

CREATE TABLE play_refunds (
    id           text COLLATE "C" PRIMARY KEY,
    payment_id   text COLLATE "C" NOT NULL REFERENCES play_payments ON DELETE RESTRICT,
    request_key  text COLLATE "C" NOT NULL UNIQUE,
    total_cents  bigint NOT NULL CHECK (total_cents > 0),
    created_at   timestamptz NOT NULL
);
CREATE INDEX play_refunds_by_payment ON play_refunds (payment_id);

-- Letters that may be sent again: they wait here until a mail server has taken them.
CREATE TABLE letters (
    id               text COLLATE "C" PRIMARY KEY CHECK (id ~ '^eml_[a-z0-9]{20}$'),
    -- The event that it tells of: one letter for each, whatever is repeated.
    event            text COLLATE "C" NOT NULL UNIQUE,
    recipient        text COLLATE "C" NOT NULL,
    -- The account that it is about, and the kind of letter, by which it can be unsubscribed.
    account          text COLLATE "C",
    kind             text NOT NULL,
    -- What the letter is written from when it is sent.
    content          jsonb NOT NULL,
    invoice_id       text COLLATE "C" REFERENCES invoices ON DELETE RESTRICT,
    state            text NOT NULL CHECK (state IN ('waiting', 'sent', 'given_up', 'unsubscribed')),
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz,
    error            text,
    created_at       timestamptz NOT NULL,
    sent_at          timestamptz,
    CHECK ((state = 'waiting') = (next_attempt_at IS NOT NULL))
);
CREATE INDEX letters_due ON letters (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX letters_by_age ON letters (created_at);
CREATE INDEX letters_by_recipient ON letters (recipient, kind, created_at);

-- Kinds of letters that a recipient wants no more. Letters about money are sent all the same.
CREATE TABLE letter_refusals (
    recipient  text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    refused_at timestamptz NOT NULL,
    PRIMARY KEY (recipient, kind)
);

-- How far an account is through its plan's bandwidth of a month. A row stands once the first notice is due.
CREATE TABLE bandwidth_levels (
    account     text COLLATE "C" NOT NULL CHECK (account ~ '^(usr|org)_[a-z0-9]{20}$'),
    month       date NOT NULL CHECK (extract(day FROM month) = 1),
    -- 80: told. 100: told, and served at a bounded rate.
    percent     smallint NOT NULL CHECK (percent IN (80, 100)),
    -- The plan of the subscription that the account had then, null without one. With another it counts no more.
    plan        text,
    reached_at  timestamptz NOT NULL,
    PRIMARY KEY (account, month)
);
CREATE INDEX bandwidth_levels_by_month ON bandwidth_levels (month);

-- The most that a key, or all of an account's keys, may cost in a month.
ALTER TABLE tokens ADD COLUMN monthly_limit_cents integer;
ALTER TABLE tokens ADD CONSTRAINT tokens_monthly_limit CHECK (monthly_limit_cents >= 0) NOT VALID;
ALTER TABLE orgs ADD COLUMN ai_monthly_limit_cents integer;
ALTER TABLE orgs ADD CONSTRAINT orgs_ai_monthly_limit CHECK (ai_monthly_limit_cents >= 0) NOT VALID;
