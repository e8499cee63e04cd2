//! The list of stored certificates for operators, soonest end first.

use std::{fmt::Write as _, io};

use db::certificates::{self, Listed};
use domain::Timestamp;
use sqlx::PgPool;

use crate::chain::{days_left, issuer_of};

/// Certificates of one batch.
const PAGE: i64 = 500;

/// Writes a table of every stored certificate.
pub async fn write(db: &PgPool, now: Timestamp, out: &mut impl io::Write) -> anyhow::Result<()> {
    let mut last: Option<Listed> = None;
    loop {
        let page = certificates::list(db, last.as_ref(), PAGE).await?;
        if last.is_none() {
            let head = if page.is_empty() { "no certificate is stored" } else { HEAD };
            writeln!(out, "{head}")?;
        }
        for listed in &page {
            out.write_all(line(listed, now).as_bytes())?;
        }
        match page.into_iter().last() {
            Some(end) => last = Some(end),
            None => return Ok(()),
        }
    }
}

const HEAD: &str = "VALID UNTIL           DAYS LEFT  ISSUED BY                 NAMES";

fn line(listed: &Listed, now: Timestamp) -> String {
    let days = if listed.not_after <= now { "ended".to_owned() } else { days_left(listed.not_after, now).to_string() };
    let issuer = issuer_of(&listed.chain_pem).unwrap_or_else(|| "unreadable".to_owned());
    let mut line = format!("{:<20}  {days:>9}  {issuer:<24}  ", seconds(listed.not_after));
    let _ = writeln!(line, "{}", listed.names.join(" "));
    line
}

/// A time cut to the second.
fn seconds(at: Timestamp) -> String {
    Timestamp::from_unix_millis(at.unix_seconds() * 1_000).to_string()
}
