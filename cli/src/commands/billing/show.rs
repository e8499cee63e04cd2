//! `svc billing show`.

use api::{
    billing::{BillingOverview, NextInvoice, Subscription},
    invites::InviteList,
    orgs::OrgDetail,
    shares::ShareList,
};
use domain::{
    OrgName, Timestamp,
    billing::{Cents, subscription::SubscriptionStatus},
};

use super::{
    BillingAccount, invoices,
    limits::{self, LimitUsage, ResourceCounts},
    price,
};
use crate::{
    commands::stats::bar,
    output::{Output, bold, table},
};

pub(super) async fn show(scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let overview = scope.overview().await?;
    let counted = if output.is_json() { ResourceCounts::default() } else { count(scope).await };
    output.result(&overview, || draw(&overview, counted, scope.org.map(OrgName::as_str), &scope.option(), output))
}

/// Counts the usage that only lists show. A list that cannot be fetched is left out.
async fn count(scope: &BillingAccount<'_>) -> ResourceCounts {
    let Some(org) = scope.org else {
        let shares = scope.client.list("/shares", |page: ShareList| (page.shares, page.next_cursor)).await;
        return ResourceCounts { shares: shares.ok().map(|shares| shares.len() as u64), members: None };
    };
    let invites = format!("/orgs/{org}/invites");
    let invites = scope.client.list(&invites, |page: InviteList| (page.invites, page.next_cursor)).await;
    let detail = scope.client.get::<OrgDetail>(&format!("/orgs/{org}")).await;
    let members = detail.ok().zip(invites.ok()).map(|(detail, invites)| detail.body.members.len() + invites.len());
    ResourceCounts { shares: None, members: members.map(|members| members as u64) }
}

fn draw(
    overview: &BillingOverview,
    counted: ResourceCounts,
    org: Option<&str>,
    option: &str,
    output: Output,
) -> String {
    let mut parts = vec![headline(overview, org, output), meters(overview, org.is_some(), counted)];
    if let Some(shared) = &overview.shared_usage {
        parts.push(format!(
            "{} organizations of one creator have no subscription and share this plan: used is what they use together.",
            shared.organizations
        ));
    }
    if let Some(next) = &overview.next_invoice {
        parts.push(announce(next, overview, output));
    }
    if overview.profile.is_none() && overview.subscription.is_some() {
        parts.push(format!("Invoices carry no name or address yet: svc billing details{option}"));
    }
    if !overview.invoices.is_empty() {
        parts.push(invoices::format_invoices(&overview.invoices, output));
    } else if overview.subscription.is_none() && overview.catalog.len() > 1 {
        parts.push(format!("Larger plans: svc billing plans{option}"));
    }
    parts.join("\n\n")
}

/// Returns the name of the plan with this id, or the id if the catalogue no longer has it.
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

/// Describes what happens to the subscription next.
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

pub(super) fn day(at: Timestamp) -> String {
    at.as_datetime().date().to_string()
}

/// Formats a line for each limit, with a bar of its usage if that is counted.
fn meters(overview: &BillingOverview, is_org: bool, counted: ResourceCounts) -> String {
    let rows: Vec<Vec<String>> = limits::usage_by_limit(overview, is_org, counted)
        // Limits that the plan does not grant and that are unused are left out.
        .filter(|limit| limit.allowed > 0 || limit.used.is_some_and(|used| used > 0))
        .map(|LimitUsage { what, used, allowed, written }| {
            let shown = |cell: &dyn Fn(u64) -> String| used.map(cell).unwrap_or_default();
            vec![
                what.to_owned(),
                shown(&written),
                written(allowed),
                shown(&|used| percent(used, allowed)),
                shown(&|used| meter(used, allowed)),
            ]
        })
        .collect();
    table(&["LIMIT", "USED", "ALLOWED", "", ""], &rows, "The plan allows nothing.")
}

const METER: usize = 20;

/// Draws a bar of `used` in proportion to `most`, over a line of dots.
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
        let counted = ResourceCounts { shares: Some(4), members: Some(2) };
        let overview = serde_json::from_value(overview.clone()).unwrap();
        let text = draw(&overview, counted, org, "", Output::new(false, now));
        text.chars().filter(|c| !('\u{f000}'..='\u{f8ff}').contains(c)).collect()
    }

    #[test]
    fn the_plan_its_use_and_the_next_invoice_are_told() {
        let text = drawn(&overview(), Some("acme"));
        for part in [
            "Pro of acme: €20.00 a month, renews in 12 days (2026-12-05).",
            "projects                    125     500           25%   █████···············",
            "bandwidth a month           150 GB  100 GB        150%  ████████████████████",
            "AI credit a month           €0.00   €30.00        0%    ····················",
            "storage                             5 GB",
            "members, with invites       2       25            8%",
            "kept deployments a project          20",
            "Next invoice: €24.20 for Pro in 12 days (2026-12-05), €20.00 and €4.20 VAT.",
            "2026-000001",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("ready apps") && !text.contains("shares"), "{text}");
        let text = drawn(&overview(), None);
        assert!(
            text.contains("shares") && text.contains("organizations you create") && !text.contains("members"),
            "{text}"
        );
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
