//! Letters that may be sent again: each is a value that is kept until a mail server has taken what is written from it.

use db::letters::{self, NewLetter};
use domain::{
    Account, EmailAddress, Hostname, InvoiceId, ProjectName, Timestamp,
    billing::{Cents, vat::VatNumber},
    month::Month,
    token::TokenKind,
};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::kinds::Kind;

/// Letters of a kind that one person gets within a day, unless they are about money. Whoever makes tokens in a loop does not fill
/// the mailboxes of an organization's owners.
const MOST_A_DAY: i64 = 50;

/// A letter about an account, as it is kept. A field that is added needs a default: letters of older versions wait too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// An invoice, or a credit note, with its documents attached.
    Invoice {
        /// Its number.
        number: String,
        /// The amount with VAT.
        total: Cents,
        /// The plan's name.
        plan: String,
        /// Whether it is a credit note.
        is_credit_note: bool,
    },
    /// A charge for the next month has failed.
    PaymentFailed {
        /// The plan's name.
        plan: String,
        /// The amount with VAT.
        total: Cents,
        /// The time of the next attempt; `None` after the last.
        next_attempt: Option<Timestamp>,
    },
    /// A bank has taken a payment back.
    ChargedBack {
        /// The number of the invoice that was paid with it.
        number: String,
        /// The amount.
        total: Cents,
    },
    /// A subscription is over, and the account is on the free plan. Nothing was deleted.
    SubscriptionEnded {
        /// The plan's name.
        plan: String,
        /// Whether charges failed; otherwise it was cancelled.
        is_unpaid: bool,
    },
    /// The EU's VAT registry no longer knows the account's VAT number, so that VAT is charged from the next invoice on.
    VatNumberInvalid {
        /// The number.
        number: VatNumber,
    },
    /// A part of the month's bandwidth is used: 80 or 100 percent.
    BandwidthReached {
        /// The percentage.
        percent: u8,
        /// The plan's name.
        plan: String,
        /// The month.
        month: Month,
        /// The plan's bandwidth.
        limit_bytes: u64,
        /// Whether other organizations have used a part of it, which share the plan.
        #[serde(default)]
        is_shared: bool,
    },
    /// A part of the month's AI credit is used: 80 or 100 percent.
    CreditReached {
        /// The percentage.
        percent: u8,
        /// The plan's name.
        plan: String,
        /// The month.
        month: Month,
        /// The plan's credit.
        limit: Cents,
        /// Whether other organizations have used a part of it, which share the plan.
        #[serde(default)]
        is_shared: bool,
    },
    /// A custom domain needs somebody's hand.
    DomainTrouble {
        /// The domain.
        domain: Hostname,
        /// One sentence that names the obstacle to the domain.
        message: String,
    },
    /// A custom domain went to somebody who has proved that it is theirs.
    DomainMoved {
        /// The domain.
        domain: Hostname,
        /// The project that had it. Who has it now is not told.
        project: ProjectName,
    },
    /// A token was made.
    TokenCreated {
        /// The token's label.
        label: Option<String>,
        /// The token's kind.
        token_kind: TokenKind,
    },
    /// A token was revoked.
    TokenRevoked {
        /// The token's label.
        label: Option<String>,
        /// The token's kind.
        token_kind: TokenKind,
    },
    /// The sweep of the store has stopped. For the operator.
    SweepStopped {
        /// The reason, in one sentence.
        reason: String,
        /// The figures.
        detail: String,
    },
    /// The database has lost changes that edges had applied. For the operator.
    ChangesLost {
        /// The number of the first of them.
        first: i64,
        /// The number of the last of them.
        last: i64,
        /// The newest change of the database when that was noticed.
        newest: i64,
        /// When that was.
        noted_at: Timestamp,
        /// What they touched, as far as it is known.
        subjects: Vec<String>,
    },
}

impl Notice {
    /// Returns the kind of letter.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Invoice { .. } => Kind::Invoice,
            Self::PaymentFailed { .. } => Kind::PaymentFailed,
            Self::ChargedBack { .. } => Kind::ChargedBack,
            Self::SubscriptionEnded { .. } => Kind::SubscriptionEnded,
            Self::VatNumberInvalid { .. } => Kind::VatNumberInvalid,
            Self::BandwidthReached { .. } => Kind::BandwidthReached,
            Self::CreditReached { .. } => Kind::CreditReached,
            Self::DomainTrouble { .. } => Kind::DomainTrouble,
            Self::DomainMoved { .. } => Kind::DomainMoved,
            Self::TokenCreated { .. } => Kind::TokenCreated,
            Self::TokenRevoked { .. } => Kind::TokenRevoked,
            Self::SweepStopped { .. } => Kind::SweepStopped,
            Self::ChangesLost { .. } => Kind::ChangesLost,
        }
    }
}

/// Queues a letter to the operator, where the configuration names one. Of the same `event` there is one letter.
pub async fn notify_operator(
    conn: &mut PgConnection,
    operator: Option<&EmailAddress>,
    event: &str,
    notice: &Notice,
    now: Timestamp,
) -> anyhow::Result<()> {
    let Some(recipient) = operator else { return Ok(()) };
    let letter = NewLetter {
        event,
        recipient,
        account: None,
        kind: notice.kind().as_str(),
        content: &serde_json::to_value(notice)?,
        invoice: None,
        most_a_day: None,
    };
    letters::queue(conn, &letter, now).await?;
    Ok(())
}

/// Queues a letter to everybody whom letters about the account reach: a person, or an organization's owners. `event` names
/// what happened, such as `invoice/ivc_…`; telling of it again does nothing.
pub async fn notify(
    conn: &mut PgConnection,
    account: &Account,
    event: &str,
    notice: &Notice,
    invoice: Option<&InvoiceId>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let content = serde_json::to_value(notice).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let kind = notice.kind();
    let most_a_day = (!kind.is_about_money()).then_some(MOST_A_DAY);
    for recipient in &letters::contacts(&mut *conn, account).await? {
        let (account, kind, content) = (Some(account), kind.as_str(), &content);
        let letter = NewLetter { event, recipient, account, kind, content, invoice, most_a_day };
        letters::queue(&mut *conn, &letter, now).await?;
    }
    Ok(())
}
