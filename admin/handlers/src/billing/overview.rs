//! `GET /billing` and `GET /orgs/:name/billing`: the plan, its usage, and the bill.

use admin_http::{error::ApiError, extract::Json};
use api::billing::{BillingOverview, CatalogPlan, NextInvoice, PlanUsage, SharedPlanUsage};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::extract::State;
use db::{
    billing::{
        invoices,
        overview::{self, AccountUsage},
        plan::{self, ChargedPlan},
        profiles, subscriptions,
        usage::{self, AccountHoldings},
    },
    permits::Admin,
};
use domain::Account;

use super::{invoices as invoice_views, profile, subscription};

const LATEST_INVOICES: i64 = 20;
/// Microcents per cent. The gateway counts in microcents.
const MICROCENTS: u64 = 1_000_000;

/// Shows your plan with its usage, the available plans, your subscription, and your bill.
///
/// Amounts are in cents of the currency that is named beside them. What an organization pays for by itself is in
/// the organization's overview.
#[utoipa::path(
    get, path = "/billing", operation_id = "show_billing", tag = "Billing",
    responses((status = 200, description = "The overview", body = BillingOverview)),
)]
pub async fn for_user(State(app): State<App>, caller: CliUser) -> Result<Json<BillingOverview>, ApiError> {
    Ok(Json(overview(&app, &caller.user.id.into()).await?))
}

/// Shows an organization's plan with its usage, the available plans, its subscription, and its bill.
///
/// Needs the role of an admin. Amounts are in cents of the currency that is named beside them.
#[utoipa::path(
    get, path = "/orgs/{name}/billing", operation_id = "show_org_billing", tag = "Billing",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The overview", body = BillingOverview)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Admin>,
) -> Result<Json<BillingOverview>, ApiError> {
    Ok(Json(overview(&app, &org.id.clone().into()).await?))
}

async fn overview(app: &App, account: &Account) -> Result<BillingOverview, ApiError> {
    let ChargedPlan { subscribed, charged } = plan::charged_plan(&app.db, account).await?;
    let limits = app.plans().paid_limits_for(subscribed.as_deref(), charged.as_deref());
    let shared = match account {
        Account::Org(org) if subscribed.is_none() => overview::shared_usage(&app.db, org, app.clock.now()).await?,
        _ => None,
    };
    let plan = subscribed.or_else(|| app.plans().default_plan().map(|(id, _)| id.to_owned()));
    let used = overview::usage(&app.db, account, app.clock.now()).await?;
    let AccountHoldings { stored_bytes, orgs, .. } = usage::holdings(&app.db, account, app.clock.now()).await?;
    let latest = invoices::page(&app.db, account, None, LATEST_INVOICES).await?;
    let catalog = app.plans().by_price().into_iter().map(|(id, plan)| CatalogPlan {
        id: id.to_owned(),
        name: plan.name.clone(),
        price_cents: plan.price_cents,
        limits: plan.limits,
    });
    Ok(BillingOverview {
        plan,
        limits,
        usage: PlanUsage {
            storage_bytes: u64::try_from(stored_bytes).ok(),
            orgs: account.as_user().and_then(|_| u64::try_from(orgs).ok()),
            ..view_usage(used)
        },
        shared_usage: shared.map(|shared| SharedPlanUsage {
            organizations: shared.orgs,
            usage: PlanUsage { storage_bytes: Some(shared.stored_bytes), ..view_usage(shared.usage) },
        }),
        catalog: catalog.collect(),
        subscription: subscriptions::current(&app.db, account).await?.map(subscription::view),
        next_invoice: billing::upcoming(app, account).await?.map(view_upcoming),
        profile: profiles::find(&app.db, account).await?.map(profile::view),
        invoices: latest.into_iter().map(invoice_views::view).collect(),
    })
}

fn view_usage(used: AccountUsage) -> PlanUsage {
    PlanUsage {
        projects: used.projects,
        domains: used.domains,
        // Sites are static files: there are no apps to keep ready yet.
        ready_apps: 0,
        bandwidth_bytes: used.bandwidth_bytes,
        ai_credit_cents: used.ai_cost.0 / MICROCENTS,
        storage_bytes: None,
        orgs: None,
    }
}

fn view_upcoming(upcoming: billing::UpcomingCharge) -> NextInvoice {
    NextInvoice {
        charged_at: upcoming.charged_at,
        plan: upcoming.plan,
        net_cents: upcoming.net,
        vat_cents: upcoming.vat,
        total_cents: upcoming.total,
        currency: invoice_views::CURRENCY.to_owned(),
    }
}
