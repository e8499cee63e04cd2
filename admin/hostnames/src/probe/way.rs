//! Tests the path over plain HTTP that a certificate authority takes, with a file of our own served under the public
//! name.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use config::Config;
use db::certificates::challenges::{self, AcmeChallenge, ChallengeKind};
use domain::{Hostname, Timestamp, line, networks::is_global};
use futures_util::{StreamExt as _, future::join_all};
use http::header;
use rand::RngExt as _;
use sqlx::PgPool;
use url::Url;

use crate::{HostnameResolver, LookError, is_local};

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// The lifetime of a test file that nothing has removed.
const KEPT: Duration = Duration::from_mins(2);
const ADDRESSES: usize = 8;
/// The most bytes of a response that are read: our file is shorter.
const BODY_BYTES: usize = 1_024;
const SECRET_BYTES: usize = 22;
const SHOWN: usize = 120;

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathOutcome {
    /// Every address served our file.
    Open,
    /// An address served something else, or nothing. The sentence is for the domain's owner.
    Closed(String),
    /// The test was not possible, for this reason, which says nothing about the domain.
    Untried(String),
}

/// Where visitors of a hostname arrive, as shown by our own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VisitorDestination {
    /// Elsewhere: no address serves our file.
    Elsewhere,
    /// At HTTPS on the same hostname; a proxy there may forward requests to us.
    Https,
    /// Unknown: an address is slow, fails, or could not be tried.
    Unknown,
    /// Here, over at least one address.
    Here,
}

struct AddressAttempt {
    way: PathOutcome,
    reach: VisitorDestination,
}

/// Tests the path to `hostname`; any edge may respond.
pub async fn test_path(
    db: &PgPool,
    hostnames: &HostnameResolver,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<PathOutcome, sqlx::Error> {
    let attempts = attempt(db, hostnames, config, now, hostname).await?;
    Ok(combine_outcomes(attempts.into_iter().map(|attempt| attempt.way).collect(), is_local(hostname)))
}

/// Finds out where visitors of `hostname` arrive. The best result of all addresses counts.
pub async fn find_destination(
    db: &PgPool,
    hostnames: &HostnameResolver,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<VisitorDestination, sqlx::Error> {
    let attempts = attempt(db, hostnames, config, now, hostname).await?;
    Ok(attempts.iter().map(|attempt| attempt.reach).max().unwrap_or(VisitorDestination::Unknown))
}

/// Requests a file of our own from every address of `hostname`. Returns at least one attempt.
async fn attempt(
    db: &PgPool,
    hostnames: &HostnameResolver,
    config: &Config,
    now: Timestamp,
    hostname: &Hostname,
) -> Result<Vec<AddressAttempt>, sqlx::Error> {
    let one = |way, reach| Ok(vec![AddressAttempt { way, reach }]);
    let addresses = match hostnames.addresses(hostname).await {
        Ok(addresses) => addresses,
        Err(LookError::ServFail { .. }) => {
            let sentence = format!("{hostname} cannot be resolved: it answered SERVFAIL.");
            return one(PathOutcome::Closed(sentence), VisitorDestination::Unknown);
        }
        Err(error) => {
            return one(
                PathOutcome::Untried(format!("DNS could not be asked about {hostname}: {error}.")),
                VisitorDestination::Unknown,
            );
        }
    };
    if addresses.is_empty() {
        return one(PathOutcome::Closed(format!("{hostname} has no address in DNS.")), VisitorDestination::Elsewhere);
    }
    let (token, answer) = (secret(), secret());
    let kind = ChallengeKind::Http01;
    let expires_at = now + KEPT;
    let challenge = AcmeChallenge { kind, name: hostname.as_str(), token: &token, answer: &answer, expires_at };
    challenges::put(db, &challenge).await?;
    let untried = addresses.len().saturating_sub(ADDRESSES);
    let (port, allows_private) = (config.acme.probe_http_port, config.limits.probe_allow_private);
    let tries = addresses.into_iter().take(ADDRESSES).map(|address| {
        let (token, answer) = (&token, answer.as_bytes());
        async move {
            if !allows_private && !is_global(address) {
                return AddressAttempt::private(hostname, address);
            }
            let at = SocketAddr::new(address, port);
            match tokio::time::timeout(ATTEMPT_TIMEOUT, request_file(at, hostname, token)).await {
                Ok(Ok(came)) => came.judge(hostname, address, answer),
                Ok(Err(error)) => refused(hostname, at, &error),
                Err(_) => AddressAttempt::silent(hostname, at),
            }
        }
    });
    let mut attempts = join_all(tries).await;
    challenges::remove(db, kind, hostname.as_str(), &token).await?;
    if untried > 0 {
        let sentence = format!("{hostname} has more than {ADDRESSES} addresses, and {untried} of them were not tried.");
        attempts.push(AddressAttempt { way: PathOutcome::Untried(sentence), reach: VisitorDestination::Unknown });
    }
    Ok(attempts)
}

impl AddressAttempt {
    fn private(hostname: &Hostname, address: IpAddr) -> Self {
        let way = PathOutcome::Closed(format!(
            "{hostname} leads to {address}, which the world cannot reach: its record needs a public address."
        ));
        Self { way, reach: VisitorDestination::Elsewhere }
    }

    fn silent(hostname: &Hostname, at: SocketAddr) -> Self {
        let way = PathOutcome::Closed(format!(
            "{hostname} did not answer over plain HTTP at {at} within {} seconds: let connections to port {} through \
             there.",
            ATTEMPT_TIMEOUT.as_secs(),
            at.port()
        ));
        Self { way, reach: VisitorDestination::Unknown }
    }
}

fn combine_outcomes(ways: Vec<PathOutcome>, is_local: bool) -> PathOutcome {
    let is_open = ways.contains(&PathOutcome::Open);
    // A local machine need not listen on both loopback addresses.
    let closed = ways.iter().find(|way| matches!(way, PathOutcome::Closed(_))).filter(|_| !(is_local && is_open));
    match closed {
        Some(closed) => closed.clone(),
        None if is_open => PathOutcome::Open,
        None => ways.into_iter().next().unwrap_or(PathOutcome::Open),
    }
}

struct ProbeResponse {
    status: http::StatusCode,
    location: Option<String>,
    body: Vec<u8>,
}

impl ProbeResponse {
    fn judge(&self, hostname: &Hostname, address: IpAddr, answer: &[u8]) -> AddressAttempt {
        if self.body.trim_ascii_end() == answer {
            return AddressAttempt { way: PathOutcome::Open, reach: VisitorDestination::Here };
        }
        let to = self.location.as_deref().and_then(|location| Url::parse(location).ok());
        let is_same = to.is_some_and(|to| to.scheme() == "https" && to.host_str() == Some(hostname.as_str()));
        let reach = if self.status.is_redirection() && is_same {
            VisitorDestination::Https
        } else if self.status.is_server_error() {
            // A proxy that cannot reach us responds like this.
            VisitorDestination::Unknown
        } else {
            VisitorDestination::Elsewhere
        };
        AddressAttempt { way: PathOutcome::Closed(self.describe(hostname, address)), reach }
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

async fn request_file(at: SocketAddr, hostname: &Hostname, token: &str) -> Result<ProbeResponse, reqwest::Error> {
    // Use a separate client: it keeps no connection, and needs no TLS setup for plain HTTP.
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .tls_certs_only([])
        .build()?;
    let request = client.get(format!("http://{at}/.well-known/acme-challenge/{token}"));
    let answer = request.header(header::HOST, hostname.as_str()).header(header::USER_AGENT, "svc").send().await?;
    let shown =
        |value: &header::HeaderValue| -> String { line::strip_hidden(value.to_str().unwrap_or_default(), SHOWN) };
    let location = answer.headers().get(header::LOCATION).map(shown);
    let (status, mut chunks, mut body) = (answer.status(), answer.bytes_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
        if body.len() > BODY_BYTES {
            break;
        }
    }
    Ok(ProbeResponse { status, location, body })
}

fn refused(hostname: &Hostname, at: SocketAddr, error: &reqwest::Error) -> AddressAttempt {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
    let mut kinds = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    // This machine may lack IPv6, which others have.
    if kinds.any(|kind| matches!(kind, io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable)) {
        let way =
            PathOutcome::Untried(format!("There is no way to {at} from here, which says nothing about {hostname}."));
        return AddressAttempt { way, reach: VisitorDestination::Unknown };
    }
    let (what, reach) = if error.is_connect() {
        ("cannot be connected to", VisitorDestination::Elsewhere)
    } else {
        ("breaks off", VisitorDestination::Unknown)
    };
    let port = at.port();
    let sentence = format!("{hostname} {what} over plain HTTP at {at}: let connections to port {port} through there.");
    AddressAttempt { way: PathOutcome::Closed(sentence), reach }
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
        let closed = || PathOutcome::Closed("it is closed".into());
        let untried = || PathOutcome::Untried("there is no way".into());
        assert_eq!(combine_outcomes(vec![PathOutcome::Open, PathOutcome::Open], false), PathOutcome::Open);
        assert_eq!(combine_outcomes(vec![PathOutcome::Open, closed()], false), closed());
        assert_eq!(combine_outcomes(vec![untried(), PathOutcome::Open], false), PathOutcome::Open);
        assert_eq!(combine_outcomes(vec![untried(), closed()], false), closed());
        assert_eq!(combine_outcomes(vec![untried()], false), untried());
        assert_eq!(combine_outcomes(vec![PathOutcome::Open, closed()], true), PathOutcome::Open);
        assert_eq!(combine_outcomes(vec![closed(), closed()], true), closed());
    }

    #[test]
    fn what_came_tells_where_visitors_get_to() {
        let hostname: Hostname = "www.shop.example".parse().unwrap();
        let reach = |status: u16, location: Option<&str>, body: &str| {
            let status = http::StatusCode::from_u16(status).unwrap();
            let came = ProbeResponse { status, location: location.map(str::to_owned), body: body.as_bytes().to_vec() };
            came.judge(&hostname, "192.0.2.1".parse().unwrap(), b"our file").reach
        };
        assert_eq!(reach(200, None, "our file\n"), VisitorDestination::Here);
        assert_eq!(reach(301, Some("https://www.shop.example/.well-known/x"), ""), VisitorDestination::Https);
        for elsewhere in
            ["https://other.example/", "http://www.shop.example/", "/login", "https://www.shop.example.evil/"]
        {
            assert_eq!(reach(302, Some(elsewhere), ""), VisitorDestination::Elsewhere, "{elsewhere}");
        }
        assert_eq!(reach(502, None, ""), VisitorDestination::Unknown);
        assert_eq!(reach(404, None, "no such page"), VisitorDestination::Elsewhere);
        assert!(
            VisitorDestination::Here > VisitorDestination::Unknown
                && VisitorDestination::Unknown > VisitorDestination::Https
                && VisitorDestination::Https > VisitorDestination::Elsewhere
        );
    }

    #[test]
    fn what_came_instead_is_said() {
        let hostname: Hostname = "www.shop.example".parse().unwrap();
        let said = |status: u16, location: Option<&str>| {
            let came = ProbeResponse {
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
