//! The billing details on an account's invoices, with the registry's verdict on its VAT number.

use domain::{
    Account, Timestamp,
    billing::{
        Country,
        details::{Address, InvoiceLine},
        vat::{VatNumber, VatStatus},
    },
};
use sqlx::{PgConnection, PgExecutor, types::Json};

/// The billing details of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceProfile {
    /// The account.
    pub account: Account,
    /// The billed name.
    pub name: InvoiceLine,
    /// The country, which determines the VAT.
    pub country: Country,
    /// The postal address.
    pub address: Option<Address>,
    /// The VAT number.
    pub vat_number: Option<VatNumber>,
    /// The registry's verdict on the number; `Some` exactly when there is a number.
    pub vat_status: Option<VatStatus>,
    /// The time of the registry's last response; `None` before the first.
    pub vat_checked_at: Option<Timestamp>,
    /// The registry's identifier of that response, which proves the consultation.
    pub vat_consultation: Option<String>,
    /// The name registered with the number, where the member state discloses it.
    pub vat_name: Option<String>,
    /// The address registered with the number, where the member state discloses it.
    pub vat_address: Option<String>,
    /// The time of the next check with the registry.
    pub vat_next_check: Option<Timestamp>,
    /// The number of consecutive checks without a response from the registry.
    pub vat_failures: i32,
    /// The time of the last change by a person.
    pub updated_at: Timestamp,
}

impl InvoiceProfile {
    /// Returns the VAT number with the registry's verdict.
    pub fn vat(&self) -> Option<(&VatNumber, VatStatus)> {
        self.vat_number.as_ref().zip(self.vat_status)
    }
}

macro_rules! select_profile {
    ($condition:literal, $account:expr) => {
        sqlx::query_as!(
            InvoiceProfile,
            "SELECT account, name, country, address, vat_number, vat_status, vat_checked_at, vat_consultation, vat_name,
                    vat_address, vat_next_check, vat_failures, updated_at
             FROM billing_profiles WHERE account = $1" + $condition,
            $account.as_str()
        )
    };
}

/// Returns an account's billing details.
pub async fn find(db: impl PgExecutor<'_>, account: &Account) -> Result<Option<InvoiceProfile>, sqlx::Error> {
    select_profile!("", account).fetch_optional(db).await
}

/// Returns an account's billing details, and locks them until the end of the transaction.
pub async fn lock(conn: &mut PgConnection, account: &Account) -> Result<Option<InvoiceProfile>, sqlx::Error> {
    select_profile!(" FOR UPDATE", account).fetch_optional(conn).await
}

/// Stores an account's billing details, replacing existing ones.
pub async fn store(conn: &mut PgConnection, profile: &InvoiceProfile) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO billing_profiles
             (account, name, country, address, vat_number, vat_status, vat_checked_at, vat_consultation, vat_name,
              vat_address, vat_next_check, vat_failures, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (account) DO UPDATE
             SET name = excluded.name, country = excluded.country, address = excluded.address,
                 vat_number = excluded.vat_number, vat_status = excluded.vat_status,
                 vat_checked_at = excluded.vat_checked_at, vat_consultation = excluded.vat_consultation,
                 vat_name = excluded.vat_name, vat_address = excluded.vat_address,
                 vat_next_check = excluded.vat_next_check, vat_failures = excluded.vat_failures,
                 updated_at = excluded.updated_at",
        profile.account.as_str(),
        profile.name.as_str(),
        profile.country.as_str(),
        profile.address.as_ref().map(Json) as Option<Json<&Address>>,
        profile.vat_number.as_ref().map(VatNumber::as_str),
        profile.vat_status as Option<VatStatus>,
        profile.vat_checked_at,
        profile.vat_consultation,
        profile.vat_name,
        profile.vat_address,
        profile.vat_next_check,
        profile.vat_failures,
        profile.updated_at,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Stores the verdict on the VAT number of `checked`. Returns false if the account has another number by now.
pub async fn record_check(conn: &mut PgConnection, checked: &InvoiceProfile) -> Result<bool, sqlx::Error> {
    let noted = sqlx::query!(
        "UPDATE billing_profiles
         SET vat_status = $3, vat_checked_at = $4, vat_consultation = $5, vat_name = $6, vat_address = $7,
             vat_next_check = $8, vat_failures = $9
         WHERE account = $1 AND vat_number = $2",
        checked.account.as_str(),
        checked.vat_number.as_ref().map(VatNumber::as_str),
        checked.vat_status as Option<VatStatus>,
        checked.vat_checked_at,
        checked.vat_consultation,
        checked.vat_name,
        checked.vat_address,
        checked.vat_next_check,
        checked.vat_failures,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Takes at most `limit` details whose VAT number is due for a check, and postpones the next check to `next` because
/// the check may be interrupted.
pub async fn take_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    next: Timestamp,
    limit: i64,
) -> Result<Vec<InvoiceProfile>, sqlx::Error> {
    sqlx::query_as!(
        InvoiceProfile,
        "WITH due AS MATERIALIZED (
             SELECT account FROM billing_profiles WHERE vat_next_check <= $1
             ORDER BY vat_next_check LIMIT $3 FOR UPDATE SKIP LOCKED)
         UPDATE billing_profiles p SET vat_next_check = $2 FROM due WHERE p.account = due.account
         RETURNING p.account, p.name, p.country, p.address, p.vat_number, p.vat_status, p.vat_checked_at,
                   p.vat_consultation, p.vat_name, p.vat_address, p.vat_next_check, p.vat_failures, p.updated_at",
        now,
        next,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Makes VAT checks due for accounts that are charged by `charged_by`, unless the registry has responded since
/// `checked_since` or its last check got no response. Returns their number.
pub async fn make_checks_due(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    charged_by: Timestamp,
    checked_since: Timestamp,
) -> Result<u64, sqlx::Error> {
    let hastened = sqlx::query!(
        "UPDATE billing_profiles p SET vat_next_check = $1 FROM subscriptions s
         WHERE s.account = p.account AND s.next_attempt_at <= $2 AND s.status IN ('active', 'past_due')
           AND NOT s.cancel_at_period_end AND p.vat_checked_at < $3 AND p.vat_next_check > $1 AND p.vat_failures = 0",
        now,
        charged_by,
        checked_since,
    )
    .execute(db)
    .await?;
    Ok(hastened.rows_affected())
}
