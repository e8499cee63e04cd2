//! Tests the path over plain HTTP that a certificate authority takes, with a file of our own served under the public
//! name.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use config::Config;
use db::certificates::challenges::{self, Challenge, ChallengeKind};
use domain::{Hostname, Timestamp, line, networks::is_global};
use futures_util::{StreamExt as _, future::join_all};
use http::header;
use rand::RngExt as _;
use sqlx::PgPool;
use url::Url;

use crate::hostnames::{Hostnames, LookError, is_local};

const TRY: Duration = Duration::from_secs(5);
/// The lifetime of a test file that nothing has removed.
const KEPT: Duration = Duration::from_mins(2);
const ADDRESSES: usize = 8;
/// The most bytes of a response that are read: our file is shorter.
const BODY_BYTES: usize = 1_024;
const SECRET_BYTES: usize = 22;
const SHOWN: usize = 120;

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// Every address served our file.
    Open,
    /// An address served something else, or nothing. The sentence is for the domain's owner.
    Closed(String),
    /// The test was not possible, for this reason, which says nothing about the domain.
    Untried(String),
}

/// Where visitors of a hostname arrive, as shown by our own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Elsewhere: no address serves our file.
    Elsewhere,
    /// At HTTPS on the same hostname; a proxy there may forward requests to us.
    Https,
    /// Unknown: an address is slow, fails, or could not be tried.
    Unknown,
    /// Here, over at least one address.
    Here,
}

struct Attempt {
    way: Way,
    reach: Reach,
}

/// Tests the path to `hostname`; any edge may respond.
pub async fn try_way(
    db: &PgPool,
    hostnames: &Hostnames,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<Way, sqlx::Error> {
    let attempts = attempt(db, hostnames, config, now, hostname).await?;
    Ok(together(attempts.into_iter().map(|attempt| attempt.way).collect(), is_local(hostname)))
}

/// Finds out where visitors of `hostname` arrive. The best result of all addresses counts.
pub async fn reach(
    db: &PgPool,
    hostnames: &Hostnames,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<Reach, sqlx::Error> {
    let attempts = attempt(db, hostnames, config, now, hostname).await?;
    Ok(attempts.iter().map(|attempt| attempt.reach).max().unwrap_or(Reach::Unknown))
}

/// Requests a file of our own from every address of `hostname`. Returns at least one attempt.
async fn attempt(
    db: &PgPool,
    hostnames: &Hostnames,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<Vec<Attempt>, sqlx::Error> {
    let one = |way, reach| Ok(vec![Attempt { way, reach }]);
    let addresses = match hostnames.addresses(hostname).await {
        Ok(addresses) => addresses,
        Err(LookError::ServFail { .. }) => {
            let sentence = format!("{hostname} cannot be resolved: it answered SERVFAIL.");
            return one(Way::Closed(sentence), Reach::Unknown);
        }
        Err(error) => {
            return one(Way::Untried(format!("DNS could not be asked about {hostname}: {error}.")), Reach::Unknown);
        }
    };
    if addresses.is_empty() {
        return one(Way::Closed(format!("{hostname} has no address in DNS.")), Reach::Elsewhere);
    }
    let (token, answer) = (secret(), secret());
    let kind = ChallengeKind::Http01;
    let expires_at = now + KEPT;
    let challenge = Challenge { kind, name: hostname.as_str(), token: &token, answer: &answer, expires_at };
    challenges::put(db, &challenge).await?;
    let untried = addresses.len().saturating_sub(ADDRESSES);
    let (port, allows_private) = (config.acme.probe_http_port, config.limits.probe_allow_private);
    let tries = addresses.into_iter().take(ADDRESSES).map(|address| {
        let (token, answer) = (&token, answer.as_bytes());
        async move {
            if !allows_private && !is_global(address) {
                return Attempt::private(hostname, address);
            }
            let at = SocketAddr::new(address, port);
            match tokio::time::timeout(TRY, ask(at, hostname, token)).await {
                Ok(Ok(came)) => came.judge(hostname, address, answer),
                Ok(Err(error)) => refused(hostname, at, &error),
                Err(_) => Attempt::silent(hostname, at),
            }
        }
    });
    let mut attempts = join_all(tries).await;
    challenges::remove(db, kind, hostname.as_str(), &token).await?;
    if untried > 0 {
        let sentence = format!("{hostname} has more than {ADDRESSES} addresses, and {untried} of them were not tried.");
        attempts.push(Attempt { way: Way::Untried(sentence), reach: Reach::Unknown });
    }
    Ok(attempts)
}

impl Attempt {
    fn private(hostname: &Hostname, address: IpAddr) -> Self {
        let way = Way::Closed(format!(
            "{hostname} leads to {address}, which the world cannot reach: its record needs a public address."
        ));
        Self { way, reach: Reach::Elsewhere }
    }

    fn silent(hostname: &Hostname, at: SocketAddr) -> Self {
        let way = Way::Closed(format!(
            "{hostname} did not answer over plain HTTP at {at} within {} seconds: let connections to port {} through \
             there.",
            TRY.as_secs(),
            at.port()
        ));
        Self { way, reach: Reach::Unknown }
    }
}

fn together(ways: Vec<Way>, is_local: bool) -> Way {
    let is_open = ways.contains(&Way::Open);
    // A local machine need not listen on both loopback addresses.
    let closed = ways.iter().find(|way| matches!(way, Way::Closed(_))).filter(|_| !(is_local && is_open));
    match closed {
        Some(closed) => closed.clone(),
        None if is_open => Way::Open,
        None => ways.into_iter().next().unwrap_or(Way::Open),
    }
}

struct Came {
    status: http::StatusCode,
    location: Option<String>,
    body: Vec<u8>,
}

impl Came {
    fn judge(&self, hostname: &Hostname, address: IpAddr, answer: &[u8]) -> Attempt {
        if self.body.trim_ascii_end() == answer {
            return Attempt { way: Way::Open, reach: Reach::Here };
        }
        let to = self.location.as_deref().and_then(|location| Url::parse(location).ok());
        let is_same = to.is_some_and(|to| to.scheme() == "https" && to.host_str() == Some(hostname.as_str()));
        let reach = if self.status.is_redirection() && is_same {
            Reach::Https
        } else if self.status.is_server_error() {
            // A proxy that cannot reach us responds like this.
            Reach::Unknown
        } else {
            Reach::Elsewhere
        };
        Attempt { way: Way::Closed(self.describe(hostname, address)), reach }
    }

    fn describe(&self, hostname: &Hostname, address: IpAddr) -> String {
        let what = match &self.location {
            Some(location) => format!("{} to {location}", self.status.as_u16()),
            None if self.status.is_success() => "another page".to_owned(),
            None => self.status.to_string(),
        };
        format!(
            "http://{hostname}/.well-known/acme-challenge/ answers {what} at {address} instead of our own file: \
             whoever runs that server lets these addresses through to this platform, without a redirect."
        )
    }
}

async fn ask(at: SocketAddr, hostname: &Hostname, token: &str) -> Result<Came, reqwest::Error> {
    // Use a separate client: it keeps no connection, and needs no TLS setup for plain HTTP.
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .tls_certs_only([])
        .build()?;
    let request = client.get(format!("http://{at}/.well-known/acme-challenge/{token}"));
    let answer = request.header(header::HOST, hostname.as_str()).header(header::USER_AGENT, "svc").send().await?;
    let shown = |value: &header::HeaderValue| -> String { line::visible(value.to_str().unwrap_or_default(), SHOWN) };
    let location = answer.headers().get(header::LOCATION).map(shown);
    let (status, mut chunks, mut body) = (answer.status(), answer.bytes_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
        if body.len() > BODY_BYTES {
            break;
        }
    }
    Ok(Came { status, location, body })
}

fn refused(hostname: &Hostname, at: SocketAddr, error: &reqwest::Error) -> Attempt {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
    let mut kinds = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    // This machine may lack IPv6, which others have.
    if kinds.any(|kind| matches!(kind, io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable)) {
        let way = Way::Untried(format!("There is no way to {at} from here, which says nothing about {hostname}."));
        return Attempt { way, reach: Reach::Unknown };
    }
    let (what, reach) =
        if error.is_connect() { ("cannot be connected to", Reach::Elsewhere) } else { ("breaks off", Reach::Unknown) };
    let port = at.port();
    let sentence = format!("{hostname} {what} over plain HTTP at {at}: let connections to port {port} through there.");
    Attempt { way: Way::Closed(sentence), reach }
}

fn secret() -> String {
    let bytes: [u8; SECRET_BYTES] = rand::rng().random();
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_can_be_tried_has_to_answer() {
        let closed = || Way::Closed("it is closed".into());
        let untried = || Way::Untried("there is no way".into());
        assert_eq!(together(vec![Way::Open, Way::Open], false), Way::Open);
        assert_eq!(together(vec![Way::Open, closed()], false), closed());
        assert_eq!(together(vec![untried(), Way::Open], false), Way::Open);
        assert_eq!(together(vec![untried(), closed()], false), closed());
        assert_eq!(together(vec![untried()], false), untried());
        assert_eq!(together(vec![Way::Open, closed()], true), Way::Open);
        assert_eq!(together(vec![closed(), closed()], true), closed());
    }

    #[test]
    fn what_came_tells_where_visitors_get_to() {
        let hostname: Hostname = "www.shop.example".parse().unwrap();
        let reach = |status: u16, location: Option<&str>, body: &str| {
            let status = http::StatusCode::from_u16(status).unwrap();
            let came = Came { status, location: location.map(str::to_owned), body: body.as_bytes().to_vec() };
            came.judge(&hostname, "192.0.2.1".parse().unwrap(), b"our file").reach
        };
        assert_eq!(reach(200, None, "our file\n"), Reach::Here);
        assert_eq!(reach(301, Some("https://www.shop.example/.well-known/x"), ""), Reach::Https);
        for elsewhere in
            ["https://other.example/", "http://www.shop.example/", "/login", "https://www.shop.example.evil/"]
        {
            assert_eq!(reach(302, Some(elsewhere), ""), Reach::Elsewhere, "{elsewhere}");
        }
        assert_eq!(reach(502, None, ""), Reach::Unknown);
        assert_eq!(reach(404, None, "no such page"), Reach::Elsewhere);
        assert!(Reach::Here > Reach::Unknown && Reach::Unknown > Reach::Https && Reach::Https > Reach::Elsewhere);
    }

    #[test]
    fn what_came_instead_is_said() {
        let hostname: Hostname = "www.shop.example".parse().unwrap();
        let said = |status: u16, location: Option<&str>| {
            let came = Came {
                status: http::StatusCode::from_u16(status).unwrap(),
                location: location.map(str::to_owned),
                body: Vec::new(),
            };
            came.describe(&hostname, "192.0.2.1".parse().unwrap())
        };
        assert!(said(301, Some("https://old.example/")).contains("301 to https://old.example/ at 192.0.2.1"));
        assert!(said(404, None).contains("404 Not Found"));
        assert!(said(200, None).contains("another page"));
    }
}
