//! The list of stored certificates for operators, by expiry.

use std::fmt::Write as _;

use db::certificates::{self, ListedCertificate};
use domain::{CertificateId, Timestamp, certificates::CertificateSource};
use serde::Serialize;
use sqlx::PgPool;

use crate::chain::{chain_issuer, days_left};

const PAGE: i64 = 500;

/// A certificate of the list.
#[derive(Debug, Serialize)]
pub struct CertificateRow {
    /// The id.
    pub id: CertificateId,
    /// The DNS names that it covers, wildcards as `*.name`.
    pub names: Vec<String>,
    /// The issuer; `None` if the chain cannot be parsed.
    pub issuer: Option<String>,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    /// Whole days until the end; `None` if it has passed.
    pub days_left: Option<u64>,
    /// The origin.
    pub source: CertificateSource,
    /// The URL of the account that it was issued to.
    pub account: Option<String>,
    /// Whether a newer certificate covers all its names, so that edges no longer present it.
    pub replaced: bool,
}

/// Returns the stored certificates; with `expiring`, only those that expire within this many days and are not replaced.
pub async fn rows(db: &PgPool, expiring: Option<u64>, now: Timestamp) -> Result<Vec<CertificateRow>, sqlx::Error> {
    let (mut rows, mut last): (Vec<CertificateRow>, Option<ListedCertificate>) = (Vec::new(), None);
    loop {
        let page = certificates::list(db, last.as_ref(), PAGE).await?;
        let Some(end) = page.last().cloned() else { return Ok(rows) };
        let found = page.into_iter().map(|listed| CertificateRow::new(listed, now));
        rows.extend(found.filter(|row| expiring.is_none_or(|days| row.ends_within(days))));
        // The rest expire later.
        if expiring.is_some_and(|days| end.not_after > now && days_left(end.not_after, now) > days) {
            return Ok(rows);
        }
        last = Some(end);
    }
}

impl CertificateRow {
    fn new(listed: ListedCertificate, now: Timestamp) -> Self {
        Self {
            issuer: chain_issuer(&listed.chain_pem),
            days_left: (listed.not_after > now).then(|| days_left(listed.not_after, now)),
            id: listed.id,
            names: listed.names,
            not_before: listed.not_before,
            not_after: listed.not_after,
            source: listed.source,
            account: listed.account_url,
            replaced: listed.is_replaced,
        }
    }

    fn ends_within(&self, days: u64) -> bool {
        !self.replaced && self.days_left.is_none_or(|left| left <= days)
    }
}

/// Formats the rows as a table.
pub fn table(rows: &[CertificateRow], expiring: Option<u64>) -> String {
    if rows.is_empty() {
        return expiring.map_or_else(
            || "no certificate is stored".to_owned(),
            |days| format!("no certificate ends within {days} days"),
        );
    }
    let mut table = "VALID UNTIL           DAYS LEFT  ISSUED BY                 SOURCE  NAMES\n".to_owned();
    for row in rows {
        let days = row.days_left.map_or_else(|| "ended".to_owned(), |days| days.to_string());
        let issuer = row.issuer.as_deref().unwrap_or("unreadable");
        let (until, source, names) = (seconds(row.not_after), row.source.as_str(), row.names.join(" "));
        let account = row.account.as_ref().map(|url| format!("  (account {url})")).unwrap_or_default();
        let replaced = if row.replaced { "  (replaced)" } else { "" };
        let _ = writeln!(table, "{until:<20}  {days:>9}  {issuer:<24}  {source:<6}  {names}{account}{replaced}");
    }
    table
}

fn seconds(at: Timestamp) -> String {
    Timestamp::from_unix_millis(at.unix_seconds() * 1_000).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(days: u64, is_replaced: bool) -> CertificateRow {
        let now = Timestamp::from_unix_millis(1_800_000_000_000);
        let listed = ListedCertificate {
            id: CertificateId::new(now),
            names: vec!["a.example".to_owned()],
            chain_pem: String::new(),
            not_before: now,
            not_after: now + Duration::from_hours(24 * days),
            source: CertificateSource::Acme,
            account_url: Some("https://ca.test/acct/1".to_owned()),
            is_replaced,
        };
        CertificateRow::new(listed, now)
    }

    #[test]
    fn what_nobody_presents_any_more_does_not_alarm() {
        assert!(row(14, false).ends_within(14));
        assert!(row(0, false).ends_within(14), "it has ended");
        assert!(!row(15, false).ends_within(14));
        assert!(!row(3, true).ends_within(14));
    }

    #[test]
    fn a_table_has_a_line_each() {
        let table = table(&[row(3, false), row(0, true)], None);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with("acme    a.example  (account https://ca.test/acct/1)"), "{}", lines[1]);
        assert!(lines[2].contains("ended") && lines[2].ends_with("(replaced)"), "{}", lines[2]);
    }
}
