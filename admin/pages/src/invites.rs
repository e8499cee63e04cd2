//! `/invites/:token`: the target of an invite's link. Viewing the page changes nothing, so that a mail program that
//! prefetches links does not use up the invite; joining requires pressing the button.

use acts::joining::{AcceptedInvite, join, preview};
use admin_http::{
    addresses::{ConsolePath, paths},
    extract::Path,
    html,
};
use app::{
    App,
    auth::WebUser,
    middleware::client::ClientAddress,
    rates::{self, Bucket},
};
use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use domain::OrgName;
use time::Date;

use super::{PageError, with_article};

#[derive(Template)]
#[template(path = "invites/invite.html")]
struct InvitePage<'a> {
    org: &'a OrgName,
    /// The organization's display name and name, if they differ.
    org_title: &'a str,
    sender: Option<&'a str>,
    role: &'a str,
    until: Date,
    token: &'a str,
    path: &'a str,
    login: Option<&'a str>,
    /// The address of the sign-in page, for everybody else.
    sign_in: &'a str,
}

#[derive(Template)]
#[template(path = "invites/joined.html")]
struct JoinedPage<'a> {
    org: &'a OrgName,
    title: &'a str,
    role: &'a str,
}

/// Shows the invite without changing anything.
pub(super) async fn show(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    // Tokens cannot be guessed, but each attempt costs a query.
    app.rate_limits.count_client(Bucket::Public, &rates::client(client)).await.check()?;
    let Some(invite) = preview(&app, &token).await? else { return Ok(invite_ended()) };
    let person = WebUser::find(&app, &headers).await?;
    let org = &invite.org;
    let org_title = invite.display_name.as_ref().map_or_else(|| org.to_string(), |shown| format!("{shown} ({org})"));
    let path = format!("{}/{token}", paths::INVITES);
    let page = InvitePage {
        org,
        org_title: &org_title,
        sender: invite.invited_by.as_deref(),
        role: with_article(invite.role.into()),
        until: invite.expires_at.as_datetime().date(),
        token: &token,
        path: &path,
        login: person.as_ref().map(|person| &*person.user.vcs_login),
        sign_in: &app.console.sign_in(&ConsolePath::parse(&path)),
    };
    Ok(html::page(StatusCode::OK, &page))
}

/// Accepts the invite for the signed-in person, and redirects to the organization.
pub(super) async fn accept(
    State(app): State<App>,
    person: WebUser,
    Path(token): Path<String>,
) -> Result<Response, PageError> {
    if preview(&app, &token).await?.is_none() {
        return Ok(invite_ended());
    }
    let (AcceptedInvite { org, role, .. }, propagation) = join(&app, &person.into_caller(), &token).await?;
    if app.console_files.is_some() {
        return Ok((propagation, html::see_other(&format!("/orgs/{}?joined", org.name))).into_response());
    }
    let title = org.display_name.as_ref().map_or_else(|| org.name.to_string(), ToString::to_string);
    let page = JoinedPage { org: &org.name, title: &title, role: with_article(role) };
    Ok((propagation, html::page(StatusCode::OK, &page)).into_response())
}

fn invite_ended() -> Response {
    let sentence =
        "It was accepted or revoked, has expired, or its link is not whole. Ask whoever sent it for a new one.";
    html::message(StatusCode::NOT_FOUND, "This invite is over", sentence)
}
