//! `/gate`: where the edge sends visitors of a site that is open to an organization's members only.
//!
//! A member who is signed in goes back to the site with a ticket: random, for this host, this project's present gate,
//! this person and the browser that asked, good for a minute and for one use. Nothing else of ours ever gets to a site's
//! origin. Only the hosts of such sites are led to, and only their members are led.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::Response,
};
use db::{
    gate_tickets::{self, NewTicket},
    routes,
};
use domain::{
    OrgId,
    addresses::{HostKey, HostKind},
    gate,
    limits::GATE_TICKET_LIFE,
    opaque::{self, OpaqueSecret},
    site::{Gate, Site},
};
use serde::Deserialize;
use url::form_urlencoded;

use super::{OwnPath, Problem, message, paths};
use crate::{
    app::App,
    auth::WebUser,
    extract::Query,
    middleware::rate_limit::Bucket,
    pages::{self, escape},
};

/// What the edge says of the visitor.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// The site's host, without port.
    #[serde(default)]
    host: String,
    /// Where on the site the visitor was going.
    #[serde(default)]
    r#return: String,
    /// The hash of the secret in the visitor's cookie at the site.
    #[serde(default)]
    visitor: String,
}

/// Lets a member pass.
pub(super) async fn pass(
    State(app): State<App>,
    person: WebUser,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let Some(visitor_hash) = opaque::decode(&asked.visitor) else { return Ok(no_such_site()) };
    let Some((site, org)) = gated_site(&app, &asked.host).await? else { return Ok(no_such_site()) };
    app.rate_limits.count(Bucket::GateTicket, person.user.id.as_str()).await.check()?;
    let secret = OpaqueSecret::generate();
    let ticket = NewTicket {
        secret_hash: &secret.hash(),
        visitor_hash: &visitor_hash,
        host: &asked.host,
        user: &person.user.id,
        expires_at: app.clock.now() + GATE_TICKET_LIFE,
    };
    if !gate_tickets::issue(&app.db, ticket, &site, &org).await? {
        return Ok(members_only(&person, &asked));
    }
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair(gate::TICKET, secret.expose())
        .append_pair(gate::RETURN, &asked.r#return)
        .finish();
    let mut answer = pages::see_other(&format!("{}{}?{query}", app.console.site_origin(&asked.host), gate::ENTER_PATH));
    if let Some(location) = answer.headers_mut().get_mut(header::LOCATION) {
        location.set_sensitive(true);
    }
    Ok(answer)
}

/// The site at `host`, if its gate is an organization's.
async fn gated_site(app: &App, host: &str) -> Result<Option<(Site, OrgId)>, Problem> {
    let Some(key) = site_key(app, host) else { return Ok(None) };
    let Some(site) = routes::site(&app.db, &key).await?.value else { return Ok(None) };
    let is_over = site.suspended || site.expires_at.is_some_and(|end| end <= app.clock.now());
    Ok(match &site.gate {
        Gate::Org(org) if !is_over => {
            let org = org.clone();
            Some((site, org))
        }
        _ => None,
    })
}

/// What the host names, in the very form in which an edge reads it.
fn site_key(app: &App, host: &str) -> Option<HostKey> {
    match app.addresses.classify(host) {
        HostKind::Site(key) => Some(key),
        HostKind::Api | HostKind::Console | HostKind::Gateway | HostKind::Unknown => None,
    }
}

fn no_such_site() -> Response {
    let sentence = "The link that led here names no site with a door for members. Please open the site itself again.";
    message(StatusCode::NOT_FOUND, "No such door", sentence)
}

fn members_only(person: &WebUser, asked: &Asked) -> Response {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("host", &asked.host)
        .append_pair("return", &asked.r#return)
        .append_pair("visitor", &asked.visitor)
        .finish();
    let back = OwnPath::parse(&format!("{}?{query}", paths::GATE));
    let body = format!(
        "<div class=\"narrow card\"><h1>Members only</h1><p><strong class=\"host\">{host}</strong> is open to the members \
         of the organization behind it.</p><p>You are signed in as <strong>{login}</strong>, who is not one of them. If \
         that is a mistake, ask one of its admins for an invitation.</p><form method=\"post\" action=\"{sign_out}\">\
         <input type=\"hidden\" name=\"return_to\" value=\"{back}\"><button>Use another account</button></form>\
         <p><a href=\"{home}\">To the console</a></p></div>",
        host = escape(&asked.host),
        login = escape(&person.user.vcs_login),
        sign_out = paths::SIGN_OUT,
        back = escape(back.as_str()),
        home = paths::HOME,
    );
    pages::page(StatusCode::FORBIDDEN, "Members only", &body)
}
