//! The queue of letters for a mail server: each is queued in the transaction of its event, and sent by a job.
//!
//! Before sending a letter, the job postpones its next attempt, so that no other job takes it meanwhile and a crash
//! only delays it. Start with [`queue`] and [`take_due`].

use std::time::Duration;

use domain::{Account, EmailAddress, InvoiceId, LetterId, OrgName, Timestamp};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};

/// The time in which letters are counted for a [`DailyBound`].
const DAY: Duration = Duration::from_hours(24);

/// A letter to send.
#[derive(Debug)]
pub struct NewLetter<'a> {
    /// The event's id. Each recipient gets one letter per event, even if it is queued again.
    pub event: &'a str,
    /// The recipient.
    pub recipient: &'a EmailAddress,
    /// The account that the letter is about.
    pub account: Option<&'a Account>,
    /// The kind of letter, which recipients can unsubscribe from.
    pub kind: &'a str,
    /// The values of the letter's template.
    pub content: &'a Value,
    /// The invoice whose documents are attached.
    pub invoice: Option<&'a InvoiceId>,
    /// The bound on letters of this kind to this recipient; further ones are dropped. `None` is unlimited.
    pub most_a_day: Option<DailyBound>,
}

/// A bound on the letters of one kind that a recipient receives within a day.
#[derive(Debug, Clone, Copy)]
pub struct DailyBound {
    /// Those about one account.
    pub of_account: i64,
    /// Those about all accounts together that are not the recipient's own; `None` for a letter about one that is.
    /// Strangers, who may make somebody an owner of their organizations, must not silence letters about the
    /// recipient's own account.
    pub of_others: Option<i64>,
}

/// A recipient of letters about an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The address.
    pub address: EmailAddress,
    /// Whether the account is the recipient's own: the person's, or an organization that the person pays for.
    pub is_own: bool,
}

/// Queues a letter that is due immediately. Queueing another one for the same event and recipient does nothing.
pub async fn queue(conn: &mut PgConnection, letter: &NewLetter<'_>, now: Timestamp) -> Result<(), sqlx::Error> {
    let NewLetter { event, recipient, account, kind, content, invoice, most_a_day } = letter;
    let (id, event) = (LetterId::new(now), format!("{event} {}", recipient.as_str()));
    if most_a_day.is_some() {
        // Serialize counting, because letters that are queued concurrently would not see each other. The lock is a
        // separate statement, so that the next one sees everything committed while waiting for it.
        sqlx::query!(
            "SELECT pg_advisory_xact_lock(hashtextextended('letters ' || $1 || ' ' || $2, 0))",
            recipient.as_str(),
            kind,
        )
        .execute(&mut *conn)
        .await?;
    }
    sqlx::query!(
        "INSERT INTO letters
             (id, event, recipient, account, kind, content, invoice_id, state, next_attempt_at, created_at, of_others)
         SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::jsonb, $7::text, 'waiting', $8::timestamptz, $8,
                $11::bigint IS NOT NULL
          WHERE ($9::bigint IS NULL
                 OR $9 > (SELECT count(*) FROM letters WHERE recipient = $3 AND kind = $5 AND created_at > $10
                          AND account IS NOT DISTINCT FROM $4))
            AND ($11 IS NULL
                 OR $11 > (SELECT count(*) FROM letters WHERE recipient = $3 AND kind = $5 AND created_at > $10
                           AND of_others))
         ON CONFLICT (event) DO NOTHING",
        id.as_str(),
        event,
        recipient.as_str(),
        account.map(Account::as_str),
        kind,
        content,
        invoice.map(InvoiceId::as_str),
        now,
        most_a_day.map(|most| most.of_account),
        (now - DAY),
        most_a_day.and_then(|most| most.of_others),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the recipients of letters about an account: the person, or the organization's owners. People without an
/// address at the code host are left out.
pub async fn contacts(conn: &mut PgConnection, account: &Account) -> Result<Vec<Contact>, sqlx::Error> {
    let contacts = sqlx::query!(
        r#"SELECT email AS "email!", bool_or(is_own) AS "is_own!" FROM (
               SELECT email, true AS is_own FROM users WHERE id = $1 AND email IS NOT NULL
               UNION ALL
               SELECT u.email, COALESCE(o.created_by = u.id, false)
               FROM org_members m JOIN users u ON u.id = m.user_id JOIN orgs o ON o.id = m.org_id
               WHERE m.org_id = $1 AND m.role = 'owner' AND u.email IS NOT NULL) AS found
           GROUP BY email ORDER BY email"#,
        account.as_str(),
    )
    .fetch_all(conn)
    .await?;
    let contact = |address: String, is_own| Some(Contact { address: address.parse().ok()?, is_own });
    Ok(contacts.into_iter().filter_map(|row| contact(row.email, row.is_own)).collect())
}

/// A letter taken from the queue.
#[derive(Debug, Clone)]
pub struct TakenLetter {
    /// The id.
    pub id: LetterId,
    /// The recipient, as the code host reported it; it may not be a valid address.
    pub recipient: String,
    /// The account that the letter is about.
    pub account: Option<Account>,
    /// The account's name, if it is an existing organization.
    pub org: Option<OrgName>,
    /// The kind of letter.
    pub kind: String,
    /// The values of the letter's template.
    pub content: Value,
    /// The invoice whose documents are attached.
    pub invoice: Option<InvoiceId>,
    /// The number of rejected attempts.
    pub attempts: i32,
    /// The time of the event.
    pub created_at: Timestamp,
}

/// Takes at most `limit` due letters, the oldest attempt first, and postpones their next attempt to `until`, so that
/// they are not taken again before then.
pub async fn take_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Result<Vec<TakenLetter>, sqlx::Error> {
    sqlx::query_as!(
        TakenLetter,
        r#"WITH due AS MATERIALIZED (
               SELECT id FROM letters WHERE next_attempt_at <= $1
               ORDER BY next_attempt_at, id LIMIT $3 FOR UPDATE SKIP LOCKED),
           taken AS (
               UPDATE letters l SET next_attempt_at = $2 FROM due WHERE l.id = due.id
               RETURNING l.id, l.recipient, l.account, l.kind, l.content, l.invoice_id, l.attempts, l.created_at)
           SELECT t.id AS "id!: LetterId", t.recipient AS "recipient!: String", t.account AS "account?: Account",
                  o.name AS "org?: OrgName", t.kind AS "kind!: String", t.content AS "content!: Value",
                  t.invoice_id AS "invoice?: InvoiceId", t.attempts AS "attempts!: i32", t.created_at AS "created_at!: Timestamp"
             FROM taken t LEFT JOIN orgs o ON o.id = t.account ORDER BY t.id"#,
        now,
        until,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Records that a mail server has accepted a letter.
pub async fn mark_sent(db: impl PgExecutor<'_>, id: &LetterId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE letters SET state = 'sent', attempts = attempts + 1, next_attempt_at = NULL, error = NULL, sent_at = $2
         WHERE id = $1",
        id.as_str(),
        now,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Records a rejected attempt with its reason and the time of the next attempt, without which the letter is given up.
pub async fn record_rejection(
    db: impl PgExecutor<'_>,
    id: &LetterId,
    error: &str,
    next: Option<Timestamp>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE letters SET state = CASE WHEN $3::timestamptz IS NULL THEN 'given_up' ELSE 'waiting' END,
                            attempts = attempts + 1, next_attempt_at = $3, error = $2
         WHERE id = $1 AND state = 'waiting'",
        id.as_str(),
        error,
        next as Option<Timestamp>,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Postpones letters without counting an attempt.
pub async fn postpone(db: impl PgExecutor<'_>, ids: &[LetterId], next: Timestamp) -> Result<(), sqlx::Error> {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    sqlx::query!("UPDATE letters SET next_attempt_at = $2 WHERE id = ANY($1) AND state = 'waiting'", &ids, next,)
        .execute(db)
        .await
        .map(drop)
}

/// Settles due letters whose recipients have unsubscribed from their kind since they were queued.
pub async fn settle_unsubscribed(db: impl PgExecutor<'_>, now: Timestamp) -> Result<u64, sqlx::Error> {
    let settled = sqlx::query!(
        "UPDATE letters l SET state = 'unsubscribed', next_attempt_at = NULL FROM letter_refusals r
         WHERE l.next_attempt_at <= $1 AND r.recipient = l.recipient AND r.kind = l.kind",
        now,
    )
    .execute(db)
    .await?;
    Ok(settled.rows_affected())
}

/// Gives up and counts at most `limit` due letters queued before `since`, except those of the kinds `kept`.
pub async fn give_up_stale(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    since: Timestamp,
    kept: &[String],
    error: &str,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let given_up = sqlx::query!(
        "UPDATE letters SET state = 'given_up', next_attempt_at = NULL, error = coalesce(error, $3)
         WHERE id IN (
             SELECT id FROM letters WHERE next_attempt_at <= $1 AND created_at < $2 AND kind <> ALL($5)
             ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED)",
        now,
        since,
        error,
        limit,
        kept,
    )
    .execute(db)
    .await?;
    Ok(given_up.rows_affected())
}

/// Deletes at most `limit` settled letters that were queued before `since`, and returns their number.
pub async fn delete_old(db: impl PgExecutor<'_>, since: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM letters WHERE id IN (
             SELECT id FROM letters WHERE created_at < $1 AND state <> 'waiting' ORDER BY created_at LIMIT $2)",
        since,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}

/// The pending letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingLetters {
    /// Their number.
    pub count: i64,
    /// The time the oldest was queued.
    pub oldest: Option<Timestamp>,
    /// The time the oldest of the kinds that are never given up was queued.
    pub oldest_kept: Option<Timestamp>,
}

/// Counts the pending letters. Letters of the kinds `kept` are never given up.
pub async fn count_pending(db: impl PgExecutor<'_>, kept: &[String]) -> Result<PendingLetters, sqlx::Error> {
    sqlx::query_as!(
        PendingLetters,
        r#"SELECT count(*) AS "count!", min(created_at) AS "oldest: Timestamp",
                  min(created_at) FILTER (WHERE kind = ANY($1)) AS "oldest_kept: Timestamp"
           FROM letters WHERE next_attempt_at IS NOT NULL"#,
        kept,
    )
    .fetch_one(db)
    .await
}

/// The attachments of the letter about an invoice or a credit note.
#[derive(Debug, Clone)]
pub struct InvoiceFiles {
    /// The document's number.
    pub number: String,
    /// The PDF.
    pub pdf: Vec<u8>,
    /// The UBL document.
    pub ubl: String,
}

/// Returns the attachments for an invoice; `None` until they are rendered.
pub async fn invoice_files(db: impl PgExecutor<'_>, invoice: &InvoiceId) -> Result<Option<InvoiceFiles>, sqlx::Error> {
    sqlx::query_as!(
        InvoiceFiles,
        "SELECT i.number, d.pdf, d.ubl FROM invoice_documents d JOIN invoices i ON i.id = d.invoice_id
         WHERE d.invoice_id = $1",
        invoice.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Unsubscribes an address from a kind of letter. Pending letters of the kind are not sent.
pub async fn unsubscribe(
    conn: &mut PgConnection,
    recipient: &EmailAddress,
    kind: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO letter_refusals (recipient, kind, refused_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        recipient.as_str(),
        kind,
        now,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "UPDATE letters SET state = 'unsubscribed', next_attempt_at = NULL
         WHERE recipient = $1 AND kind = $2 AND state = 'waiting'",
        recipient.as_str(),
        kind,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Subscribes an address to a kind of letter again.
pub async fn subscribe(db: impl PgExecutor<'_>, recipient: &EmailAddress, kind: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM letter_refusals WHERE recipient = $1 AND kind = $2", recipient.as_str(), kind)
        .execute(db)
        .await
        .map(drop)
}

/// Returns whether an address has unsubscribed from a kind of letter.
pub async fn is_unsubscribed(
    db: impl PgExecutor<'_>,
    recipient: &EmailAddress,
    kind: &str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM letter_refusals WHERE recipient = $1 AND kind = $2) AS "is!""#,
        recipient.as_str(),
        kind,
    )
    .fetch_one(db)
    .await
}
