//! `svc shares`.

use api::{Done, shares::ShareList};
use clap::Subcommand;
use domain::{ProjectName, ShareName};

use super::suspensions::{self, SuspensionIndex};
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    output::{Output, count, size},
    project::first_label,
};

/// List your live shares, or remove one.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct SharesArgs {
    #[command(subcommand)]
    action: Option<SharesCommand>,
}

#[derive(Debug, Subcommand)]
enum SharesCommand {
    /// List your shares, newest first
    #[command(alias = "ls")]
    List,
    /// Remove a share; its address stops working immediately
    #[command(alias = "remove", alias = "delete")]
    Rm {
        /// The share's three words, its address, or its tmp-… name
        #[arg(value_parser = share_name)]
        share: String,
    },
}

pub(crate) async fn run(shares: SharesArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match shares.action.unwrap_or(SharesCommand::List) {
        SharesCommand::List => list(client, output).await,
        SharesCommand::Rm { share } => remove(&share, client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let shares = client.list("/shares", |page: ShareList| (page.shares, page.next_cursor)).await?;
    let suspensions = SuspensionIndex::fetch(None, client).await;
    let shares: Vec<_> = shares.into_iter().map(|share| suspensions.mark(&share.project.clone(), share)).collect();
    output.list(
        "shares",
        &shares,
        &["NAME", "EXPIRES", "FILES", "SIZE", "ACCESS", "ADDRESS"],
        "No live shares. Publish a page: svc share FILE",
        |listed| {
            let share = &listed.site;
            let access = if share.protected { "password" } else { "open" };
            vec![
                share.name.to_string(),
                output.relative(share.expires_at),
                count(share.files.into(), "file"),
                size(share.bytes),
                listed.suspended.map_or(access.to_owned(), suspensions::word),
                share.url.clone(),
            ]
        },
    )
}

async fn remove(share: &str, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/shares/{share}")).await.map_err(|failure| match failure.kind {
        FailureClass::NotFound => Failure { message: format!("You have no live share {share}."), ..failure }
            .with_hint("`svc shares` lists yours."),
        _ => failure,
    })?;
    output.success(&format!("Removed {share}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.result(&answer.body, String::new)
}

fn share_name(text: &str) -> Result<String, String> {
    let name = first_label(text).unwrap_or(text);
    let is_share =
        name.parse::<ShareName>().is_ok() || name.parse::<ProjectName>().is_ok_and(|name| name.is_ephemeral());
    if is_share { Ok(name.to_owned()) } else { Err("a share is named by its three words or its address".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_named_by_words_address_or_project() {
        for (text, name) in [
            ("amber-quiet-otter", "amber-quiet-otter"),
            ("https://amber-quiet-otter.share.localhost:8443/a?b", "amber-quiet-otter"),
            ("tmp-0123456789", "tmp-0123456789"),
        ] {
            assert_eq!(share_name(text).as_deref(), Ok(name));
        }
        for text in ["docs", "../projects/docs", "https://docs.svc.localhost"] {
            assert!(share_name(text).is_err(), "{text}");
        }
    }
}
