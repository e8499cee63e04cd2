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
    failure::{Failure, FailureClass},
    options::OwnerOption,
    output::Output,
};

/// Show or change your plan, its usage and your bills, or those of an organization.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::SHOW_IS_DEFAULT)]
pub(crate) struct BillingArgs {
    #[command(flatten)]
    owner: OwnerOption,
    #[command(subcommand)]
    action: Option<BillingCommand>,
}

#[derive(Debug, Subcommand)]
enum BillingCommand {
    /// Show the plan, its usage, the next invoice and the latest ones
    Show,
    /// List the plans, with their prices and limits
    Plans,
    /// Subscribe to a plan: prints the page on which to pay its first month
    Checkout {
        /// The plan's id; `svc billing plans` lists them
        plan: String,
    },
    /// Change to another plan: a larger one takes effect now, a smaller one when the subscription renews
    Change {
        /// The plan's id; `svc billing plans` lists them
        plan: String,
    },
    /// Cancel the subscription: it ends after the paid month
    Cancel,
    /// Undo a cancellation
    Resume,
    /// List the invoices and credit notes, newest first
    Invoices,
    /// Show an invoice, and save it as documents
    Invoice {
        /// The invoice's number or id
        invoice: String,
        /// Save the PDF to this file or, without FILE, to one named after the invoice number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        pdf: Option<SaveAs>,
        /// Save the XML (EN 16931, Cross Industry Invoice) to this file or, without FILE, to one named after the
        /// invoice number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        xml: Option<SaveAs>,
        /// Save the XML (EN 16931, UBL 2.1) to this file or, without FILE, to one named after the invoice number
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
        ubl: Option<SaveAs>,
    },
    /// Show or set the details printed on invoices
    Details(details::DetailsArgs),
    /// Show everything billed and paid
    Ledger {
        /// Save it as comma-separated values to this file
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,
    },
}

pub(crate) async fn run(billing: BillingArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let scope = BillingAccount { org: billing.owner.org.as_ref(), client };
    match billing.action.unwrap_or(BillingCommand::Show) {
        BillingCommand::Show => show::show(&scope, output).await,
        BillingCommand::Plans => plan::list(&scope, output).await,
        BillingCommand::Checkout { plan } => plan::checkout(&scope, plan, output).await,
        BillingCommand::Change { plan } => plan::change(&scope, plan, output).await,
        BillingCommand::Cancel => plan::cancel(&scope, output).await,
        BillingCommand::Resume => plan::resume(&scope, output).await,
        BillingCommand::Invoices => invoices::list(&scope, output).await,
        BillingCommand::Invoice { invoice, pdf, xml, ubl } => {
            invoices::show(&scope, &invoice, invoices::DocumentPaths { pdf, xml, ubl }, output).await
        }
        BillingCommand::Details(details) => details::run(details, &scope, output).await,
        BillingCommand::Ledger { csv } => ledger::show(&scope, csv, output).await,
    }
}

/// The account that a command is about, and the client.
struct BillingAccount<'s> {
    org: Option<&'s OrgName>,
    client: &'s Client,
}

impl BillingAccount<'_> {
    /// Returns the API path of `rest`, which is empty or begins with a slash.
    fn path(&self, rest: &str) -> String {
        match self.org {
            Some(org) => format!("/orgs/{org}/billing{rest}"),
            None => format!("/billing{rest}"),
        }
    }

    /// Returns ` --org NAME` for suggested commands, if needed.
    fn option(&self) -> String {
        self.org.map(|org| format!(" --org {org}")).unwrap_or_default()
    }

    /// Adds the next step to failures that several commands share.
    fn explain(&self, failure: Failure) -> Failure {
        match (&*failure.code, self.org) {
            ("not_found", Some(org)) if failure.message.contains("organization") => orgs::unknown(org, failure),
            ("billing_unavailable", _) => Failure { kind: FailureClass::Refused, ..failure }
                .with_hint("Plans, invoices and details can be looked at all the same: svc billing"),
            // The API's message also names API calls, for its other clients.
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

/// Formats a monthly price: `€20.00 a month`, or `free`.
fn price(cents: u32) -> String {
    if cents == 0 { "free".to_owned() } else { format!("{} a month", Cents::from(cents)) }
}
