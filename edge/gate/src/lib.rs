//! The gate before a site that is not public: admits visitors, and responds to everybody else.
//!
//! It fails closed: whatever cannot be verified is refused. Start with [`Gatekeeper::admit`]. [`cookie`] is what an
//! admitted visitor keeps, [`guesses`] limits password guesses, and [`org`] is the gate of an organization.

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
    site::{Site, SiteGate},
};
use edge_metrics as metrics;
use fairness::{
    Client, TurnBounds, TurnQueue,
    budget::{BudgetAccount, WaitLimits},
};
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{AUTHORIZATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE},
    request::Parts,
};
use http_body::Body;
use http_types::{SiteBody, Visit, accepts_html, pages, reserved::FORM_PATH};
use limits::{
    GUESSES_PER_MINUTE, HASH_BYTES, HASH_WAIT, HASHES_WAITING, HASHES_WAITING_PER_ACCOUNT, HASHES_WAITING_PER_CLIENT,
    LEAST_HASHES,
};
use live::Redis;
use memory::MemberLookup;
use secrets::{EdgeKey, passwords};
use url::Url;

pub use self::paths::challenge as path_challenge;
use self::{
    cookie::PasswordCookies,
    credentials::VerifiedCredentials,
    form::{FormNotice, PasswordForm},
    guesses::{ClientGuesses, GuessRejection},
    org::OrgGate,
    site_guesses::SiteGuesses,
};

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Decides which visitors a site admits.
pub struct Gatekeeper {
    cookies: PasswordCookies,
    verified: VerifiedCredentials,
    guesses: ClientGuesses,
    site_guesses: SiteGuesses,
    /// Turns by client, held while a guess is hashed or waits for that. A client takes this turn first, so that it delays nobody
    /// else while it waits, however many accounts' sites it guesses at.
    hashing_of_clients: TurnQueue<Client>,
    /// Turns by the sites' owner, so that many clients guessing at one account's sites leave a turn for others' sites.
    hashing_of_sites: TurnQueue<PayingAccount>,
    /// Charged for the memory that hashes take.
    account: BudgetAccount,
    org: OrgGate,
    clock: Clock,
}

enum GuessOutcome {
    Right,
    Wrong,
    /// This client has guessed wrong too often; seconds to wait.
    TooMany(u64),
    /// All clients together have guessed wrong too often, or this client within an hour; seconds to wait.
    TooManyByAll(u64),
    /// Too many guesses are being verified, or too many clients are guessing.
    Busy,
}

impl Gatekeeper {
    /// Creates a gatekeeper without verified visitors.
    ///
    /// Members sign in at `console_url`. Up to `hashes` passwords are hashed concurrently; 0 means one per core, and at
    /// least two. The memory for it is charged to `account`. Guesses at a site are counted in `redis`, over all edges.
    pub fn new(
        key: &EdgeKey,
        members: Arc<dyn MemberLookup>,
        console_url: &Url,
        hashes: usize,
        account: BudgetAccount,
        (redis, clock): (Option<Redis>, Clock),
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(LEAST_HASHES, usize::from);
        let hashes = if hashes == 0 { cores.max(LEAST_HASHES) } else { hashes };
        let key = key.gate_cookies();
        let hashing_of_sites = TurnBounds {
            total: hashes,
            // All but one, so that many concurrent visits of one site are not slowed down more than necessary.
            share: hashes.saturating_sub(1).max(1),
            waiting: HASHES_WAITING,
            waiting_share: HASHES_WAITING_PER_ACCOUNT,
        };
        Self {
            cookies: PasswordCookies::new(&key),
            verified: VerifiedCredentials::new(&key),
            guesses: ClientGuesses::new(),
            site_guesses: SiteGuesses::new(&key, redis),
            hashing_of_clients: TurnQueue::new(TurnBounds {
                total: HASHES_WAITING,
                // At most the number of allowed wrong guesses, so that right ones do not wait for each other's outcome.
                share: (hashes / 2).clamp(1, GUESSES_PER_MINUTE as usize),
                waiting: HASHES_WAITING,
                waiting_share: HASHES_WAITING_PER_CLIENT,
            }),
            hashing_of_sites: TurnQueue::new(hashing_of_sites),
            account,
            org: OrgGate::new(&key, members, console_url, clock.clone()),
            clock,
        }
    }

    /// Returns `Ok` if the visitor may see `site`, or else the response to send: a form, a redirect or a refusal.
    /// Reads `body` only if it is a submitted password form.
    pub async fn admit<B>(
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
        if site.gate == SiteGate::Public {
            return admit_to_public(head);
        }
        // Passwords and cookies must not be sent in the clear.
        if !visit.tls {
            return Err(Box::new(to_https(head, visit)));
        }
        let hash = match &site.gate {
            SiteGate::Public => return admit_to_public(head),
            SiteGate::Password(hash) => hash,
            SiteGate::Org(org) => return self.org.admit(head, visit, site, org).await,
        };
        let is_form = head.uri.path() == FORM_PATH;
        if is_form && head.method == Method::POST {
            return Err(Box::new(self.form_answer(head, body, visit, site, hash).await));
        }
        if self.cookies.admit(&head.headers, site, &visit.host, self.clock.now()) {
            return if is_form { Err(Box::new(see_other("/"))) } else { Ok(()) };
        }
        self.verify_credentials(head, visit, site, hash).await
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
        let PasswordForm { password, return_to } = match PasswordForm::read(&head.headers, body).await {
            Ok(submitted) => submitted,
            Err(answer) => return *answer,
        };
        let guess = if self.verified.is_verified(site, visit, &password) {
            GuessOutcome::Right
        } else {
            self.guess(visit, site, hash, password.clone(), true).await
        };
        match guess {
            GuessOutcome::Right => {
                self.verified.insert_verified(site, visit, &password);
                let now = self.clock.now();
                pages::with_header(see_other(&return_to), SET_COOKIE, self.cookies.issue(site, &visit.host, now))
            }
            GuessOutcome::Wrong => form::page(StatusCode::UNAUTHORIZED, &return_to, FormNotice::Wrong),
            GuessOutcome::TooMany(seconds) => too_many(seconds),
            GuessOutcome::TooManyByAll(seconds) => too_many_by_all(seconds),
            GuessOutcome::Busy => pages::unavailable(),
        }
    }

    /// Verifies `Authorization: Basic`, which scripts send. Without it, the visitor receives the form, or a challenge.
    async fn verify_credentials(
        &self,
        head: &Parts,
        visit: &Visit,
        site: &Site,
        hash: &Arc<str>,
    ) -> Result<(), Box<Response<SiteBody>>> {
        let Some(authorization) = head.headers.get(AUTHORIZATION) else {
            let return_to = head.uri.path_and_query().map_or("/", |target| target.as_str());
            let page = form::page(StatusCode::UNAUTHORIZED, form::checked_return(return_to), FormNotice::None);
            return Err(Box::new(if navigates(head) || is_from_browser(head) { page } else { with_challenge(page) }));
        };
        let Some(password) = credentials::basic_password(authorization) else {
            return Err(Box::new(unauthorized(head)));
        };
        if self.verified.is_verified(site, visit, &password) {
            return Ok(());
        }
        match self.guess(visit, site, hash, password.clone(), true).await {
            GuessOutcome::Right => {
                self.verified.insert_verified(site, visit, &password);
                Ok(())
            }
            GuessOutcome::Wrong => Err(Box::new(unauthorized(head))),
            GuessOutcome::TooMany(seconds) => Err(Box::new(too_many(seconds))),
            GuessOutcome::TooManyByAll(seconds) => Err(Box::new(too_many_by_all(seconds))),
            GuessOutcome::Busy => Err(Box::new(pages::unavailable())),
        }
    }

    /// Verifies a password, which is wrong unless `may_be_right`. Turns limit the cost, and only wrong guesses count.
    async fn guess(
        &self,
        visit: &Visit,
        site: &Site,
        hash: &Arc<str>,
        password: String,
        may_be_right: bool,
    ) -> GuessOutcome {
        // Checked first: a client without guesses must neither wait for a turn nor delay others.
        if let Some(seconds) = self.guesses.wait(&site.project, visit.client) {
            return GuessOutcome::TooMany(seconds);
        }
        let provable = may_be_right.then_some(&**hash);
        let by_all = match self.site_guesses.begin(site, provable, visit.client.into()).await {
            Ok(begun) => begun,
            Err(wait) => return GuessOutcome::TooManyByAll(wait.as_secs() + 1),
        };
        let client = visit.client.into();
        let Ok(of_client) = self.hashing_of_clients.take(&client, HASH_WAIT).await else { return GuessOutcome::Busy };
        let Ok(of_site) = self.hashing_of_sites.take(&site.owner, HASH_WAIT).await else { return GuessOutcome::Busy };
        let attempt = match self.guesses.begin(&site.project, visit.client) {
            Ok(attempt) => attempt,
            Err(GuessRejection::Spent(seconds)) => return GuessOutcome::TooMany(seconds),
            Err(GuessRejection::Crowded) => return GuessOutcome::Busy,
        };
        let Ok(grant) = self.account.take(HASH_BYTES, WaitLimits { own: HASH_WAIT, others: HASH_WAIT }).await else {
            metrics::exhausted();
            return GuessOutcome::Busy;
        };
        let (hash, by_all) = (hash.clone(), by_all.mark_made());
        // The turns and the grant last until the hash is computed, even if the visitor disconnects.
        let verify = move || {
            let right = passwords::verify(&hash, &password);
            drop((of_site, of_client, grant));
            right
        };
        match tokio::task::spawn_blocking(verify).await {
            Ok(true) if may_be_right => {
                attempt.was_right();
                by_all.was_right();
                GuessOutcome::Right
            }
            Ok(_) => GuessOutcome::Wrong,
            Err(_) => GuessOutcome::Busy,
        }
    }
}

/// Returns whether a person navigates to a page. Browsers say so; any other client that accepts HTML may be a person.
fn navigates(head: &Parts) -> bool {
    if head.method != Method::GET && head.method != Method::HEAD {
        return false;
    }
    match head.headers.get(SEC_FETCH_MODE) {
        Some(mode) => mode == "navigate",
        None => accepts_html(&head.headers),
    }
}

/// Returns whether a browser sent the request, by its fetch metadata. The form replaces its own `Basic` dialogue.
fn is_from_browser(head: &Parts) -> bool {
    [SEC_FETCH_DEST, SEC_FETCH_MODE, SEC_FETCH_SITE].iter().any(|name| head.headers.contains_key(name))
}

/// Admits everybody to a public site. Redirects visitors who were passing a gate that was removed meanwhile.
fn admit_to_public(head: &Parts) -> Result<(), Box<Response<SiteBody>>> {
    match head.uri.path() {
        ENTER_PATH => Err(Box::new(see_other(&org::return_path(head)))),
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

/// Returns the 401 for a wrong `Authorization`: the form for a person, whose browser may have cached an old password.
fn unauthorized(head: &Parts) -> Response<SiteBody> {
    if is_from_browser(head) && navigates(head) {
        let return_to = head.uri.path_and_query().map_or("/", |target| target.as_str());
        return form::page(StatusCode::UNAUTHORIZED, form::checked_return(return_to), FormNotice::None);
    }
    let page = pages::page(StatusCode::UNAUTHORIZED, "Password needed", "This site asks for a password.");
    if is_from_browser(head) { page } else { with_challenge(page) }
}

/// Adds a `Basic` challenge, for programs only: browsers would show their own dialogue instead of the form.
fn with_challenge(page: Response<SiteBody>) -> Response<SiteBody> {
    pages::with_header(page, WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"site\", charset=\"UTF-8\""))
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
    pages::with_header(page, RETRY_AFTER, seconds.into())
}

fn too_many(seconds: u64) -> Response<SiteBody> {
    let text = "Too many wrong passwords were tried in a short time. Wait a minute, then try again.";
    let page = pages::page(StatusCode::TOO_MANY_REQUESTS, "Too many tries", text);
    pages::with_header(page, RETRY_AFTER, seconds.into())
}
