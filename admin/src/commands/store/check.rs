//! `admin store check`: reads every pack once, and lists lost and damaged ones.

use acts::store_check::{self, PAGE, PackFinding};
use app::App;
use clap::Args;
use config::ByteSize;
use db::upkeep::pack_faults;
use domain::DeploymentId;
use packs::ReadPace;
use serde::Serialize;

/// The arguments of `admin store check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Check only the pack of this deployment.
    #[arg(long, value_name = "ID")]
    deployment: Option<DeploymentId>,
    /// The most bytes to read per second, such as `20MB`; unlimited by default.
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
    /// Repair from the replica (`store.replica_url`) what it has. Damaged objects are moved to `damaged/`.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct StoreCheckReport {
    packs: u64,
    bytes: u64,
    faults: Vec<PackFinding>,
}

pub(super) async fn run(app: &App, arguments: &CheckArguments) -> anyhow::Result<()> {
    anyhow::ensure!(
        !arguments.repair || app.replica.is_some(),
        "there is nothing to repair from: `store.replica_url` is not configured"
    );
    let mut pace = ReadPace::new(arguments.rate.map(|rate| rate.0));
    let mut outcome = StoreCheckReport::default();
    if let Some(id) = &arguments.deployment {
        let owned = pack_faults::find_owner(&app.db, id).await?;
        anyhow::ensure!(owned.is_some(), "there is no deployment {id} with files");
        check(app, id, &mut pace, arguments, &mut outcome).await?;
    } else {
        for is_live in [true, false] {
            let mut after = None;
            loop {
                let page = pack_faults::page(&app.db, is_live, after.as_ref(), PAGE).await?;
                for id in &page {
                    check(app, id, &mut pace, arguments, &mut outcome).await?;
                }
                let Some(last) = page.last() else { break };
                after = Some(last.clone());
            }
        }
    }
    conclude(arguments, &outcome)
}

async fn check(
    app: &App,
    id: &DeploymentId,
    pace: &mut ReadPace,
    arguments: &CheckArguments,
    outcome: &mut StoreCheckReport,
) -> anyhow::Result<()> {
    let (read, finding) = store_check::check_pack(app, id, pace, arguments.repair).await?;
    outcome.packs += 1;
    outcome.bytes += read;
    if let Some(finding) = finding {
        if !arguments.json {
            print(&finding);
        }
        outcome.faults.push(finding);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was found is this command's result")]
fn print(finding: &PackFinding) {
    let PackFinding { deployment, project, owner, kind, paths, repaired } = finding;
    let repaired = if *repaired { "\trepaired" } else { "" };
    if paths.is_empty() {
        println!("{deployment}\t{project}\t{owner}\t{kind}\t-{repaired}");
    }
    for path in paths {
        println!("{deployment}\t{project}\t{owner}\t{kind}\t{path}{repaired}");
    }
}

#[expect(clippy::print_stdout, reason = "what was found is this command's result")]
fn conclude(arguments: &CheckArguments, outcome: &StoreCheckReport) -> anyhow::Result<()> {
    let open = outcome.faults.iter().filter(|finding| !finding.repaired).count();
    let repaired = outcome.faults.len() - open;
    if arguments.json {
        println!("{}", serde_json::to_string(outcome)?);
    } else {
        let packs = telemetry::format_count(outcome.packs, "pack", "packs");
        println!("{packs}, {} bytes read; {open} lost or damaged, {repaired} repaired", outcome.bytes);
    }
    anyhow::ensure!(open == 0, "{} lost or damaged", telemetry::format_count(open, "pack is", "packs are"));
    Ok(())
}
