//! `admin store`: the packs in the store.

mod check;

use std::sync::Arc;

use admin::app::App;
use anyhow::Context as _;
use clap::Subcommand;
use config::Config;

/// What is done with the store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreAction {
    /// Read every pack, live sites first, and name what is lost or damaged. Fails when something is.
    Check(check::CheckArguments),
}

/// Runs a command of the group.
pub(crate) async fn run(config: Arc<Config>, action: StoreAction) -> anyhow::Result<()> {
    // Nothing here changes what edges remember, so that nobody runs their tasks.
    let (app, _tasks) = App::new(config)?;
    db::migrate(&app.db).await.context("the database could not be brought up to date")?;
    match action {
        StoreAction::Check(arguments) => check::run(&app, &arguments).await,
    }
}
