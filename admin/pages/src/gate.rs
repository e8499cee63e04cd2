//! `/gate`: where the edge sends visitors of a site that is restricted to an organization's members.
//!
//! A signed-in member returns to the site with a random ticket, which is bound to this host, the project's current
//! gate, the person and the requesting browser, and is valid for one minute and one use. The site's origin learns
//! nothing else from the console. Redirects lead only to hosts of such sites, and only for their members.

use admin_http::{
    addresses::{ConsolePath, paths},
    extract::Query,
    html,
};
use app::{App, auth::WebUser, rates::Bucket};
use askama::Template;
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::Response,
};
use db::{
    edges::routes,
    sign_in::gate_tickets::{self, NewSiteTicket},
};
use domain::{
    OrgId,
    addresses::{HostKey, HostKind},
    gate,
    limits::GATE_TICKET_LIFE,
    opaque::{self, OpaqueSecret},
    site::{Site, SiteGate},
};
use serde::Deserialize;
use url::form_urlencoded;

use super::PageError;

#[derive(Debug, Deserialize)]
pub(super) struct GateQuery {
    /// The site's host, without a port.
    #[serde(default)]
    host: String,
    /// The path that the visitor requested on the site.
    #[serde(default)]
    r#return: String,
    /// The hash of the secret in the visitor's cookie on the site.
    #[serde(default)]
    visitor: String,
}

/// The page for a signed-in person who is not a member.
#[derive(Template)]
#[template(path = "gate/members_only.html")]
struct MembersOnlyPage<'a> {
    host: &'a str,
    login: &'a str,
    return_to: &'a str,
}

/// Sends a member back to the site with a ticket.
pub(super) async fn admit(
    State(app): State<App>,
    person: WebUser,
    Query(query): Query<GateQuery>,
) -> Result<Response, PageError> {
    let Some(visitor_hash) = opaque::decode(&query.visitor) else { return Ok(no_such_site()) };
    let Some((site, org)) = find_gated_site(&app, &query.host).await? else { return Ok(no_such_site()) };
    app.rate_limits.count(Bucket::GateTicket, person.user.id.as_str()).await.check()?;
    let secret = OpaqueSecret::generate();
    let ticket = NewSiteTicket {
        secret_hash: &secret.hash(),
        visitor_hash: &visitor_hash,
        host: &query.host,
        user: &person.user.id,
        expires_at: app.clock.now() + GATE_TICKET_LIFE,
    };
    if !gate_tickets::issue(&app.db, ticket, &site, &org).await? {
        return Ok(members_only(&person, &query));
    }
    let parameters = form_urlencoded::Serializer::new(String::new())
        .append_pair(gate::TICKET, secret.expose())
        .append_pair(gate::RETURN, &query.r#return)
        .finish();
    let mut answer =
        html::see_other(&format!("{}{}?{parameters}", app.console.site_origin(&query.host), gate::ENTER_PATH));
    if let Some(location) = answer.headers_mut().get_mut(header::LOCATION) {
        location.set_sensitive(true);
    }
    Ok(answer)
}

/// Returns the site at `host` and the organization that it is restricted to, if there is a site with this gate.
async fn find_gated_site(app: &App, host: &str) -> Result<Option<(Site, OrgId)>, PageError> {
    let Some(key) = parse_site_key(app, host) else { return Ok(None) };
    let Some(site) = routes::site(&app.db, &key).await?.value else { return Ok(None) };
    let is_over = site.suspended.is_some() || site.expires_at.is_some_and(|end| end <= app.clock.now());
    Ok(match &site.gate {
        SiteGate::Org(org) if !is_over => {
            let org = org.clone();
            Some((site, org))
        }
        _ => None,
    })
}

/// Parses the site's key from the host exactly as an edge does.
fn parse_site_key(app: &App, host: &str) -> Option<HostKey> {
    match app.addresses.classify(host) {
        HostKind::Site(key) => Some(key),
        HostKind::Api | HostKind::Console | HostKind::Gateway | HostKind::Unknown => None,
    }
}

fn no_such_site() -> Response {
    let sentence =
        "No site that is open to an organization's members has the address that led here. Open the site itself again.";
    html::message(StatusCode::NOT_FOUND, "No such site", sentence)
}

fn members_only(person: &WebUser, query: &GateQuery) -> Response {
    let parameters = form_urlencoded::Serializer::new(String::new())
        .append_pair("host", &query.host)
        .append_pair("return", &query.r#return)
        .append_pair("visitor", &query.visitor)
        .finish();
    let back = ConsolePath::parse(&format!("{}?{parameters}", paths::GATE));
    let page = MembersOnlyPage { host: &query.host, login: &person.user.vcs_login, return_to: back.as_str() };
    html::page(StatusCode::FORBIDDEN, &page)
}
