//! `svc notifications`.

use api::notifications::{NotificationSetting, NotificationSettings, SetNotification};
use clap::Subcommand;

use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    output::Output,
};

/// List the kinds of letters that you get by mail, or turn one on or off.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct NotificationsArgs {
    #[command(subcommand)]
    action: Option<NotificationsCommand>,
}

#[derive(Debug, Subcommand)]
enum NotificationsCommand {
    /// List the kinds of letters
    #[command(alias = "ls")]
    List,
    /// Get letters of a kind
    On {
        /// The kind, such as `deployment_failed`
        kind: String,
    },
    /// Get no letters of a kind
    Off {
        /// The kind, such as `deployment_failed`
        kind: String,
    },
}

pub(crate) async fn run(notifications: NotificationsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    match notifications.action.unwrap_or(NotificationsCommand::List) {
        NotificationsCommand::List => list(client, output).await,
        NotificationsCommand::On { kind } => set(&kind, true, client, output).await,
        NotificationsCommand::Off { kind } => set(&kind, false, client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let settings = client.get::<NotificationSettings>("/notifications").await?.body;
    match &settings.email {
        Some(email) => output.note(&format!("Letters go to {email}, the address at the code host.")),
        None => output.note("The code host tells no address of yours, so no letters are sent."),
    }
    output.list("kinds", &settings.kinds, &["KIND", "LETTERS", "SENT"], "There are no letters.", |setting| {
        let sent = match (setting.required, setting.enabled) {
            (true, _) => "always",
            (false, true) => "yes",
            (false, false) => "no",
        };
        vec![setting.kind.clone(), setting.about.clone(), sent.to_owned()]
    })
}

async fn set(kind: &str, enabled: bool, client: &Client, output: Output) -> anyhow::Result<()> {
    // A kind is a word with underscores; anything else would be another path.
    let kind: String = kind.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    if kind.is_empty() || !kind.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return Err(unknown(&kind).into());
    }
    let path = format!("/notifications/{kind}");
    let changed = client.put::<NotificationSetting>(&path, &SetNotification { enabled }).await;
    let setting = changed.map_err(|failure| match failure.kind {
        FailureClass::NotFound => unknown(&kind),
        _ => failure,
    })?;
    let about = &setting.body.about;
    output.success(&if enabled {
        format!("You get letters {about}.")
    } else {
        format!("You get no more letters {about}.")
    });
    output.result(&setting.body, String::new)
}

fn unknown(kind: &str) -> Failure {
    Failure::new(FailureClass::NotFound, "not_found", format!("There are no letters of the kind {kind}."))
        .with_hint("`svc notifications` lists the kinds.")
}
