//! The terms of a payment: the content of its invoice, fixed before the provider is contacted.

use admin_http::error::{ApiError, Code};
use app::App;
use config::InvoiceSeller;
use db::billing::{payments, profiles, subscriptions::Subscription};
use domain::{
    Account, Timestamp,
    billing::{
        Cents, Country,
        details::{Address, InvoiceLine},
        vat::{SaleAmounts, VatNumber, VatStatus, VatTreatment},
    },
};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgExecutor};

use super::upgrade;

/// The content of a payment's invoice, fixed when the payment was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentTerms {
    /// The plan's id.
    pub plan: String,
    /// The plan's display name.
    pub plan_name: String,
    /// The seller.
    pub seller: InvoiceSeller,
    /// The buyer.
    pub buyer: InvoiceBuyer,
    /// The treatment of VAT.
    pub treatment: VatTreatment,
    /// The amounts.
    pub amounts: SaleAmounts,
}

/// The buyer, as named on the invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceBuyer {
    /// The account.
    pub account: Account,
    /// The name.
    pub name: InvoiceLine,
    /// The country.
    pub country: Country,
    /// The postal address.
    pub address: Option<Address>,
    /// The VAT number.
    pub vat_number: Option<VatNumber>,
    /// The registry's verdict on the VAT number.
    pub vat_status: Option<VatStatus>,
    /// The time of the registry's verdict.
    pub vat_checked_at: Option<Timestamp>,
    /// The registry's proof of the consultation.
    pub vat_consultation: Option<String>,
}

/// An error that prevents a sale to an account.
#[derive(Debug, thiserror::Error)]
pub enum TermsError {
    /// The configuration names no seller.
    #[error("billing.seller is not configured, so that nothing can be sold")]
    NoSeller,
    /// The configuration has no such plan.
    #[error("the configuration has no plan {0:?}")]
    NoPlan(String),
    /// The account has not filled in its billing details.
    #[error("the account has no billing details")]
    NoProfile,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl PaymentTerms {
    /// Returns the terms on which the account gets a month of `plan` that begins at `start`, with today's prices and
    /// billing details.
    pub async fn for_month(
        app: &App,
        db: impl PgExecutor<'_>,
        account: &Account,
        plan: &str,
        start: Timestamp,
    ) -> Result<Self, TermsError> {
        let seller = app.config.billing.seller.clone().ok_or(TermsError::NoSeller)?;
        let found = app.plans().find(plan).ok_or_else(|| TermsError::NoPlan(plan.to_owned()))?;
        let profile = profiles::find(db, account).await?.ok_or(TermsError::NoProfile)?;
        let rates = &app.config.billing.vat_rates;
        let on = start.as_datetime().date();
        let treatment = VatTreatment::for_sale(rates, seller.country, profile.country, profile.vat(), on);
        Ok(Self {
            plan: plan.to_owned(),
            plan_name: found.name.clone(),
            treatment,
            amounts: treatment.amounts(Cents::from(found.price_cents)),
            seller,
            buyer: InvoiceBuyer {
                account: profile.account,
                name: profile.name,
                country: profile.country,
                address: profile.address,
                vat_number: profile.vat_number,
                vat_status: profile.vat_status,
                vat_checked_at: profile.vat_checked_at,
                vat_consultation: profile.vat_consultation,
            },
        })
    }

    /// Returns the terms of a subscription's next charge: for the month that is due, on the plan of that month.
    pub(super) async fn for_next_charge(
        app: &App,
        conn: &mut PgConnection,
        subscription: &Subscription,
    ) -> Result<Self, TermsError> {
        let Subscription { id, account, due_period, period, plan, .. } = subscription;
        let start = subscription.month_start(*due_period).unwrap_or_else(|| app.clock.now());
        // A charged-back month costs what it did, even if the plan has changed in the course of it.
        let plan = match payments::find_month_plan(&mut *conn, id, *due_period).await? {
            Some(before) if due_period == period => before,
            _ if due_period == period => plan.clone(),
            _ => match &subscription.next_plan {
                Some(next) if !upgrade::is_unpaid(app, conn, subscription).await? => next.clone(),
                _ => plan.clone(),
            },
        };
        Self::for_month(app, conn, account, &plan, start).await
    }

    pub(super) fn description(&self) -> String {
        format!("{}, plan {}", self.seller.name, self.plan_name)
    }
}

impl From<TermsError> for ApiError {
    fn from(error: TermsError) -> Self {
        match error {
            TermsError::NoSeller => Self::new(
                Code::BillingUnavailable,
                "This installation does not say who sells its plans, so they cannot be paid.",
            )
            .caused_by(TermsError::NoSeller),
            TermsError::NoPlan(plan) => Self::invalid(format!("There is no plan called {plan:?}.")),
            TermsError::NoProfile => Self::invalid(
                "Say whom invoices are made out to first: `svc billing details`, or PUT /billing/profile \
                 (PUT /orgs/{name}/billing/profile for an organization), with at least a name and a country.",
            ),
            TermsError::Db(error) => error.into(),
        }
    }
}
