//! `admin store`: the trash of the store, its sweep, and the check of stored packs.

mod check;

use std::sync::Arc;

use acts::trash::{sweep, tend};
use anyhow::Context as _;
use app::App;
use clap::Subcommand;
use config::Config;
use domain::DeploymentId;
use telemetry::format_count;

/// The subcommands of `admin store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreAction {
    /// List the packs in the trash: id, project, time of the move, bytes.
    Trash,
    /// Restore packs from the trash. The next sweep moves those without a deployment back.
    Restore {
        /// The ids of the packs, which are those of their deployments.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<DeploymentId>,
        /// Restore every pack in the trash.
        #[arg(long)]
        all: bool,
    },
    /// Show which packs have no record in the database and would be moved to the trash.
    Sweep {
        /// Move them, in any number.
        #[arg(long)]
        yes: bool,
    },
    /// Read every pack, live sites first, and list lost and damaged ones. Fails if there are any.
    Check(check::CheckArguments),
}

pub(crate) async fn run(config: Arc<Config>, action: StoreAction) -> anyhow::Result<()> {
    // These commands change nothing that edges have cached, so the tasks need not run.
    let (app, _tasks) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    // Refuse a store of another database before anything is moved or deleted.
    app.ownership_watch().start().await?;
    match action {
        StoreAction::Trash => list(&app).await,
        StoreAction::Restore { ids, all } => restore(&app, ids, all).await,
        StoreAction::Sweep { yes: false } => preview_sweep(&app).await,
        StoreAction::Sweep { yes: true } => sweep_whole(&app).await,
        StoreAction::Check(arguments) => check::run(&app, &arguments).await,
    }
}

#[expect(clippy::print_stdout, reason = "the list is this command's result")]
async fn list(app: &App) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let page = tend::list(app, after.as_ref()).await.context("the trash cannot be listed")?;
        for pack in &page {
            let project = pack.project.as_deref().unwrap_or("-");
            println!("{}\t{project}\t{}\t{}", pack.id, pack.trashed_at, pack.bytes);
        }
        match page.last() {
            Some(last) if page.len() == tend::RUN => after = Some(last.id.clone()),
            _ => return Ok(()),
        }
    }
}

#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn restore(app: &App, mut ids: Vec<DeploymentId>, all: bool) -> anyhow::Result<()> {
    let mut restored = 0;
    loop {
        if all {
            // Restored packs leave the trash, so the first page is always the next one.
            ids = tend::list(app, None).await?.into_iter().map(|pack| pack.id).collect();
        }
        for id in &ids {
            tend::restore(app, id).await.with_context(|| format!("{id} cannot be restored (after {restored})"))?;
            restored += 1;
        }
        if !all || ids.is_empty() {
            break;
        }
    }
    println!("{} restored", format_count(restored, "pack was", "packs were"));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was found is this command's result")]
async fn preview_sweep(app: &App) -> anyhow::Result<()> {
    let look = sweep::preview(app).await?;
    println!(
        "{}, {} without a record, {} of failed uploads and deleted deployments",
        format_count(look.packs, "pack", "packs"),
        look.unknown,
        look.unwanted
    );
    for id in &look.named {
        println!("{id}\t{}", id.time());
    }
    if look.unknown > look.named.len() {
        println!("and {} more", look.unknown - look.named.len());
    }
    match look.stopped {
        Some(reason) => println!("The sweep moves nothing: {} To move them all the same: --yes.", reason.sentence()),
        None if look.unknown + look.unwanted > 0 => println!("The sweep moves them to the trash by itself."),
        None => println!("There is nothing to move."),
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
async fn sweep_whole(app: &App) -> anyhow::Result<()> {
    let moved = sweep::run_whole(app).await?;
    println!(
        "{} moved to the trash; `admin store restore` takes out what is there",
        format_count(moved, "pack was", "packs were")
    );
    Ok(())
}
