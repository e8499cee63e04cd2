//! Play money: a provider for trying the service, from checkout to invoice. Its payments are rows, they are paid on
//! `pages`' page `play`, and no money moves.

use admin_http::addresses::ConsoleAddresses;
use async_trait::async_trait;
use db::billing::play::{self, NewPlayPayment, PlayPayment, PlayRefund, PlayRefundError, PlayStatus};
use domain::{
    Account, Clock, EmailAddress, PaymentId, UserId,
    billing::payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
};
use sqlx::PgPool;

use super::{
    MandateState, PaymentError, PaymentOrder, PaymentProvider, ProviderKind, ProviderPayment, ProviderReversal,
    RefundOrder,
};

const METHOD: &str = "play_money";
const FAILURE: &str = "The payer let it fail, to see what happens.";

/// The play-money provider.
pub struct PlayProvider {
    db: PgPool,
    console: ConsoleAddresses,
    clock: Clock,
}

impl PlayProvider {
    /// Creates the provider, which stores its payments in `db` and lets them be paid on a page of `console`.
    pub fn new(db: PgPool, console: ConsoleAddresses, clock: Clock) -> Self {
        Self { db, console, clock }
    }

    async fn find(&self, id: &str) -> Result<ProviderPayment, PaymentError> {
        let payment = play::find(&self.db, id).await.map_err(unavailable)?.ok_or(PaymentError::Unknown)?;
        let refunds = play::refunds(&self.db, id).await.map_err(unavailable)?;
        let PlayPayment { id, order, total, is_first, status, .. } = payment;
        let state = match status {
            PlayStatus::Open => PaymentState::Open,
            PlayStatus::Paid => PaymentState::Paid,
            PlayStatus::Failed => PaymentState::Failed,
            PlayStatus::Canceled => PaymentState::Canceled,
        };
        let checkout_url = (is_first && state == PaymentState::Open).then(|| self.console.play(&id).parse());
        Ok(ProviderPayment {
            id,
            order: Some(order),
            state,
            total,
            method: Some(METHOD.to_owned()),
            failure: (state == PaymentState::Failed).then(|| FAILURE.to_owned()),
            checkout_url: checkout_url.transpose().map_err(bad_console_url)?,
            reversals: refunds.into_iter().map(reversal).collect(),
        })
    }
}

#[async_trait]
impl PaymentProvider for PlayProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Play
    }

    async fn create_customer(
        &self,
        account: &Account,
        payer: Option<&UserId>,
        _name: &str,
        _email: Option<&EmailAddress>,
    ) -> Result<String, PaymentError> {
        let payer = payer.map(|payer| format!("_{payer}")).unwrap_or_default();
        Ok(format!("play_{account}{payer}"))
    }

    async fn create_payment(&self, order: &PaymentOrder<'_>) -> Result<ProviderPayment, PaymentError> {
        let id = provider_id(order.id);
        let payment = NewPlayPayment {
            id: &id,
            customer_id: order.customer_id,
            order: order.id,
            total: order.total,
            description: order.description,
            redirect_url: order.redirect_url.as_str(),
            is_first: order.sequence == PaymentSequence::First,
        };
        play::create(&self.db, &payment, self.clock.now()).await.map_err(unavailable)?;
        self.find(&id).await
    }

    async fn payment(&self, provider_id: &str) -> Result<ProviderPayment, PaymentError> {
        self.find(provider_id).await
    }

    async fn find_payment(
        &self,
        order: &PaymentId,
        _customer_id: &str,
    ) -> Result<Option<ProviderPayment>, PaymentError> {
        match self.find(&provider_id(order)).await {
            Err(PaymentError::Unknown) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn mandate(&self, customer_id: &str) -> Result<MandateState, PaymentError> {
        let is_allowed = play::has_mandate(&self.db, customer_id).await.map_err(unavailable)?;
        Ok(if is_allowed { MandateState::Valid } else { MandateState::Missing })
    }

    async fn refund(&self, refund: &RefundOrder<'_>) -> Result<ProviderReversal, PaymentError> {
        let id = format!("play_re_{}", refund.id.body());
        let mut tx = self.db.begin().await.map_err(unavailable)?;
        let made = play::refund(&mut tx, refund.payment_id, &id, refund.id, refund.total, self.clock.now()).await;
        made.map_err(|error| match error {
            PlayRefundError::Missing => PaymentError::Unknown,
            PlayRefundError::TooMuch => PaymentError::Refused(error.to_string()),
            PlayRefundError::Db(error) => unavailable(error),
        })?;
        tx.commit().await.map_err(unavailable)?;
        let refunds = play::refunds(&self.db, refund.payment_id).await.map_err(unavailable)?;
        refunds.into_iter().find(|made| made.id == id).map(reversal).ok_or(PaymentError::Unknown)
    }
}

fn provider_id(order: &PaymentId) -> String {
    format!("play_{}", order.body())
}

fn reversal(refund: PlayRefund) -> ProviderReversal {
    let PlayRefund { id, order, total } = refund;
    ProviderReversal { id, order: Some(order), kind: ReversalKind::Refund, total, state: ReversalState::Done }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn unavailable(error: sqlx::Error) -> PaymentError {
    PaymentError::Unavailable { reason: format!("the database: {error}"), retry_after: None }
}

fn bad_console_url(error: url::ParseError) -> PaymentError {
    PaymentError::Unavailable { reason: format!("site.console_url: {error}"), retry_after: None }
}
