//! The gate before a site that is not public: it decides who passes, and what the others are answered.
//!
//! It fails closed: whatever cannot be verified does not pass. Start with [`Gatekeeper::admit`]; [`cookie`] is
//! what a visitor keeps, [`guesses`] bounds what a stranger may try, [`org`] is the gate of an organization.

mod cookie;
mod credentials;
mod form;
mod guesses;
mod member;
mod org;
mod paths;
mod site_guesses;

use std::sync::Arc;

use bytes::Bytes;
use domain::{
    Clock, PayingAccount,
    gate::ENTER_PATH,
    site::{Gate, Site},
};
use fairness::{
    Bounds, Client, Turns,
    budget::{Account, Patience},
};
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{AUTHORIZATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Body;
use live::Redis;
use secrets::{EdgeKey, passwords};
use url::Url;

pub(crate) use self::paths::challenge as path_challenge;
use self::{
    cookie::Cookies,
    credentials::Verified,
    form::{Note, Submitted},
    guesses::{Guesses, Refusal},
    org::OrgGate,
    site_guesses::SiteGuesses,
};
use crate::{
    http::{SiteBody, Visit, accepts_html, pages, reserved::FORM_PATH},
    limits::{
        GUESSES_PER_MINUTE, HASH_BYTES, HASH_WAIT, HASHES_WAITING, HASHES_WAITING_PER_ACCOUNT,
        HASHES_WAITING_PER_CLIENT, LEAST_HASHES,
    },
    memory::Members,
    metrics,
};

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Decides who passes.
pub struct Gatekeeper {
    cookies: Cookies,
    verified: Verified,
    guesses: Guesses,
    site_guesses: SiteGuesses,
    /// The guesses of each client that are hashed or wait for that. A client takes this turn first, and keeps nobody else from
    /// hashing while it waits for the other one, however many accounts' sites it guesses at.
    hashing_of_clients: Turns<Client>,
    /// The guesses that are hashed, by the account that owns the site. Many clients that guess at one account's sites leave a
    /// turn to the other accounts.
    hashing_of_sites: Turns<PayingAccount>,
    /// Where the memory is charged that hashes take.
    account: Account,
    org: OrgGate,
    clock: Clock,
}

/// The outcome of a guess at a password.
enum Guess {
    Right,
    Wrong,
    /// This client has guessed wrong too often; seconds to wait.
    TooMany(u64),
    /// Everybody together has guessed wrong too often, or this client within an hour; seconds to wait.
    TooManyByAll(u64),
    /// Too many guesses are being checked at once, or too many clients guess.
    Busy,
}

impl Gatekeeper {
    /// With nobody verified yet. Members sign in at `console_url`. Up to `hashes` passwords are hashed at a time, one a core when that
    /// is 0; the memory that they take is charged to `account`. Guesses at a site are counted in `redis`, over all edges.
    pub fn new(
        key: &EdgeKey,
        members: Arc<dyn Members>,
        console_url: &Url,
        hashes: usize,
        account: Account,
        (redis, clock): (Option<Redis>, Clock),
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(LEAST_HASHES, usize::from);
        let hashes = if hashes == 0 { cores.max(LEAST_HASHES) } else { hashes };
        let key = key.gate_cookies();
        let hashing_of_sites = Bounds {
            total: hashes,
            // All but one: a site that many visit at once is not slower for it than it has to be.
            share: hashes.saturating_sub(1).max(1),
            waiting: HASHES_WAITING,
            waiting_share: HASHES_WAITING_PER_ACCOUNT,
        };
        Self {
            cookies: Cookies::new(&key),
            verified: Verified::new(&key),
            guesses: Guesses::new(),
            site_guesses: SiteGuesses::new(&key, redis),
            hashing_of_clients: Turns::new(Bounds {
                total: HASHES_WAITING,
                // No more than may be wrong: those who are right do not wait for one another's outcome.
                share: (hashes / 2).clamp(1, GUESSES_PER_MINUTE as usize),
                waiting: HASHES_WAITING,
                waiting_share: HASHES_WAITING_PER_CLIENT,
            }),
            hashing_of_sites: Turns::new(hashing_of_sites),
            account,
            org: OrgGate::new(&key, members, console_url, clock.clone()),
            clock,
        }
    }

    /// Lets a visitor pass who may; fails with the answer for everybody else.
    pub(crate) async fn admit<B>(
        &self,
        head: &Parts,
        body: B,
        visit: &Visit,
        site: &Site,
    ) -> Result<(), Box<Response<SiteBody>>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if site.gate == Gate::Public {
            return past_gate(head);
        }
        // Passwords and cookies do not travel in the clear.
        if !visit.tls {
            return Err(Box::new(to_https(head, visit)));
        }
        let hash = match &site.gate {
            Gate::Public => return past_gate(head),
            Gate::Password(hash) => hash,
            Gate::Org(org) => return self.org.admit(head, visit, site, org).await,
        };
        let is_form = head.uri.path() == FORM_PATH;
        if is_form && head.method == Method::POST {
            return Err(Box::new(self.form_answer(head, body, visit, site, hash).await));
        }
        if self.cookies.admit(&head.headers, site, &visit.host, self.clock.now()) {
            return if is_form { Err(Box::new(see_other("/"))) } else { Ok(()) };
        }
        self.judge_credentials(head, visit, site, hash).await
    }

    async fn form_answer<B>(
        &self,
        head: &Parts,
        body: B,
        visit: &Visit,
        site: &Site,
        hash: &Arc<str>,
    ) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Submitted { password, return_to } = match Submitted::read(&head.headers, body).await {
            Ok(submitted) => submitted,
            Err(answer) => return *answer,
        };
        let guess = if self.verified.knows(site, visit, &password) {
            Guess::Right
        } else {
            self.guess(visit, site, hash, password.clone(), true).await
        };
        match guess {
            Guess::Right => {
                self.verified.remember(site, visit, &password);
                let now = self.clock.now();
                pages::with(see_other(&return_to), SET_COOKIE, self.cookies.issue(site, &visit.host, now))
            }
            Guess::Wrong => form::page(StatusCode::UNAUTHORIZED, &return_to, Note::Wrong),
            Guess::TooMany(seconds) => too_many(seconds),
            Guess::TooManyByAll(seconds) => too_many_by_all(seconds),
            Guess::Busy => pages::unavailable(),
        }
    }

    /// Judges `Authorization: Basic`, which scripts send. A visitor who sends none is shown the form, or asked for it.
    async fn judge_credentials(
        &self,
        head: &Parts,
        visit: &Visit,
        site: &Site,
        hash: &Arc<str>,
    ) -> Result<(), Box<Response<SiteBody>>> {
        let Some(authorization) = head.headers.get(AUTHORIZATION) else {
            let return_to = head.uri.path_and_query().map_or("/", |target| target.as_str());
            let page = form::page(StatusCode::UNAUTHORIZED, form::checked_return(return_to), Note::None);
            return Err(Box::new(if navigates(head) || is_of_browser(head) { page } else { challenging(page) }));
        };
        let Some(password) = credentials::basic_password(authorization) else { return Err(Box::new(refused(head))) };
        if self.verified.knows(site, visit, &password) {
            return Ok(());
        }
        match self.guess(visit, site, hash, password.clone(), true).await {
            Guess::Right => {
                self.verified.remember(site, visit, &password);
                Ok(())
            }
            Guess::Wrong => Err(Box::new(refused(head))),
            Guess::TooMany(seconds) => Err(Box::new(too_many(seconds))),
            Guess::TooManyByAll(seconds) => Err(Box::new(too_many_by_all(seconds))),
            Guess::Busy => Err(Box::new(pages::unavailable())),
        }
    }

    /// Weighs a password against its `hash`. It is wrong in any case where `may_be_right` does not hold. Only wrong ones count; what the
    /// others cost is bounded by the turns of hashes.
    async fn guess(&self, visit: &Visit, site: &Site, hash: &Arc<str>, password: String, may_be_right: bool) -> Guess {
        // Those who have none left are not to wait for a turn, nor others for them.
        if let Some(seconds) = self.guesses.wait(&site.project, visit.client) {
            return Guess::TooMany(seconds);
        }
        let provable = may_be_right.then_some(&**hash);
        let by_all = match self.site_guesses.begin(site, provable, visit.client.into()).await {
            Ok(begun) => begun,
            Err(wait) => return Guess::TooManyByAll(wait.as_secs() + 1),
        };
        let client = visit.client.into();
        let Ok(of_client) = self.hashing_of_clients.take(&client, HASH_WAIT).await else { return Guess::Busy };
        let Ok(of_site) = self.hashing_of_sites.take(&site.owner, HASH_WAIT).await else { return Guess::Busy };
        let attempt = match self.guesses.begin(&site.project, visit.client) {
            Ok(attempt) => attempt,
            Err(Refusal::Spent(seconds)) => return Guess::TooMany(seconds),
            Err(Refusal::Crowded) => return Guess::Busy,
        };
        let Ok(grant) = self.account.take(HASH_BYTES, Patience { own: HASH_WAIT, others: HASH_WAIT }).await else {
            metrics::exhausted();
            return Guess::Busy;
        };
        let (hash, by_all) = (hash.clone(), by_all.made());
        // Turns and memory go along: they end with the hash, even when the visitor leaves before.
        let verify = move || {
            let right = passwords::verify(&hash, &password);
            drop((of_site, of_client, grant));
            right
        };
        match tokio::task::spawn_blocking(verify).await {
            Ok(true) if may_be_right => {
                attempt.was_right();
                by_all.was_right();
                Guess::Right
            }
            Ok(_) => Guess::Wrong,
            Err(_) => Guess::Busy,
        }
    }
}

/// Whether a person waits for a page. Browsers say so; of the others, who accepts pages may be one.
fn navigates(head: &Parts) -> bool {
    if head.method != Method::GET && head.method != Method::HEAD {
        return false;
    }
    match head.headers.get(SEC_FETCH_MODE) {
        Some(mode) => mode == "navigate",
        None => accepts_html(&head.headers),
    }
}

/// Whether a browser sends a request, as it says of each what for. Told of `Basic`, it would show a dialogue of its own, which the form
/// is there instead of, also in the midst of a page that was opened before.
fn is_of_browser(head: &Parts) -> bool {
    [SEC_FETCH_DEST, SEC_FETCH_MODE, SEC_FETCH_SITE].iter().any(|name| head.headers.contains_key(name))
}

/// Lets everybody pass a public site. A visitor who was on the way through a gate that was taken away meanwhile goes on to
/// where they wanted.
fn past_gate(head: &Parts) -> Result<(), Box<Response<SiteBody>>> {
    match head.uri.path() {
        ENTER_PATH => Err(Box::new(see_other(&org::return_of(head)))),
        FORM_PATH => Err(Box::new(see_other("/"))),
        _ => Ok(()),
    }
}

fn see_other(location: &str) -> Response<SiteBody> {
    pages::redirect(StatusCode::SEE_OTHER, HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static("/")))
}

fn to_https(head: &Parts, visit: &Visit) -> Response<SiteBody> {
    let port = visit.public_port.map(|port| format!(":{port}")).unwrap_or_default();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    match HeaderValue::try_from(format!("https://{}{port}{target}", visit.host)) {
        Ok(location) => pages::redirect(StatusCode::PERMANENT_REDIRECT, location),
        Err(_) => pages::bad_request(),
    }
}

/// 401 for those whose `Authorization` is wrong: the form for a person, of whom the browser may remember a password that was changed.
fn refused(head: &Parts) -> Response<SiteBody> {
    if is_of_browser(head) && navigates(head) {
        let return_to = head.uri.path_and_query().map_or("/", |target| target.as_str());
        return form::page(StatusCode::UNAUTHORIZED, form::checked_return(return_to), Note::None);
    }
    let page = pages::page(StatusCode::UNAUTHORIZED, "Password needed", "This site asks for a password.");
    if is_of_browser(head) { page } else { challenging(page) }
}

/// Tells programs of `Basic`. Not browsers: they would show their own dialogue instead of the form.
fn challenging(page: Response<SiteBody>) -> Response<SiteBody> {
    pages::with(page, WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"site\", charset=\"UTF-8\""))
}

fn too_many_by_all(seconds: u64) -> Response<SiteBody> {
    let wait = match seconds.div_ceil(60) {
        minutes @ ..120 => format!("{minutes} min"),
        minutes => format!("{} h", minutes.div_ceil(60)),
    };
    let text = format!(
        "Too many wrong passwords were tried at this site, or from this network. Visitors who entered before can still enter from the \
         same network; everybody else can try again in {wait}."
    );
    let page = pages::page(StatusCode::TOO_MANY_REQUESTS, "Too many tries", &text);
    pages::with(page, RETRY_AFTER, seconds.into())
}

fn too_many(seconds: u64) -> Response<SiteBody> {
    let text = "Too many wrong passwords were tried in a short time. Wait a minute, then try again.";
    let page = pages::page(StatusCode::TOO_MANY_REQUESTS, "Too many tries", text);
    pages::with(page, RETRY_AFTER, seconds.into())
}
