//! `svc login`, `logout` and `whoami`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use api::{
    Done,
    account::Account,
    device::{DevicePoll, DeviceStart, DeviceToken},
};
use domain::{BRAND, token::TokenSecret};
use serde_json::json;

use super::browser;
use crate::{
    client::Client,
    credentials::{self, Connection, LoginStore},
    failure::{Failure, FailureClass},
    output::{self, Output},
};

/// The polling interval grows by this much after `slow_down` (RFC 8628, section 3.5).
const SLOW_DOWN_STEP: Duration = Duration::from_secs(5);
/// The minimum polling interval, even if the service specifies a shorter one.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Sign in: a browser opens, you confirm the code, and this command saves the login.
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// Only print the address, without opening a browser
    #[arg(long)]
    no_browser: bool,
}

pub(crate) async fn login(args: LoginArgs, connection: Connection, output: Output) -> anyhow::Result<()> {
    let ca_file = connection.ca_file.as_ref().map(std::path::absolute).transpose()?;
    let client = Client::new(connection)?;
    let start = client.post_unsigned::<DeviceStart>("/auth/device", &json!({})).await?;
    let url = start.verification_uri_complete.as_ref().unwrap_or(&start.verification_uri);
    output::print_stderr(&format!("Open   {url}\nand confirm the code   {}", output::bold(&start.user_code)));
    if !args.no_browser && !output.is_json() && browser::open(url) {
        output.note("Your browser should show the page now.");
    }
    let spinner = output.spinner("Waiting for you to confirm");
    let token = poll(&client, &start).await;
    spinner.finish_and_clear();
    let token = token?;

    let account = client.with_token(token.clone()).get::<Account>("/me").await?.body;
    save(&client, token, &account, ca_file)?;
    output.success(&format!("Signed in at {} as {}.", client.api, name(&account)));
    output.result(&json!({"api": client.api, "login": account.vcs_login}), String::new)
}

/// Revokes the token of the saved login at the service and forgets it here, even if the service cannot be reached.
pub(crate) async fn logout(connection: Connection, output: Output) -> anyhow::Result<()> {
    let file = credentials::file()?;
    let mut logins = LoginStore::load(&file)?;
    let api = connection.api.clone();
    let Some(saved) = logins.remove(&api) else {
        output.note(&format!("There is no saved login for {api}."));
        let document = json!({"ok": true, "api": api, "was_signed_in": false, "token_ended": false});
        return output.result(&document, String::new);
    };
    let ended = revoke_token(saved.token, connection).await;
    logins.save(&file)?;
    let is_ended = ended.is_ok();
    match ended {
        Ok(()) => output.success(&format!("Signed out of {api}. Its token works no more.")),
        Err(why) => {
            output.success(&format!("Signed out of {api} on this machine."));
            output::warning(&format!(
                "The token could not be ended at the service, and still works: {why}\n\
                 End it once you are signed in again (`svc tokens`, `svc tokens revoke ID`), or in the console."
            ));
        }
    }
    let document = json!({"ok": true, "api": api, "was_signed_in": true, "token_ended": is_ended});
    output.result(&document, String::new)
}

/// Revokes a token. A token that the service does not know or has already revoked is a success.
async fn revoke_token(token: String, connection: Connection) -> anyhow::Result<()> {
    let client = Client::new(connection)?.with_token(token);
    let id = match client.get::<Account>("/me").await {
        Ok(account) => account.body.token_id,
        Err(failure) if failure.kind == FailureClass::NotSignedIn => return Ok(()),
        Err(failure) => return Err(failure.into()),
    };
    let id = id.ok_or_else(|| Failure::refused("unknown_token", "the service does not say which token it is."))?;
    match client.delete::<Done>(&format!("/tokens/{id}")).await {
        Err(failure) if !matches!(failure.kind, FailureClass::NotFound | FailureClass::NotSignedIn) => {
            Err(failure.into())
        }
        _ => Ok(()),
    }
}

pub(crate) async fn whoami(client: &Client, up_file: Option<&Path>, output: Output) -> anyhow::Result<()> {
    let account = client.get::<Account>("/me").await?.body;
    output.note(&match up_file {
        Some(file) => format!("At {}, the `make up` of {}", client.api, file.display()),
        None => format!("At {}", client.api),
    });
    output.result(&account, || name(&account))
}

/// Polls at the service's interval until the person has answered or the code has expired.
async fn poll(client: &Client, start: &DeviceStart) -> Result<String, Failure> {
    let question = DevicePoll { device_code: start.device_code.clone() };
    let mut interval = Duration::from_secs(start.interval).max(MIN_POLL_INTERVAL);
    let wait = async {
        loop {
            tokio::time::sleep(interval).await;
            match client.post_unsigned::<DeviceToken>("/auth/device/poll", &question).await {
                Ok(answer) => return Ok(answer.token),
                Err(failure) => match &*failure.code {
                    "authorization_pending" => {}
                    "slow_down" => interval += SLOW_DOWN_STEP,
                    "expired_token" => return Err(code_expired()),
                    "access_denied" => {
                        return Err(failure.with_hint("Nothing was changed. Run `svc login` to try again."));
                    }
                    // The person may still be typing the code: a brief network outage is no reason to give up.
                    _ if failure.kind == FailureClass::Unreachable => {}
                    _ => return Err(failure),
                },
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(start.expires_in), wait).await.unwrap_or_else(|_| Err(code_expired()))
}

fn code_expired() -> Failure {
    Failure::new(FailureClass::Refused, "expired_token", "The code was not confirmed in time.")
        .with_hint("Run `svc login` for a new one.")
}

fn save(client: &Client, token: String, account: &Account, ca_file: Option<PathBuf>) -> anyhow::Result<()> {
    // Do not save anything but a token, or the next command would only report "401".
    TokenSecret::parse(&token).ok_or_else(|| {
        Failure::new(FailureClass::Unreachable, "unexpected_answer", format!("The answer held no {BRAND} token."))
    })?;
    let file = credentials::file()?;
    let mut logins = LoginStore::load(&file)?;
    logins.insert(&client.api, credentials::SavedLogin { token, vcs_login: account.vcs_login.clone(), ca_file });
    logins.save(&file)
}

fn name(account: &Account) -> String {
    let org = account.org.as_ref().map(|org| format!("organization {org}"));
    account.vcs_login.clone().or(org).unwrap_or_else(|| account.id.clone())
}
