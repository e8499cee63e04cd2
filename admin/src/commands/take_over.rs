//! `admin take-over`: assigns a store or Redis of another database to this one.

use std::sync::Arc;

use anyhow::Context as _;
use app::App;
use clap::{Args, ValueEnum};
use config::Config;
use identity::TakeOverTarget;

/// The arguments of `admin take-over`.
#[derive(Debug, Args)]
pub(crate) struct TakeOverArguments {
    /// The part of the service to take over.
    part: ServicePart,
    /// The name of the database that it belongs to, as `admin doctor` prints it; `unnamed` for a store without a name.
    former: String,
}

/// A part of the service that is marked with the name of its database.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ServicePart {
    /// The store of deployments.
    Store,
    /// Redis.
    Redis,
}

#[expect(clippy::print_stdout, reason = "what was done is this command's result")]
pub(crate) async fn run(config: Arc<Config>, arguments: TakeOverArguments) -> anyhow::Result<()> {
    // This command changes nothing that edges have cached, so the tasks need not run.
    let (app, _tasks) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    let (part, place) = match arguments.part {
        ServicePart::Store => (TakeOverTarget::Store, app.config.store.url.to_string()),
        ServicePart::Redis => (TakeOverTarget::Redis, config::without_password(&app.config.redis.url)),
    };
    app.ownership_watch()
        .take_over(part, &arguments.former)
        .await
        .with_context(|| format!("{place} was not taken over"))?;
    println!("{place} is this database's now");
    Ok(())
}
