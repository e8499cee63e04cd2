//! Letters that can be retried: each is stored as a value until a mail server has accepted the letter composed from it.

use db::letters::{self, Contact, DailyBound, NewLetter};
use domain::{
    Account, EmailAddress, Hostname, InvoiceId, ProjectName, Timestamp, UserId,
    billing::{Cents, vat::VatNumber},
    month::Month,
    repo::CommitSha,
    token::TokenKind,
};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::kinds::LetterKind;

/// The most letters of a kind about one account that a person receives within a day, unless they are about money.
/// Creating tokens in a loop must not fill the mailboxes of an organization's owners.
const MOST_A_DAY: i64 = 50;

/// The most letters of a kind about all accounts together that are not the person's own.
const MOST_A_DAY_OF_OTHERS: i64 = 200;

/// A letter about an account, as it is stored. A new field needs a default, because stored letters may be older than
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// An invoice, or a credit note, with its documents attached.
    Invoice {
        /// The number of the document.
        number: String,
        /// The amount with VAT.
        total: Cents,
        /// The display name of the plan.
        plan: String,
        /// Whether it is a credit note.
        is_credit_note: bool,
    },
    /// A charge for the next month has failed.
    PaymentFailed {
        /// The display name of the plan.
        plan: String,
        /// The amount with VAT.
        total: Cents,
        /// The time of the next attempt; `None` after the last.
        next_attempt: Option<Timestamp>,
    },
    /// A bank has charged a payment back.
    ChargedBack {
        /// The number of the invoice that the payment paid.
        number: String,
        /// The amount.
        total: Cents,
    },
    /// A subscription has ended, and the account is on the free plan. Nothing was deleted.
    SubscriptionEnded {
        /// The display name of the plan.
        plan: String,
        /// Whether its charges failed; otherwise it was cancelled.
        is_unpaid: bool,
    },
    /// The owner whose mandate pays for an organization's subscription has left or was demoted, so that it ends.
    PayerLeft {
        /// The display name of the plan.
        plan: String,
        /// The end of the paid month; `None` if the subscription has ended.
        until: Option<Timestamp>,
    },
    /// The EU's VAT registry no longer knows the account's VAT number, so VAT is charged from the next invoice on.
    VatNumberInvalid {
        /// The number.
        number: VatNumber,
    },
    /// The account has used 80 or 100 percent of the month's bandwidth.
    BandwidthReached {
        /// The percentage.
        percent: u8,
        /// The display name of the plan.
        plan: String,
        /// The month.
        month: Month,
        /// The bandwidth of the plan.
        limit_bytes: u64,
        /// Whether other organizations that share the plan have used part of it.
        #[serde(default)]
        is_shared: bool,
    },
    /// The account has used 80 or 100 percent of the month's AI credit.
    CreditReached {
        /// The percentage.
        percent: u8,
        /// The display name of the plan.
        plan: String,
        /// The month.
        month: Month,
        /// The credit of the plan.
        limit: Cents,
        /// Whether other organizations that share the plan have used part of it.
        #[serde(default)]
        is_shared: bool,
    },
    /// A push to a linked repository could not be deployed.
    DeploymentFailed {
        /// The project.
        project: ProjectName,
        /// The pushed commit.
        commit: CommitSha,
        /// The reason, in one sentence.
        reason: String,
    },
    /// A custom domain needs a person's attention.
    DomainTrouble {
        /// The domain.
        domain: Hostname,
        /// The obstacle, in one sentence.
        message: String,
    },
    /// A custom domain moved to an account that has proved control of it.
    DomainMoved {
        /// The domain.
        domain: Hostname,
        /// The project that lost it. The new one is not disclosed.
        project: ProjectName,
    },
    /// A token was created.
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
    /// The sweep of the store has stopped, for the operator.
    SweepStopped {
        /// The reason, in one sentence.
        reason: String,
        /// The figures behind it.
        detail: String,
    },
    /// The database has lost changes that edges had applied, for the operator.
    ChangesLost {
        /// The number of the first lost change.
        first: i64,
        /// The number of the last lost change.
        last: i64,
        /// The newest change in the database when the loss was noticed.
        newest: i64,
        /// When the loss was noticed.
        noted_at: Timestamp,
        /// The subjects of the lost changes, as far as they are known.
        subjects: Vec<String>,
    },
}

impl Notice {
    /// Returns the kind of letter.
    pub fn kind(&self) -> LetterKind {
        match self {
            Self::Invoice { .. } => LetterKind::Invoice,
            Self::PaymentFailed { .. } => LetterKind::PaymentFailed,
            Self::ChargedBack { .. } => LetterKind::ChargedBack,
            Self::SubscriptionEnded { .. } => LetterKind::SubscriptionEnded,
            Self::PayerLeft { .. } => LetterKind::PayerLeft,
            Self::VatNumberInvalid { .. } => LetterKind::VatNumberInvalid,
            Self::BandwidthReached { .. } => LetterKind::BandwidthReached,
            Self::CreditReached { .. } => LetterKind::CreditReached,
            Self::DeploymentFailed { .. } => LetterKind::DeploymentFailed,
            Self::DomainTrouble { .. } => LetterKind::DomainTrouble,
            Self::DomainMoved { .. } => LetterKind::DomainMoved,
            Self::TokenCreated { .. } => LetterKind::TokenCreated,
            Self::TokenRevoked { .. } => LetterKind::TokenRevoked,
            Self::SweepStopped { .. } => LetterKind::SweepStopped,
            Self::ChangesLost { .. } => LetterKind::ChangesLost,
        }
    }
}

/// Queues a letter to the operator, if one is configured. Each `event` has one letter.
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

/// Queues a letter to everybody who receives letters about the account: a person, or an organization's owners. `event`
/// names what happened, such as `invoice/ivc_…`; queuing it again has no effect.
pub async fn notify(
    conn: &mut PgConnection,
    account: &Account,
    event: &str,
    notice: &Notice,
    invoice: Option<&InvoiceId>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let recipients = letters::contacts(&mut *conn, account).await?;
    queue_for(conn, &recipients, account, event, notice, invoice, now).await
}

/// Queues a letter as [`notify`] does, and to a person who is no longer among the account's recipients.
pub async fn notify_also(
    conn: &mut PgConnection,
    account: &Account,
    former: &UserId,
    event: &str,
    notice: &Notice,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let mut recipients = letters::contacts(&mut *conn, account).await?;
    recipients.extend(letters::contacts(&mut *conn, &Account::User(former.clone())).await?);
    queue_for(conn, &recipients, account, event, notice, None, now).await
}

async fn queue_for(
    conn: &mut PgConnection,
    recipients: &[Contact],
    account: &Account,
    event: &str,
    notice: &Notice,
    invoice: Option<&InvoiceId>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let content = serde_json::to_value(notice).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let kind = notice.kind();
    for Contact { address, is_own } in recipients {
        let of_others = (!is_own).then_some(MOST_A_DAY_OF_OTHERS);
        let bound = DailyBound { of_account: MOST_A_DAY, of_others };
        let letter = NewLetter {
            event,
            recipient: address,
            account: Some(account),
            kind: kind.as_str(),
            content: &content,
            invoice,
            most_a_day: (!kind.is_about_money()).then_some(bound),
        };
        letters::queue(&mut *conn, &letter, now).await?;
    }
    Ok(())
}
