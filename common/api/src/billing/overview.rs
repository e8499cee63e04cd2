//! The overview of an account's plan and money.

use domain::{
    Timestamp,
    billing::Cents,
    plans::{PlanLimits, Plans},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::{BillingProfile, Invoice, Subscription};

/// An account's plan with its use, and its bill.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BillingOverview {
    /// The id of the account's plan; null when the operator has configured no plans.
    pub plan: Option<String>,
    /// The limits of the account's plan.
    #[serde(deserialize_with = "limits_that_are_known")]
    pub limits: PlanLimits,
    /// The use that counts against the limits.
    pub usage: PlanUsage,
    /// The use of all organizations together that share the free plan with this one, because they have no subscription and the same
    /// creator; absent when none does. It is compared with the limits where it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub shared_usage: Option<SharedPlanUsage>,
    /// The plans that can be chosen, the cheapest first.
    pub catalog: Vec<CatalogPlan>,
    /// The account's subscription; null when it has none, or when it has ended.
    pub subscription: Option<Subscription>,
    /// The invoice of the next renewal; null when nothing will be charged.
    pub next_invoice: Option<NextInvoice>,
    /// The details that invoices carry; null until they are stored.
    pub profile: Option<BillingProfile>,
    /// The 20 newest invoices and credit notes, newest first.
    pub invoices: Vec<Invoice>,
}

/// Reads limits of which a newer service may have more: a client goes by those that it knows. In a configuration an unknown one is a
/// mistake.
fn limits_that_are_known<'de, D: Deserializer<'de>>(limits: D) -> Result<PlanLimits, D::Error> {
    let mut sent = Map::deserialize(limits)?;
    if let Ok(Value::Object(known)) = serde_json::to_value(Plans::default().limits_of(None)) {
        sent.retain(|name, _| known.contains_key(name));
    }
    serde_json::from_value(Value::Object(sent)).map_err(de::Error::custom)
}

/// An account's use of its plan. What is counted by month begins anew with the UTC month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanUsage {
    /// The number of projects, shares not counted.
    pub projects: u64,
    /// The number of custom domains, over all projects.
    pub domains: u64,
    /// The number of server apps that are kept ready: always 0, because svc runs none.
    pub ready_apps: u64,
    /// Bytes that were sent to people this month. Requests of declared bots and automation do not count.
    pub bandwidth_bytes: u64,
    /// The cost of this month's completions, in whole cents, rounded down.
    pub ai_credit_cents: u64,
    /// Bytes in the store: the kept deployments of all projects and shares, each with a least size. Older services leave it out.
    #[serde(default)]
    pub storage_bytes: Option<u64>,
    /// The number of organizations that the person created and that still exist; null for an organization. Older services leave it out.
    #[serde(default)]
    pub orgs: Option<u64>,
}

/// The use of a free plan by several organizations together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SharedPlanUsage {
    /// The number of organizations that share the plan, this one included.
    pub organizations: u64,
    /// What they use together.
    pub usage: PlanUsage,
}

/// A plan that can be chosen.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CatalogPlan {
    /// The plan's id.
    #[cfg_attr(feature = "openapi", schema(example = "pro"))]
    pub id: String,
    /// The plan's name for people.
    pub name: String,
    /// A month's price, in euro cents without VAT.
    pub price_cents: u32,
    /// The plan's limits.
    #[serde(deserialize_with = "limits_that_are_known")]
    pub limits: PlanLimits,
}

/// The invoice that the next renewal will bring, to the cent, if nothing changes until then.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextInvoice {
    /// The time at which the charge is made.
    pub charged_at: Timestamp,
    /// The id of the plan that is charged.
    pub plan: String,
    /// The amount without VAT, in cents.
    pub net_cents: Cents,
    /// The VAT, in cents.
    pub vat_cents: Cents,
    /// The amount with VAT, in cents.
    pub total_cents: Cents,
    /// The currency: `EUR`.
    pub currency: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_newer_service_are_read() {
        let limits = Plans::default().limits_of(None);
        let mut written = serde_json::json!({ "id": "free", "name": "Free", "price_cents": 0, "limits": limits });
        written["limits"]["seats_on_the_moon"] = 7.into();
        let read: CatalogPlan = serde_json::from_value(written).unwrap();
        assert_eq!(read.limits, limits);
    }
}
