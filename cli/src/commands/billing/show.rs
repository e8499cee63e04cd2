//! `svc billing show`.

use api::billing::{BillingOverview, NextInvoice, Subscription};
use domain::{
    OrgName, Timestamp,
    billing::{Cents, subscription::SubscriptionStatus},
};

use super::{Scope, invoices, price};
use crate::{
    commands::stats::bar,
    output::{Output, bold, size, table},
};

pub(super) async fn show(scope: &Scope<'_>, output: Output) -> anyhow::Result<()> {
    let overview = scope.overview().await?;
    output.result(&overview, || draw(&overview, scope.org.map(OrgName::as_str), &scope.option(), output))
}

fn draw(overview: &BillingOverview, org: Option<&str>, option: &str, output: Output) -> String {
    let mut parts = vec![headline(overview, org, output), meters(overview)];
    if let Some(next) = &overview.next_invoice {
        parts.push(announce(next, overview, output));
    }
    if overview.profile.is_none() && overview.subscription.is_some() {
        parts.push(format!("Invoices carry no name or address yet: svc billing details{option}"));
    }
    if !overview.invoices.is_empty() {
        parts.push(invoices::drawn(&overview.invoices, output));
    } else if overview.subscription.is_none() && overview.catalog.len() > 1 {
        parts.push(format!("Larger plans: svc billing plans{option}"));
    }
    parts.join("\n\n")
}

/// The name of the plan with this id; its id when the catalogue has it no more.
pub(super) fn plan_name<'o>(overview: &'o BillingOverview, id: &'o str) -> &'o str {
    overview.catalog.iter().find(|plan| plan.id == id).map_or(id, |plan| &plan.name)
}

fn headline(overview: &BillingOverview, org: Option<&str>, output: Output) -> String {
    let id = overview.plan.as_deref().unwrap_or_default();
    let price = overview.catalog.iter().find(|plan| plan.id == id).map(|plan| price(plan.price_cents));
    let whose = org.map(|org| format!(" of {org}")).unwrap_or_default();
    let what = bold(&format!("{}{whose}", plan_name(overview, id)));
    let price = price.map(|price| format!(": {price}")).unwrap_or_default();
    let state = overview.subscription.as_ref().and_then(|subscription| state(subscription, overview, output));
    format!("{what}{price}{}.", state.map(|state| format!(", {state}")).unwrap_or_default())
}

/// What becomes of the subscription next.
pub(super) fn state(subscription: &Subscription, overview: &BillingOverview, output: Output) -> Option<String> {
    let at = |at: Timestamp| format!("{} ({})", output.relative(at), day(at));
    let ends = subscription.renews_at;
    match subscription.status {
        SubscriptionStatus::Pending => {
            Some(format!("{} awaits its first payment", plan_name(overview, &subscription.plan)))
        }
        SubscriptionStatus::PastDue => Some("a charge has failed and will be tried again".to_owned()),
        SubscriptionStatus::Active if subscription.cancel_at_period_end => {
            Some(format!("cancelled, ends {}", at(ends?)))
        }
        SubscriptionStatus::Active => Some(format!("renews {}", at(ends?))),
        SubscriptionStatus::Ended => None,
    }
}

/// The day of an instant, in UTC.
pub(super) fn day(at: Timestamp) -> String {
    at.as_datetime().date().to_string()
}

/// A line for each limit that something counts against, with a bar of what is used.
fn meters(overview: &BillingOverview) -> String {
    let (usage, limits) = (&overview.usage, &overview.limits);
    let number = |number: u64| indicatif::HumanCount(number).to_string();
    let euros = |cents: u64| Cents(i64::try_from(cents).unwrap_or(i64::MAX)).to_string();
    let rows = [
        ("projects", usage.projects, u64::from(limits.projects), &number as &dyn Fn(u64) -> String),
        ("domains", usage.domains, limits.domains.into(), &number),
        ("ready apps", usage.ready_apps, limits.ready_apps.into(), &number),
        ("bandwidth this month", usage.bandwidth_bytes, limits.bandwidth_bytes, &size),
        ("AI credit this month", usage.ai_credit_cents, limits.ai_credit_cents.into(), &euros),
    ];
    // What the plan has not, and nobody uses, is no news.
    let rows = rows.into_iter().filter(|(_, used, most, _)| *used > 0 || *most > 0);
    let rows: Vec<Vec<String>> = rows
        .map(|(what, used, most, written)| {
            vec![what.to_owned(), written(used), written(most), percent(used, most), meter(used, most)]
        })
        .collect();
    table(&["LIMIT", "USED", "ALLOWED", "", ""], &rows, "The plan allows nothing.")
}

/// Characters of a whole meter.
const METER: usize = 20;

/// A bar of what is used, as long as the part that it is of `most`, on a line of dots.
fn meter(used: u64, most: u64) -> String {
    let filled = bar(used.min(most), most);
    let rest = METER.saturating_sub(filled.chars().count());
    format!("{filled}{}", "·".repeat(rest))
}

fn percent(used: u64, most: u64) -> String {
    match (used, most) {
        (0, _) => "0%".to_owned(),
        (_, 0) => String::new(),
        _ => format!("{}%", u128::from(used) * 100 / u128::from(most)),
    }
}

fn announce(next: &NextInvoice, overview: &BillingOverview, output: Output) -> String {
    let name = plan_name(overview, &next.plan);
    let vat = match next.vat_cents {
        Cents::ZERO => "no VAT".to_owned(),
        vat => format!("{} and {vat} VAT", next.net_cents),
    };
    let when = format!("{} ({})", output.relative(next.charged_at), day(next.charged_at));
    format!("Next invoice: {} for {name} {when}, {vat}.", bold(&next.total_cents.to_string()))
}

#[cfg(test)]
mod tests {
    use domain::limits::GB;
    use serde_json::json;

    use super::*;

    fn overview() -> serde_json::Value {
        let limits = |projects: u32, credit: u32| {
            json!({
                "orgs": 3, "projects": projects, "domains": 50, "ready_apps": 0, "bandwidth_bytes": 100 * GB,
                "ai_credit_cents": credit, "storage_bytes": 5 * GB, "deployments": 20, "shares": 50,
            })
        };
        json!({
            "plan": "pro", "limits": limits(500, 3_000),
            "usage": {"projects": 125, "domains": 1, "ready_apps": 0, "bandwidth_bytes": 150 * GB,
                      "ai_credit_cents": 0},
            "catalog": [{"id": "free", "name": "Free", "price_cents": 0, "limits": limits(100, 100)},
                        {"id": "pro", "name": "Pro", "price_cents": 2_000, "limits": limits(500, 3_000)}],
            "subscription": {"status": "active", "plan": "pro", "renews_at": "2026-12-05T00:00:00Z",
                             "cancel_at_period_end": false},
            "next_invoice": {"charged_at": "2026-12-05T00:00:00Z", "plan": "pro", "net_cents": 2_000, "vat_cents": 420,
                             "total_cents": 2_420, "currency": "EUR"},
            "profile": null,
            "invoices": [{"id": "ivc_00000000000000000000", "kind": "invoice", "number": "2026-000001",
                          "issued_at": "2026-11-05T00:00:00Z", "net_cents": 2_000, "vat_cents": 420, "total_cents": 2_420,
                          "currency": "EUR", "status": "paid", "has_document": true}],
        })
    }

    fn drawn(overview: &serde_json::Value, org: Option<&str>) -> String {
        let now: Timestamp = serde_json::from_value(json!("2026-11-23T00:00:00Z")).unwrap();
        let text = draw(&serde_json::from_value(overview.clone()).unwrap(), org, "", Output::new(false, now));
        text.chars().filter(|c| !('\u{f000}'..='\u{f8ff}').contains(c)).collect()
    }

    #[test]
    fn the_plan_its_use_and_the_next_invoice_are_told() {
        let text = drawn(&overview(), Some("acme"));
        for part in [
            "Pro of acme: €20.00 a month, renews in 12 days (2026-12-05).",
            "projects              125     500      25%   █████···············",
            "bandwidth this month  150 GB  100 GB   150%  ████████████████████",
            "AI credit this month  €0.00   €30.00   0%    ····················",
            "Next invoice: €24.20 for Pro in 12 days (2026-12-05), €20.00 and €4.20 VAT.",
            "2026-000001",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("ready apps"), "{text}");
    }

    #[test]
    fn each_state_of_a_subscription_has_a_word() {
        for (change, wanted) in [
            (json!({"cancel_at_period_end": true}), "Pro: €20.00 a month, cancelled, ends in 12 days (2026-12-05)."),
            (json!({"status": "past_due"}), "Pro: €20.00 a month, a charge has failed and will be tried again."),
        ] {
            let mut overview = overview();
            overview["subscription"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert!(drawn(&overview, None).starts_with(wanted), "{}", drawn(&overview, None));
        }
        let mut overview = overview();
        overview["plan"] = json!("free");
        overview["subscription"] = json!({"status": "pending", "plan": "pro", "renews_at": null,
                                          "cancel_at_period_end": false});
        assert!(drawn(&overview, None).starts_with("Free: free, Pro awaits its first payment."));
        for absent in ["subscription", "next_invoice"] {
            overview[absent] = json!(null);
        }
        overview["invoices"] = json!([]);
        let text = drawn(&overview, None);
        assert!(text.starts_with("Free: free.") && text.ends_with("Larger plans: svc billing plans"), "{text}");
    }
}
