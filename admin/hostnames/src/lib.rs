//! The DNS records of a custom domain, and what they should be: queries each resolver, judges the answers, and names
//! the record to set, in words for people.
//!
//! Start with [`HostnameResolver::lookup`]. `resolvers.rs` does the queries; judging (`look.rs`, `caa.rs`) and advice are pure
//! functions of the answers. Not here: connecting to a domain ([`crate::probe`]), and consequences of a verdict.

pub mod advice;
pub mod authorities;
pub mod caa;
pub mod look;
pub mod probe;
mod proxies;
pub mod resolvers;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use config::{Config, acme::CertificateIssuer};
use domain::{Hostname, hostname::is_within};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use url::Url;

use self::{
    caa::CaaSet,
    resolvers::{AddressAnswer, DnsResolver},
};
pub use self::{
    look::{DnsDestination, DnsLookup, HostnameVerdict, HostnameView},
    resolvers::LookError,
};

/// The most resolvers that are queried about a name. Each receives a dozen queries.
const MAX_RESOLVERS: usize = 8;
/// The most labels of a hostname at which CAA records are queried, starting with the full name. Real names have half a
/// dozen.
const CAA_LABELS: usize = 10;

/// The platform's addresses, to which domains should lead.
#[derive(Debug, Clone)]
pub struct PlatformAddresses {
    /// The target for CNAME records.
    pub target: String,
    /// The addresses for names that cannot have a CNAME.
    pub apex_addresses: Vec<IpAddr>,
}

impl PlatformAddresses {
    /// Returns whether the platform is on its visitors' own machine.
    pub fn is_local(&self) -> bool {
        is_within(&self.target, "localhost")
    }
}

/// Looks up hostnames. Callers bound the number of concurrent lookups: per account (`bounds::domain_look`), and by the
/// number of certificate orders.
#[derive(Clone)]
pub struct HostnameResolver {
    shared: Arc<SharedResolvers>,
}

struct SharedResolvers {
    resolvers: Vec<DnsResolver>,
    platform: Arc<PlatformAddresses>,
    /// The authority's known identities in CAA records; `None` if no authority issues certificates here.
    identities: Option<Vec<String>>,
    /// The validation methods that we offer, to which CAA records may be limited.
    methods: Arc<[String]>,
}

impl HostnameResolver {
    /// Creates a client of the resolvers in `acme.resolvers`, or of the machine's.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let acme = &config.acme;
        let resolvers = if acme.resolvers.is_empty() {
            resolvers::system_resolvers(MAX_RESOLVERS)
        } else {
            ensure!(acme.resolvers.len() <= MAX_RESOLVERS, "acme.resolvers has more than {MAX_RESOLVERS} entries");
            acme.resolvers.iter().map(|address| DnsResolver::parse(address)).collect::<Result<Vec<_>, _>>()
        };
        let identities =
            (acme.issuer == CertificateIssuer::Acme).then(|| known_identities(acme.directory_url.as_str()));
        let methods = acme.challenges.iter().map(|challenge| caa::validation_method(*challenge).to_owned()).collect();
        let shared = SharedResolvers {
            resolvers: resolvers.context("acme.resolvers")?,
            platform: Arc::new(PlatformAddresses {
                target: config.site.addresses().dns_target().to_owned(),
                apex_addresses: config.site.apex_addresses.clone(),
            }),
            identities,
            methods,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the destination of domains.
    pub fn platform(&self) -> &PlatformAddresses {
        &self.shared.platform
    }

    /// Queries every resolver about `hostname`. CAA records are judged by the known identities of the configured
    /// authority.
    pub async fn lookup(&self, hostname: &Hostname) -> DnsLookup {
        self.look_for(hostname, self.shared.identities.as_deref()).await
    }

    /// Queries every resolver about `hostname`. CAA records are judged by `caa_identities`, the authority's own list.
    pub async fn lookup_with_identities(&self, hostname: &Hostname, caa_identities: &[String]) -> DnsLookup {
        self.look_for(hostname, Some(caa_identities)).await
    }

    async fn look_for(&self, hostname: &Hostname, identities: Option<&[String]>) -> DnsLookup {
        let seen = if is_local(hostname) {
            Vec::new()
        } else {
            join_all(self.shared.resolvers.iter().map(|resolver| self.query_resolver(resolver, hostname))).await
        };
        DnsLookup {
            hostname: hostname.clone(),
            platform: self.shared.platform.clone(),
            seen,
            identities: identities.map(<[String]>::to_vec),
            account: None,
            methods: self.shared.methods.clone(),
        }
    }

    async fn query_resolver(&self, resolver: &DnsResolver, hostname: &Hostname) -> HostnameView {
        let name = hostname.as_str();
        let (ipv4, ipv6, alias, ours, caa) = tokio::join!(
            resolver.ipv4(name),
            resolver.ipv6(name),
            resolver.cname(name),
            self.platform_addresses(resolver),
            find_caa(resolver, name),
        );
        let chain =
            |answer: &Result<AddressAnswer, LookError>| answer.as_ref().ok().map(|answer| answer.aliases.clone());
        // An answer without addresses does not include the aliases on the way to them.
        let aliases = [chain(&ipv4), chain(&ipv6), alias.ok().flatten().map(|alias| vec![alias])];
        HostnameView {
            resolver: resolver.label().to_owned(),
            aliases: aliases.into_iter().flatten().find(|chain| !chain.is_empty()).unwrap_or_default(),
            ipv4: ipv4.map(|answer| answer.addresses),
            ipv6: ipv6.map(|answer| answer.addresses),
            ours,
            caa,
        }
    }

    async fn platform_addresses(&self, resolver: &DnsResolver) -> Result<Vec<IpAddr>, LookError> {
        let target = &self.shared.platform.target;
        let mut ours = self.shared.platform.apex_addresses.clone();
        if self.shared.platform.is_local() {
            ours.extend(loopback());
            return Ok(ours);
        }
        match resolver.addresses(target).await {
            Err(error) if ours.is_empty() => return Err(error),
            addresses => ours.extend(addresses.unwrap_or_default()),
        }
        Ok(ours)
    }

    /// Returns the TXT records at `name` from all resolvers that answer: one of them may still have cached that there
    /// are none.
    pub async fn texts(&self, name: &str) -> Result<Vec<String>, LookError> {
        let answers = join_all(self.shared.resolvers.iter().map(|resolver| resolver.texts(name))).await;
        let (said, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        match failed.into_iter().find_map(Result::err) {
            Some(error) if said.is_empty() => Err(error),
            _ => Ok(said.into_iter().flatten().flatten().collect()),
        }
    }

    /// Returns the alias target of `name`, from the first resolver that answers.
    pub async fn cname(&self, name: &str) -> Result<Option<String>, LookError> {
        self.first(|resolver| resolver.cname(name).boxed()).await
    }

    /// Returns the addresses that visitors of `hostname` connect to, from the first resolver that answers.
    pub async fn addresses(&self, hostname: &Hostname) -> Result<Vec<IpAddr>, LookError> {
        if is_local(hostname) {
            return Ok(loopback().to_vec());
        }
        let name = hostname.as_str();
        self.first(|resolver| resolver.addresses(name).boxed()).await
    }

    /// Returns whether `_acme-challenge.<hostname>` is an alias of `to`, so that we can answer `dns-01` for it.
    pub async fn is_delegated(&self, hostname: &Hostname, to: &str) -> bool {
        let alias = self.cname(&format!("_acme-challenge.{hostname}")).await.ok().flatten();
        alias.is_some_and(|alias| alias.eq_ignore_ascii_case(to.trim_end_matches('.')))
    }

    async fn first<'a, T>(
        &'a self,
        ask: impl Fn(&'a DnsResolver) -> BoxFuture<'a, Result<T, LookError>>,
    ) -> Result<T, LookError> {
        let mut last = LookError::Away("no resolver is known".to_owned());
        // Query concurrently: a silent resolver must not use up the caller's time.
        let mut asked: FuturesUnordered<_> = self.shared.resolvers.iter().map(ask).collect();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Returns the CAA identities of the authority with this directory, as far as they are known.
pub fn known_identities(directory_url: &str) -> Vec<String> {
    let url = Url::parse(directory_url).ok();
    let known = caa::known_identities(url.as_ref().and_then(Url::host_str).unwrap_or_default());
    known.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the CAA records that apply to `name`: those of the nearest name that has any, starting with itself and going
/// up (RFC 8659, 3).
async fn find_caa(resolver: &DnsResolver, name: &str) -> Result<Option<CaaSet>, LookError> {
    let ancestors = std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, parent)| parent));
    let names: Vec<&str> = ancestors.take(CAA_LABELS).collect();
    let answers = join_all(names.iter().map(|at| resolver.caa(at))).await;
    for answer in answers {
        if let Some(set) = answer? {
            return Ok(Some(set));
        }
    }
    Ok(None)
}

/// Returns whether a name is under `localhost`, which is each machine's own and not looked up (RFC 6761, 6.3).
pub fn is_local(hostname: &Hostname) -> bool {
    is_within(hostname.as_str(), "localhost")
}

fn loopback() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}
