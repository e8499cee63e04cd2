//! Books of accounts, written as rows: what subscriptions, payments and their documents leave behind.

use domain::{InvoiceId, PaymentId, ReversalId, SubscriptionId, Timestamp};

use crate::world::World;

/// The time of the first entry.
const BEGIN: i64 = 1_790_000_000_000;

/// The books of one account.
pub struct Books<'w> {
    world: &'w World,
    account: String,
    subscription: SubscriptionId,
}

/// A payment that was paid, with its invoice.
pub struct Paid {
    pub payment: PaymentId,
    pub invoice: InvoiceId,
    pub number: String,
}

impl<'w> Books<'w> {
    /// Opens the books of a person, with an active subscription to `pro`.
    pub async fn of_user(world: &'w World, login: &str) -> Self {
        let account = world.sql_text(&format!("SELECT id FROM users WHERE vcs_login = '{login}'")).await;
        Self::open(world, account).await
    }

    /// Opens the books of an organization, with an active subscription to `pro`.
    pub async fn of_org(world: &'w World, name: &str) -> Self {
        let account = world.sql_text(&format!("SELECT id FROM orgs WHERE name = '{name}'")).await;
        Self::open(world, account).await
    }

    async fn open(world: &'w World, account: String) -> Self {
        let subscription = SubscriptionId::new(Timestamp::from_unix_millis(BEGIN));
        world
            .sql(&format!(
                "INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, due_period,
                                            next_attempt_at, created_at)
                 VALUES ('{subscription}', '{account}', 'pro', 'active', now() - interval '9 days',
                         now() - interval '9 days', now() - interval '9 days' + interval '1 month', 1,
                         now() + interval '20 days', now())
                 ON CONFLICT DO NOTHING"
            ))
            .await;
        // They may be open already.
        let open = format!("SELECT id FROM subscriptions WHERE account = '{account}' AND status = 'active'");
        let subscription = world.sql_text(&open).await.parse().unwrap();
        Self { world, account, subscription }
    }

    /// Changes the subscription.
    pub async fn set(&self, assignments: &str) {
        self.world.sql(&format!("UPDATE subscriptions SET {assignments} WHERE id = '{}'", self.subscription)).await;
    }

    /// Pays `net` and `vat` cents for the month with this number, `minute` minutes after the first entry.
    pub async fn pay(&self, period: i64, net: i64, vat: i64, minute: i64) -> Paid {
        self.pay_by("ideal", period, net, vat, minute).await
    }

    /// Pays in this way.
    pub async fn pay_by(&self, method: &str, period: i64, net: i64, vat: i64, minute: i64) -> Paid {
        let at = Timestamp::from_unix_millis(BEGIN + minute * 60_000);
        let (payment, invoice, total) = (PaymentId::new(at), InvoiceId::new(at), net + vat);
        let Self { world, account, subscription } = self;
        let sequence = 1 + world.sql_number("SELECT count(*) FROM invoices WHERE kind = 'invoice'").await;
        let number = format!("2026-{sequence:06}");
        world
            .sql(&format!(
                "INSERT INTO payments (id, account, subscription_id, sequence, period, plan, net_cents, vat_cents,
                                       total_cents, terms, state, provider, provider_id, method, created_at, settled_at)
                 VALUES ('{payment}', '{account}', '{subscription}', 'recurring', {period}, 'pro', {net}, {vat}, {total},
                         '{{}}', 'paid', 'mollie', 'tr_{payment}', '{method}', '{at}', '{at}');
                 INSERT INTO invoices (id, account, kind, number, year, sequence, payment_id, status, issued_at, net_cents,
                                       vat_cents, total_cents, content)
                 VALUES ('{invoice}', '{account}', 'invoice', '{number}', 2026, {sequence}, '{payment}', 'paid', '{at}',
                         {net}, {vat}, {total}, '{{}}')"
            ))
            .await;
        Paid { payment, invoice, number }
    }

    /// Gives all of a payment back, with a credit note. Returns the credit note.
    pub async fn refund(&self, paid: &Paid, minute: i64) -> InvoiceId {
        let at = Timestamp::from_unix_millis(BEGIN + minute * 60_000);
        let (reversal, note) = (ReversalId::new(at), InvoiceId::new(at));
        let Self { world, account, .. } = self;
        let (payment, invoice, number) = (&paid.payment, &paid.invoice, &paid.number);
        world
            .sql(&format!(
                "INSERT INTO payment_reversals (id, payment_id, kind, total_cents, state, provider_id, created_at, settled_at)
                 SELECT '{reversal}', id, 'refund', total_cents, 'done', 're_{reversal}', '{at}', '{at}'
                 FROM payments WHERE id = '{payment}';
                 INSERT INTO invoices (id, account, kind, number, year, sequence, payment_id, reversal_id, corrects, status,
                                       issued_at, net_cents, vat_cents, total_cents, content)
                 SELECT '{note}', '{account}', 'credit_note', 'CN-{number}', 2026, sequence, '{payment}', '{reversal}',
                        '{invoice}', 'paid', '{at}', net_cents, vat_cents, total_cents, '{{}}'
                 FROM invoices WHERE id = '{invoice}';
                 UPDATE invoices SET status = 'refunded' WHERE id = '{invoice}'"
            ))
            .await;
        note
    }

    /// Has the money of a reversal come back, and invoices it again.
    pub async fn restore(&self, paid: &Paid, minute: i64) {
        let at = Timestamp::from_unix_millis(BEGIN + minute * 60_000);
        let invoice = InvoiceId::new(at);
        let Self { world, account, .. } = self;
        world
            .sql(&format!(
                "UPDATE payment_reversals SET state = 'canceled' WHERE payment_id = '{payment}';
                 INSERT INTO invoices (id, account, kind, number, year, sequence, payment_id, restores, status, issued_at,
                                       net_cents, vat_cents, total_cents, content)
                 SELECT '{invoice}', '{account}', 'invoice', '2026-900001', 2026, 900001, '{payment}', r.id, 'paid', '{at}',
                        i.net_cents, i.vat_cents, i.total_cents, '{{}}'
                 FROM invoices i JOIN payment_reversals r ON r.payment_id = i.payment_id WHERE i.id = '{old}'",
                payment = paid.payment,
                old = paid.invoice,
            ))
            .await;
    }

    /// Stores the documents of an invoice.
    pub async fn render(&self, invoice: &InvoiceId) {
        self.world
            .sql(&format!(
                "INSERT INTO invoice_documents (invoice_id, pdf, cii, ubl, rendered_at)
                 VALUES ('{invoice}', '%PDF-1.7 {invoice}', '<cii>é</cii>', '<ubl/>', now())"
            ))
            .await;
    }
}
