//! `svc billing plans`, and changes of a subscription.

use api::billing::{BillingOverview, CatalogPlan, ChangedPlan, Checkout, ChoosePlan, Subscription, TakesEffect};
use serde_json::json;

use super::{BillingAccount, limits, price, show};
use crate::{
    failure::Failure,
    output::{Output, table},
};

pub(super) async fn list(scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let BillingOverview { plan, catalog, .. } = scope.overview().await?;
    output.result(&json!({ "plans": catalog }), || format_comparison(&catalog, plan.as_deref(), scope.org.is_some()))
}

/// Formats the plans side by side: a column for each, and a row for each limit.
fn format_comparison(catalog: &[CatalogPlan], own: Option<&str>, is_org: bool) -> String {
    if catalog.is_empty() {
        return "There are no plans here.".to_owned();
    }
    let row = |what: &str, of: &dyn Fn(&CatalogPlan) -> String| -> Vec<String> {
        std::iter::once(what.to_owned()).chain(catalog.iter().map(of)).collect()
    };
    let mut rows = vec![row("id", &|plan| plan.id.clone()), row("price", &|plan| price(plan.price_cents))];
    rows.extend(
        limits::ALL
            .iter()
            .filter(|limit| limit.is_for(is_org))
            .map(|limit| row(limit.what, &|plan| (limit.written)((limit.allowed)(&plan.limits)))),
    );
    let headings: Vec<String> = catalog
        .iter()
        .map(|plan| if own == Some(&plan.id) { format!("{} (yours)", plan.name) } else { plan.name.clone() })
        .collect();
    let headings: Vec<&str> = std::iter::once("PLAN").chain(headings.iter().map(String::as_str)).collect();
    table(&headings, &rows, "")
}

pub(super) async fn checkout(scope: &BillingAccount<'_>, plan: String, output: Output) -> anyhow::Result<()> {
    let body = ChoosePlan { plan };
    let answer = scope.client.post::<Checkout>(&scope.path("/checkout"), &body).await;
    let checkout = answer.map_err(|failure| with_plan_hint(scope, failure))?.body;
    output.note("Open this page to pay the first month; the plan applies once it is paid.");
    output.result(&checkout, || checkout.checkout_url.clone())
}

pub(super) async fn change(scope: &BillingAccount<'_>, plan: String, output: Output) -> anyhow::Result<()> {
    let body = ChoosePlan { plan };
    let answer = scope.client.post::<ChangedPlan>(&scope.path("/change-plan"), &body).await;
    let changed = answer.map_err(|failure| with_plan_hint(scope, failure))?.body;
    let plan = &changed.plan;
    output.success(&match changed.takes_effect {
        TakesEffect::Immediately => {
            format!("The plan is {plan} now. Its price is charged when the subscription renews.")
        }
        TakesEffect::AtRenewal => {
            let (relative, day) = (output.relative(changed.applies_at), show::day(changed.applies_at));
            format!("The plan will be {plan} when the subscription renews, {relative} ({day}).")
        }
    });
    output.result(&changed, String::new)
}

pub(super) async fn cancel(scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let answer = scope.client.post::<Subscription>(&scope.path("/cancel"), &json!({})).await;
    let subscription = answer.map_err(|failure| scope.explain(failure))?.body;
    if let Some(at) = subscription.renews_at {
        let (relative, day) = (output.relative(at), show::day(at));
        output.success(&format!("The subscription is cancelled: it ends {relative} ({day})."));
        output.note(&format!("Nothing will be deleted. To take it back: svc billing resume{}", scope.option()));
    } else {
        output.success("The subscription has ended. Nothing was deleted.");
    }
    output.result(&subscription, String::new)
}

pub(super) async fn resume(scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let answer = scope.client.post::<Subscription>(&scope.path("/resume"), &json!({})).await;
    let subscription = answer.map_err(|failure| scope.explain(failure))?.body;
    let when = subscription.renews_at.map(|at| format!(" {} ({})", output.relative(at), show::day(at)));
    output.success(&format!("The subscription goes on: it renews{}.", when.unwrap_or_default()));
    output.result(&subscription, String::new)
}

/// Adds the next step to the refusal of a plan.
fn with_plan_hint(scope: &BillingAccount<'_>, failure: Failure) -> Failure {
    let option = scope.option();
    match &*failure.code {
        "invalid_request" if failure.message.contains("billing details") => {
            Failure { message: "Invoices need to know whom they are made out to first.".to_owned(), ..failure }
                .with_hint(format!("For example: svc billing details{option} --name NAME --country CODE"))
        }
        "subscription_active" => Failure { message: "There is a subscription already.".to_owned(), ..failure }
            .with_hint(format!("Change its plan instead: svc billing change{option} PLAN")),
        "invalid_request" if failure.message.starts_with("There is no subscription") => scope.explain(failure),
        "invalid_request" => failure.with_hint(format!("`svc billing plans{option}` lists the plans.")),
        "plan_limit_reached" => failure.with_hint(format!("`svc billing{option}` shows what is used.")),
        _ => scope.explain(failure),
    }
}
