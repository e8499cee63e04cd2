//! `/billing` and `/orgs/:name/billing`, and `/documents/:link`.

mod invoices;
mod overview;
mod profile;
mod subscriptions;

pub use invoices::{DocumentLink, Invoice, InvoiceList, XmlFormat, XmlQuery};
pub use overview::{BillingOverview, CatalogPlan, NextInvoice, PlanUsage, SharedPlanUsage};
pub use profile::{BillingProfile, SaveBillingProfile};
pub use subscriptions::{ChangedPlan, Checkout, ChoosePlan, Subscription, TakesEffect};
