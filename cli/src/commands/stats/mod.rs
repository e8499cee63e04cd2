//! `svc stats`.

mod audience;
mod bots;
mod draw;
mod errors;
mod export;
mod public;
mod requests;

use std::time::Duration;

use api::stats::{AudienceStats, BotsStats, ErrorsStats, LiveStats, StatsHistory};
use clap::Subcommand;
use domain::{ProjectName, Timestamp, stats::CalendarDay};
use serde::{Serialize, de::DeserializeOwned};
use url::form_urlencoded;

pub(super) use self::draw::bar;
use super::projects;
use crate::{
    client::Client,
    failure::{self, Failure, FailureClass},
    options::ProjectOption,
    output::{self, Output},
};

/// The refresh interval of `--watch`.
const PAUSE: Duration = Duration::from_secs(5);

/// Show how often a site was visited, by whom, and which pages were missing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --hours, --days and --from: the last 24 hours; of --audience, --bots and --errors the last 30 days."
)]
pub(crate) struct StatsArgs {
    #[command(subcommand)]
    action: Option<StatsCommand>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum StatsCommand {
    /// Export daily counts as comma-separated values or JSON
    Export(export::ExportArgs),
    /// Show, create or disable the public link to the statistics, which works without an account
    Public {
        /// Whether the link is on; once turned off, a link never works again
        state: Option<public::PublicLinkState>,
    },
}

#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// The number of last hours, including the current one
    #[arg(
        long, value_name = "N", conflicts_with_all = ["days", "audience", "bots", "errors"],
        value_parser = clap::value_parser!(u16).range(1..=72),
    )]
    hours: Option<u16>,
    /// The number of last days, including today, in UTC
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=365))]
    days: Option<u16>,
    #[command(flatten)]
    dates: DateRange,
    #[command(flatten)]
    kind: ReportOption,
    /// Only traffic of this hostname, or views on it
    #[arg(long, value_name = "HOST", conflicts_with_all = ["bots", "errors"])]
    hostname: Option<String>,
    /// Only traffic of this path, or views of this page
    #[arg(long, value_name = "PATH", conflicts_with_all = ["bots", "errors"])]
    page: Option<String>,
    /// Only traffic or views from this country, as two letters
    #[arg(long, value_name = "CODE", conflicts_with_all = ["bots", "errors"])]
    country: Option<String>,
    /// Only views that this site referred, with --audience; an empty HOST means views without a referrer
    #[arg(long, value_name = "HOST", requires = "audience")]
    referrer: Option<String>,
    /// Refresh every five seconds until interrupted
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct DateRange {
    /// The first day, in UTC: within the last 400 days
    #[arg(long, value_name = "YYYY-MM-DD", conflicts_with_all = ["hours", "days"])]
    from: Option<CalendarDay>,
    /// The last day [default: today]
    #[arg(long, value_name = "YYYY-MM-DD", requires = "from")]
    to: Option<CalendarDay>,
}

impl DateRange {
    fn write(self, query: &mut form_urlencoded::Serializer<'_, String>) {
        for (name, day) in [("from", self.from), ("to", self.to)] {
            if let Some(day) = day {
                query.append_pair(name, &day.to_string());
            }
        }
    }
}

#[derive(Debug, Clone, Copy, clap::Args)]
#[group(multiple = false)]
struct ReportOption {
    /// Page views of people, and the sites that referred them
    #[arg(long)]
    audience: bool,
    /// Requests by kind of client: people, search engines, AI crawlers and others
    #[arg(long)]
    bots: bool,
    /// Missing paths and failures, with the pages that led to them
    #[arg(long)]
    errors: bool,
}

pub(crate) async fn run(stats: StatsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    if stats.report.watch && output.is_json() {
        return Err(Failure::usage("--watch shows it anew and anew, and --json prints one document.").into());
    }
    let StatsArgs { project, action, report } = stats;
    let name = project.choose(client, output).await?;
    match action {
        None => {}
        Some(StatsCommand::Export(wanted)) => return export::run(wanted, &name, client, output).await,
        Some(StatsCommand::Public { state }) => return public::run(state, &name, client, output).await,
    }
    report.show(&name, client, output).await?;
    if !report.watch {
        return Ok(());
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        match report.show(&name, client, output).await {
            // The service may be back at the next refresh.
            Err(error) if failure::from_error(&error).kind == FailureClass::Unreachable => {
                output::warning(&error.to_string());
            }
            shown => shown?,
        }
    }
}

impl ReportArgs {
    async fn show(&self, name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
        let ReportOption { audience, bots, errors } = self.kind;
        let look = ReportView { name, client, output, clear: self.watch };
        if audience {
            look.at::<AudienceStats>("stats/audience", &self.query(), audience::draw).await
        } else if bots {
            look.at::<BotsStats>("stats/bots", &self.query(), bots::draw).await
        } else if errors {
            look.at::<ErrorsStats>("stats/errors", &self.query(), errors::draw).await
        } else if self.days.is_some() || self.dates.from.is_some() {
            look.at::<StatsHistory>("stats/history", &self.query(), requests::draw_history).await
        } else {
            look.at::<LiveStats>("stats", &self.query(), requests::draw_live).await
        }
    }

    fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, number) in [("hours", self.hours), ("days", self.days)] {
            if let Some(number) = number {
                query.append_pair(name, &number.to_string());
            }
        }
        self.dates.write(&mut query);
        for (name, part) in [
            ("hostname", &self.hostname),
            ("page", &self.page),
            ("country", &self.country),
            ("referrer", &self.referrer),
        ] {
            if let Some(part) = part {
                query.append_pair(name, part);
            }
        }
        query.finish()
    }
}

struct ReportView<'l> {
    name: &'l ProjectName,
    client: &'l Client,
    output: Output,
    /// Whether to clear the previous report.
    clear: bool,
}

impl ReportView<'_> {
    async fn at<T: Serialize + DeserializeOwned>(
        self,
        path: &str,
        query: &str,
        draw: fn(&T) -> String,
    ) -> anyhow::Result<()> {
        let separator = if query.is_empty() { "" } else { "?" };
        let report = self.client.get::<T>(&format!("/projects/{}/{path}{separator}{query}", self.name)).await;
        let report = report.map_err(|failure| projects::unknown(self.name, failure))?.body;
        if self.clear {
            output::clear();
        }
        self.output.result(&report, || draw(&report))
    }
}

/// Returns the beginning of a day, as the API writes it; the beginning of time for an invalid one.
fn midnight(day: &str) -> Timestamp {
    let read = serde_json::from_value(format!("{day}T00:00:00Z").into());
    read.unwrap_or_else(|_| Timestamp::from_unix_millis(0))
}
