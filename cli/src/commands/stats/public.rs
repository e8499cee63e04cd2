//! `svc stats public`.

use api::stats::{PublicLink, SetPublicLink};
use clap::ValueEnum;
use domain::ProjectName;

use super::projects;
use crate::{client::Client, output::Output};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PublicLinkState {
    /// Anyone with the link may read the statistics
    On,
    /// The current link never works again
    Off,
}

pub(super) async fn run(
    state: Option<PublicLinkState>,
    name: &ProjectName,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let path = format!("/projects/{name}/stats/public");
    let answer = match state {
        None => client.get::<PublicLink>(&path).await,
        Some(state) => client.put(&path, &SetPublicLink { enabled: state == PublicLinkState::On }).await,
    };
    let link = answer.map_err(|failure| projects::unknown(name, failure))?.body;
    match state {
        None => {}
        Some(PublicLinkState::On) => {
            output.success(&format!("Everybody who has this link may read the statistics of {name}:"));
        }
        Some(PublicLinkState::Off) => {
            output.success(&format!("The statistics of {name} have no public link any more."));
        }
    }
    output.result(&link, || match &link.url {
        Some(url) => url.clone(),
        None if state.is_none() => {
            format!("The statistics of {name} have no public link. Make one: svc stats public on --project {name}")
        }
        None => String::new(),
    })
}
