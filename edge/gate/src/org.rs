//! The gate of an organization: admits its members.
//!
//! A visitor without a badge is redirected to the console, which identifies them, and returns with a ticket to
//! [`ENTER_PATH`]. The ticket works once, for this host and this gate, in the browser that was redirected: that browser
//! has a cookie of the site whose hash the console has received. The ticket is exchanged for a badge, and with the
//! badge every request checks that the person is still a member.

use std::sync::Arc;

use askama::Template;
use domain::{
    Clock, OrgId,
    gate::{CONSOLE_PATH, ENTER_PATH, HOST, RETURN, TICKET, VISITOR},
    opaque::{self, OpaqueSecret},
    site::Site,
};
use fairness::{Client, TurnBounds, TurnQueue};
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{REFERRER_POLICY, SET_COOKIE},
    request::Parts,
};
use http_types::{SiteBody, Visit, pages};
use limits::{
    CONCURRENT_TICKET_LOOKUPS, GATE_RETURN_BYTES, TICKET_WAIT, TICKETS_PER_CLIENT, TICKETS_WAITING,
    TICKETS_WAITING_PER_CLIENT, VISITOR_COOKIE_LIFE,
};
use memory::{CacheReadError, MemberLookup};
use subtle::ConstantTimeEq as _;
use telemetry::{OutageLine, OutageLog};
use url::{Url, form_urlencoded};

use super::{
    cookie::{cookie_value, set_cookie},
    form::checked_return,
    member::{MemberBadge, MemberCookies},
    navigates, see_other,
};

/// The cookie that recognizes a browser when it returns from the console.
const VISITOR_COOKIE: &str = "__Host-svc-visitor";
const NO_REFERRER: (HeaderName, HeaderValue) = (REFERRER_POLICY, HeaderValue::from_static("no-referrer"));

/// The page for an invalid ticket, with a link back to the site.
#[derive(Template)]
#[template(path = "closed.html")]
struct ClosedPage<'a> {
    status: StatusCode,
    title: &'a str,
    text: &'a str,
    return_to: &'a str,
}

pub(super) struct OrgGate {
    members: Arc<dyn MemberLookup>,
    badges: MemberCookies,
    /// The console's URL that visitors are redirected to, without parameters.
    console: String,
    looking: TurnQueue<Client>,
    clock: Clock,
}

impl OrgGate {
    pub(super) fn new(key: &[u8; 32], members: Arc<dyn MemberLookup>, console_url: &Url, clock: Clock) -> Self {
        let console = format!("{}{CONSOLE_PATH}", console_url.origin().ascii_serialization());
        let looking = TurnQueue::new(TurnBounds {
            total: CONCURRENT_TICKET_LOOKUPS,
            share: TICKETS_PER_CLIENT,
            waiting: TICKETS_WAITING,
            waiting_share: TICKETS_WAITING_PER_CLIENT,
        });
        Self { members, badges: MemberCookies::new(key), console, looking, clock }
    }

    pub(super) async fn admit(
        &self,
        head: &Parts,
        visit: &Visit,
        site: &Site,
        org: &OrgId,
    ) -> Result<(), Box<Response<SiteBody>>> {
        let enters = head.uri.path() == ENTER_PATH && head.method == Method::GET;
        let answer = match self.has_member_badge(head, visit, site, org).await {
            Ok(true) if enters => Ok(see_other(&return_path(head))),
            Ok(true) => return Ok(()),
            Ok(false) if enters => self.enter(head, visit, site).await,
            Ok(false) if navigates(head) => Ok(self.redirect_to_console(head, visit)),
            Ok(false) => Ok(members_only()),
            Err(error) => Err(error),
        };
        Err(Box::new(answer.unwrap_or_else(|error| {
            static UNREAD: OutageLog = OutageLog::new();
            if let Some(OutageLine { left_out, .. }) = UNREAD.record_failure() {
                tracing::warn!(host = %visit.host, %error, left_out, "the members could not be read");
            }
            pages::unavailable()
        })))
    }

    /// Returns whether the request carries the badge of a current member.
    async fn has_member_badge(
        &self,
        head: &Parts,
        visit: &Visit,
        site: &Site,
        org: &OrgId,
    ) -> Result<bool, CacheReadError> {
        let badge = self.badges.read(&head.headers, site, &visit.host, self.clock.now());
        let Some(badge) = badge else { return Ok(false) };
        let place = self.members.membership(org, &badge.user, visit.client.into()).await?;
        Ok(place.is_some_and(|place| place.gate_version == badge.gate_version))
    }

    fn redirect_to_console(&self, head: &Parts, visit: &Visit) -> Response<SiteBody> {
        // A browser may request several tabs concurrently: they share the visitor cookie.
        let visitor = visitor_cookie(head);
        let visitor = visitor.unwrap_or_else(OpaqueSecret::generate);
        let path = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let path = Some(path).filter(|path| path.len() <= GATE_RETURN_BYTES).map_or("/", checked_return);
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair(HOST, &visit.host)
            .append_pair(RETURN, path)
            .append_pair(VISITOR, &opaque::encode(&visitor.hash()))
            .finish();
        let Ok(location) = HeaderValue::try_from(format!("{}?{query}", self.console)) else {
            return pages::bad_request();
        };
        let cookie = set_cookie(VISITOR_COOKIE, visitor.expose(), VISITOR_COOKIE_LIFE);
        let answer = pages::redirect(StatusCode::FOUND, location);
        pages::with_header(without_referrer(answer), SET_COOKIE, cookie)
    }

    /// Redeems a ticket. It is removed first, so that it is worthless afterwards, wherever it was presented.
    async fn enter(&self, head: &Parts, visit: &Visit, site: &Site) -> Result<Response<SiteBody>, CacheReadError> {
        let secret = parameter(head, TICKET).and_then(|text| OpaqueSecret::parse(&text));
        let Some(secret) = secret else { return Ok(invalid_ticket(head)) };
        let Ok(_turn) = self.looking.take(&visit.client.into(), TICKET_WAIT).await else {
            return Ok(pages::unavailable());
        };
        let ticket = self.members.take_ticket(&secret.hash()).await?;
        let (Some(ticket), Some(visitor)) = (ticket, visitor_cookie(head)) else { return Ok(invalid_ticket(head)) };
        let now = self.clock.now();
        let is_visitors: bool = visitor.hash().ct_eq(&ticket.visitor_hash).into();
        let is_for_here = *ticket.host == *visit.host
            && ticket.project == site.project
            && ticket.access_version == site.access_version;
        if !is_visitors || !is_for_here || ticket.expires_at <= now {
            return Ok(invalid_ticket(head));
        }
        let badge = MemberBadge { user: ticket.user, gate_version: ticket.gate_version };
        let mut answer = without_referrer(see_other(&return_path(head)));
        answer.headers_mut().append(SET_COOKIE, self.badges.issue(&badge, site, &visit.host, now));
        Ok(answer)
    }
}

fn visitor_cookie(head: &Parts) -> Option<OpaqueSecret> {
    cookie_value(&head.headers, VISITOR_COOKIE).and_then(OpaqueSecret::parse)
}

fn parameter(head: &Parts, name: &str) -> Option<String> {
    let query = head.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
}

/// Returns the path on this site that the visitor was going to.
pub(super) fn return_path(head: &Parts) -> String {
    parameter(head, RETURN).map_or_else(|| "/".to_owned(), |path| checked_return(&path).to_owned())
}

fn without_referrer(answer: Response<SiteBody>) -> Response<SiteBody> {
    let (name, value) = NO_REFERRER;
    pages::with_header(answer, name, value)
}

/// Responds to an invalid ticket. Does not redirect to the console again: a browser without cookies would loop.
fn invalid_ticket(head: &Parts) -> Response<SiteBody> {
    let text = "This way in was used already, is too old, or was meant for another browser. Nothing is wrong with you: \
                open the site once more. If you come back here, see whether your browser keeps cookies for this site.";
    let return_to = &return_path(head);
    let page = ClosedPage { status: StatusCode::FORBIDDEN, title: "This way in is closed", text, return_to };
    without_referrer(pages::render(page.status, &page))
}

fn members_only() -> Response<SiteBody> {
    let text = "Only members of the organization behind this site may see it. Open it in a browser to sign in.";
    pages::page(StatusCode::UNAUTHORIZED, "Members only", text)
}
