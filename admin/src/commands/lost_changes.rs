//! `admin lost-changes`: changes that the database has lost because a copy or a backup took its place.

use std::time::Duration;

use anyhow::Context as _;
use config::Config;
use db::edges::lost_changes::{self, ChangeLoss};
use domain::Clock;

const LISTED_WITHIN: Duration = Duration::from_hours(90 * 24);
const LISTED: i64 = 100;

/// Lists the losses, or marks them as acknowledged.
#[expect(clippy::print_stdout, reason = "the list is this command's result")]
pub(crate) async fn run(config: &Config, acknowledge: bool) -> anyhow::Result<()> {
    let db = db::connect(&config.postgres, &config.postgres.url).context("postgres.url")?;
    let now = Clock::system().now();
    if acknowledge {
        let reports = lost_changes::acknowledge(&db, now).await?;
        println!("{reports} reports of edges are marked as seen to.");
        return Ok(());
    }
    let losses = lost_changes::list_unacknowledged(&db, now - LISTED_WITHIN, LISTED).await?;
    if losses.is_empty() {
        println!("Edges know of no change that the database lacks.");
    }
    for ChangeLoss { newest_seq, first_seq, last_seq, subjects, noted_at, .. } in losses {
        println!("{noted_at}: changes {first_seq} to {last_seq} are lost; the newest was {newest_seq}. They touched:");
        for subject in &subjects {
            println!("  {subject}");
        }
        if subjects.is_empty() {
            println!("  (no edge remembers)");
        }
    }
    Ok(())
}
