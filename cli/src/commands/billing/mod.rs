//! `svc billing`.

mod details;
mod invoices;
mod ledger;
mod limits;
mod plan;
mod show;

use std::path::PathBuf;

use api::billing::BillingOverview;
use clap::Subcommand;
use domain::{OrgName, billing::Cents};

use self::invoices::SaveAs;
use super::orgs;
use crate::{
    client::Client,
    failure::{Failure, Kind},
    options::OwnerOption,
    output::Output,
};

/// Show your plan, its use and its bill, or an organization's, and change them.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::SHOW_IS_DEFAULT)]
pub(crate) struct Billing {
    #[command(flatten)]
    owner: OwnerOption,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the plan, what is used of it, the next invoice and the latest ones
    Show,
    /// List the plans, with their prices and limits
    Plans,
    /// Subscribe to a plan: prints the page on which its first month is paid
    Checkout {
        /// The plan's id; `svc billing plans` lists them
        plan: String,
    },
    /// Change to another plan: to a larger one now, to a smaller one when the subscription renews
    Change {
        /// The plan's id; `svc billing plans` lists them
        plan: String,
    },
    /// Cancel the subscription: it ends with the month that is paid
    Cancel,
    /// Take a cancellation back
    Resume,
    /// List the invoices and credit notes, newest first
    Invoices,
    /// Show an invoice, and save its documents
    Invoice {
        /// The invoice's number or id
        invoice: String,
        /// Save the PDF, in this file or in one that is called by the invoice's number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        pdf: Option<SaveAs>,
        /// Save the XML (EN 16931, Cross Industry Invoice), in this file or in one that is called by the invoice's number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        xml: Option<SaveAs>,
        /// Save the XML (EN 16931, UBL 2.1), in this file or in one that is called by the invoice's number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        ubl: Option<SaveAs>,
    },
    /// Show or set the details that invoices carry
    Details(details::Details),
    /// Show everything that was billed and paid
    Ledger {
        /// Save it as comma-separated values in this file
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
    },
}

pub(crate) async fn run(billing: Billing, client: &Client, output: Output) -> anyhow::Result<()> {
    let scope = Scope { org: billing.owner.org.as_ref(), client };
    match billing.action.unwrap_or(Action::Show) {
        Action::Show => show::show(&scope, output).await,
        Action::Plans => plan::list(&scope, output).await,
        Action::Checkout { plan } => plan::checkout(&scope, plan, output).await,
        Action::Change { plan } => plan::change(&scope, plan, output).await,
        Action::Cancel => plan::cancel(&scope, output).await,
        Action::Resume => plan::resume(&scope, output).await,
        Action::Invoices => invoices::list(&scope, output).await,
        Action::Invoice { invoice, pdf, xml, ubl } => {
            invoices::show(&scope, &invoice, invoices::Files { pdf, xml, ubl }, output).await
        }
        Action::Details(details) => details::run(details, &scope, output).await,
        Action::Ledger { csv } => ledger::show(&scope, csv, output).await,
    }
}

/// Whose plan it is about, and the client to ask.
struct Scope<'s> {
    org: Option<&'s OrgName>,
    client: &'s Client,
}

impl Scope<'_> {
    /// The API's path of `rest`, which begins with a slash unless it is empty.
    fn path(&self, rest: &str) -> String {
        match self.org {
            Some(org) => format!("/orgs/{org}/billing{rest}"),
            None => format!("/billing{rest}"),
        }
    }

    /// ` --org NAME`, for commands that are suggested.
    fn option(&self) -> String {
        self.org.map(|org| format!(" --org {org}")).unwrap_or_default()
    }

    /// Adds the next step to a failure that is about more than one command.
    fn explain(&self, failure: Failure) -> Failure {
        match (&*failure.code, self.org) {
            ("not_found", Some(org)) if failure.message.contains("organization") => orgs::unknown(org, failure),
            ("billing_unavailable", _) => Failure { kind: Kind::Refused, ..failure }
                .with_hint("Plans, invoices and details can be looked at all the same: svc billing"),
            // The API names its own calls too, for whoever makes them.
            ("invalid_request", _) if failure.message.starts_with("There is no subscription") => {
                Failure { message: "There is no subscription yet.".to_owned(), ..failure }
                    .with_hint(format!("Buy a plan first: svc billing checkout{} PLAN", self.option()))
            }
            _ => failure,
        }
    }

    async fn overview(&self) -> Result<BillingOverview, Failure> {
        let answer = self.client.get(&self.path("")).await;
        Ok(answer.map_err(|failure| self.explain(failure))?.body)
    }
}

/// A month's price: `€20.00 a month`, or `free`.
fn price(cents: u32) -> String {
    if cents == 0 { "free".to_owned() } else { format!("{} a month", Cents::from(cents)) }
}
