//! `svc share`.

use std::path::PathBuf;

use domain::limits;

use super::{
    password, propagation,
    publish::{self, PublishConsents},
};
use crate::{client::Client, output::Output};

/// Publish a file or a folder for some days. The address is unlisted but not secret.
#[derive(Debug, clap::Args)]
pub(crate) struct ShareArgs {
    /// A page or another file, a folder with an index.html, or an archive of one
    path: PathBuf,
    /// Days until the share expires, 1 to 30
    #[arg(
        long,
        value_name = "DAYS",
        default_value_t = limits::SHARE_TTL_DEFAULT_DAYS,
        value_parser = clap::value_parser!(u32).range(ttl_days()),
    )]
    ttl: u32,
    /// Require this password from visitors; - reads it from stdin, so that it is not in the shell's history
    #[arg(long, value_name = "PW")]
    password: Option<String>,
    #[command(flatten)]
    consents: PublishConsents,
}

fn ttl_days() -> std::ops::RangeInclusive<i64> {
    (*limits::SHARE_TTL_DAYS.start()).into()..=(*limits::SHARE_TTL_DAYS.end()).into()
}

pub(crate) async fn run(share: ShareArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let password = share.password.map(|text| password::read(&text, output)).transpose()?;
    let package = publish::package(&share.path, share.consents, output).await?;
    let path = format!("/shares?ttl={}", share.ttl);
    let published = publish::upload(package, &path, password.as_ref(), client, output).await?;
    propagation::report(output, "Live", published.propagation);

    if let Some(expires_at) = published.uploaded.expires_at {
        let guarded = if password.is_some() { "Guarded by the password; gone" } else { "Gone" };
        output.note(&format!(
            "{guarded} {}, or with `svc shares rm {}`.",
            output.relative(expires_at),
            published.uploaded.url
        ));
    }
    let url = published.uploaded.url.clone();
    output.result(&published, || url)
}
