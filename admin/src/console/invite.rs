//! `/invites/:token`: where an invite's link leads. Looking at it changes nothing, so that a mail program that opens
//! links ahead of its reader uses nothing up; joining takes a press of the button.

use std::net::IpAddr;

use api::invites::InvitePreview;
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use domain::role::Role;

use super::{OwnPath, Problem, message, paths};
use crate::{
    api::invites::{join, preview},
    app::App,
    auth::WebUser,
    extract::Path,
    middleware::{
        client::ClientAddress,
        rate_limit::{self, Bucket},
    },
    pages::{self, escape},
};

/// What the invite is for, and the button.
pub(super) async fn show(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    count(&app, client).await?;
    let Some(invite) = preview(&app, &token).await? else { return Ok(over()) };
    let person = WebUser::find(&app, &headers).await?;
    let org = called(&invite);
    let sender = invite.invited_by.as_deref().map_or_else(
        || "You are invited".to_owned(),
        |sender| format!("<strong>{}</strong> invites you", escape(sender)),
    );
    let role = a_role(invite.role.into());
    // The token was found, so it holds nothing that would have to be escaped; it is escaped all the same.
    let token = escape(&token);
    let path = format!("{}/{token}", paths::INVITES);
    let action = match person {
        Some(person) => format!(
            "<p>You are signed in as <strong>{}</strong>.</p>\n\
             <form method=\"post\" action=\"{path}\"><button>Join {}</button></form>\n\
             <form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"return_to\" value=\"{path}\">\
             <button class=\"quiet\">Use another account</button></form>",
            escape(&person.user.vcs_login),
            escape(invite.org.as_str()),
            paths::SIGN_OUT,
        ),
        None => format!(
            "<p><a class=\"button\" href=\"{}\">Sign in to join</a></p>",
            escape(&app.console.sign_in(&OwnPath::parse(&path))),
        ),
    };
    let until = invite.expires_at.as_datetime().date();
    let body = format!(
        "<div class=\"narrow card\"><h1>Join {org}</h1>\n<p>{sender} to join the organization {org} as {role}. The \
         invite is good until {until}, and works once.</p>\n{action}\n\
         <p class=\"hint\">Or in a terminal: <code>svc invites accept {token}</code></p></div>",
    );
    Ok(pages::page(StatusCode::OK, "You are invited", &body))
}

/// The press of the button.
pub(super) async fn accept(
    State(app): State<App>,
    person: WebUser,
    Path(token): Path<String>,
) -> Result<Response, Problem> {
    if preview(&app, &token).await?.is_none() {
        return Ok(over());
    }
    let (org, propagation) = join(&app, &person.into_caller(), &token).await?;
    let name = org.display_name.as_ref().map_or_else(|| org.name.to_string(), ToString::to_string);
    let sentence = format!(
        "You are {} of <strong>{}</strong> now. Its projects are on your front page, and <code>svc projects list --org \
         {}</code> lists them.",
        a_role(org.role),
        escape(&name),
        escape(org.name.as_str()),
    );
    Ok((propagation, message(StatusCode::OK, "Welcome", &sentence)).into_response())
}

/// Guesses are hopeless; they shall not cost much either.
async fn count(app: &App, client: IpAddr) -> Result<(), Problem> {
    Ok(app.rate_limits.count(Bucket::Public, &rate_limit::subject(client)).await.check()?)
}

fn called(invite: &InvitePreview) -> String {
    let name = escape(invite.org.as_str());
    invite.display_name.as_ref().map_or_else(|| name.clone(), |shown| format!("{} ({name})", escape(shown.as_str())))
}

fn a_role(role: Role) -> &'static str {
    match role {
        Role::Member => "a member",
        Role::Admin => "an admin",
        Role::Owner => "an owner",
    }
}

fn over() -> Response {
    let sentence = "It was accepted or withdrawn, or its 14 days are over. Ask whoever sent it for a new one.";
    message(StatusCode::NOT_FOUND, "This invite is over", sentence)
}
