//! The overview of an account's plan, usage and bill.

use domain::{
    Timestamp,
    billing::Cents,
    plans::{PlanLimits, Plans},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::{BillingProfile, Invoice, Subscription};

/// An account's plan, its usage and its bill.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BillingOverview {
    /// The id of the account's plan; null when the operator has configured no plans.
    pub plan: Option<String>,
    /// The limits of the account's plan.
    #[serde(deserialize_with = "limits_that_are_known")]
    pub limits: PlanLimits,
    /// The usage that counts against the limits.
    pub usage: PlanUsage,
    /// The combined usage of all organizations that share the free plan with this one, because they have no
    /// subscription and the same payer; absent if there are none. When present, the limits apply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub shared_usage: Option<SharedPlanUsage>,
    /// The available plans, cheapest first.
    pub catalog: Vec<CatalogPlan>,
    /// The account's subscription; null if it has none or it has ended.
    pub subscription: Option<Subscription>,
    /// The invoice of the next renewal; null if nothing will be charged.
    pub next_invoice: Option<NextInvoice>,
    /// The details printed on invoices; null until they are stored.
    pub profile: Option<BillingProfile>,
    /// The 20 newest invoices and credit notes, newest first.
    pub invoices: Vec<Invoice>,
}

/// Reads limits and ignores unknown ones: a newer service may send more than this client knows. (In a configuration, an
/// unknown limit is an error.)
fn limits_that_are_known<'de, D: Deserializer<'de>>(limits: D) -> Result<PlanLimits, D::Error> {
    let mut sent = Map::deserialize(limits)?;
    if let Ok(Value::Object(known)) = serde_json::to_value(Plans::default().limits_for(None)) {
        sent.retain(|name, _| known.contains_key(name));
    }
    serde_json::from_value(Value::Object(sent)).map_err(de::Error::custom)
}

/// An account's usage of its plan. Monthly counters restart with the UTC month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanUsage {
    /// The number of projects, not counting shares.
    pub projects: u64,
    /// The number of custom domains across all projects.
    pub domains: u64,
    /// The number of server apps kept ready: always 0, because svc runs none.
    pub ready_apps: u64,
    /// Bytes sent to people this month. Requests by declared bots and automation do not count.
    pub bandwidth_bytes: u64,
    /// The cost of this month's completions, in whole cents, rounded down.
    pub ai_credit_cents: u64,
    /// Bytes in the store: all retained deployments, each with a minimum size. Absent in older versions of the service.
    #[serde(default)]
    pub storage_bytes: Option<u64>,
    /// The number of existing organizations that the person created; null for an organization. Absent in older
    /// versions.
    #[serde(default)]
    pub orgs: Option<u64>,
}

/// The combined usage of organizations that share a free plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SharedPlanUsage {
    /// The number of organizations that share the plan, including this one.
    pub organizations: u64,
    /// Their combined usage.
    pub usage: PlanUsage,
}

/// An available plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CatalogPlan {
    /// The plan's id.
    #[cfg_attr(feature = "openapi", schema(example = "pro"))]
    pub id: String,
    /// The plan's display name.
    pub name: String,
    /// The price per month, in euro cents without VAT.
    pub price_cents: u32,
    /// The plan's limits.
    #[serde(deserialize_with = "limits_that_are_known")]
    pub limits: PlanLimits,
}

/// A preview of the next renewal's invoice, exact to the cent if nothing changes until then.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextInvoice {
    /// The time at which the charge is made.
    pub charged_at: Timestamp,
    /// The id of the plan that will be charged.
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
        let limits = Plans::default().limits_for(None);
        let mut written = serde_json::json!({ "id": "free", "name": "Free", "price_cents": 0, "limits": limits });
        written["limits"]["seats_on_the_moon"] = 7.into();
        let read: CatalogPlan = serde_json::from_value(written).unwrap();
        assert_eq!(read.limits, limits);
    }
}
