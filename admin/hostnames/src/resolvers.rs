//! Queries one resolver at a time, over UDP and then TCP, without a cache.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::Context as _;
use certs::dns01::answers_unchecked;
use domain::line;
use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RData, Record, RecordType},
    },
    system_conf::read_system_conf,
};

use super::caa::{CaaRecord, CaaSet};

/// The timeout of a query, including all attempts.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1_400);
const DNS_PORT: u16 = 53;
const RECORDS: usize = 64;
const TEXT: usize = 1_024;

/// An error of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// The name's servers fail, or its signatures are invalid.
    #[error("it answered SERVFAIL")]
    ServFail {
        /// Whether the query succeeds with signature checks (DNSSEC) disabled.
        is_bogus: bool,
    },
    /// The resolver itself did not respond, or refused. This says nothing about the name.
    #[error("{0}")]
    Away(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AddressAnswer {
    /// The alias targets of the name, nearest first.
    pub(super) aliases: Vec<String>,
    pub(super) addresses: Vec<IpAddr>,
}

#[derive(Clone)]
pub(super) struct DnsResolver {
    label: String,
    at: SocketAddr,
    client: TokioResolver,
}

/// Returns the resolvers of this machine, at most `most`; none if its settings cannot be read.
pub(super) fn system_resolvers(most: usize) -> anyhow::Result<Vec<DnsResolver>> {
    let servers = match read_system_conf() {
        Ok((config, _)) => config.into_parts().2,
        Err(error) => {
            tracing::warn!("domains cannot be looked up: acme.resolvers is empty, and resolv.conf unreadable: {error}");
            Vec::new()
        }
    };
    let resolver = |server: NameServerConfig| {
        let port = server.connections.first().map_or(DNS_PORT, |connection| connection.port);
        DnsResolver::new(server.ip.to_string(), SocketAddr::new(server.ip, port), server)
    };
    servers.into_iter().take(most).map(resolver).collect()
}

impl DnsResolver {
    pub(super) fn parse(address: &str) -> anyhow::Result<Self> {
        let at: SocketAddr =
            address.parse().with_context(|| format!("`{address}` is not an address and port like 9.9.9.9:53"))?;
        let mut server = NameServerConfig::udp_and_tcp(at.ip());
        for connection in &mut server.connections {
            connection.port = at.port();
        }
        let label = if at.port() == DNS_PORT { at.ip().to_string() } else { at.to_string() };
        Self::new(label, at, server)
    }

    fn new(label: String, at: SocketAddr, server: NameServerConfig) -> anyhow::Result<Self> {
        let config = ResolverConfig::from_name_servers(vec![server]);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options: &mut ResolverOpts = builder.options_mut();
        // A person who has just changed a record wants its present value.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = ATTEMPT_TIMEOUT;
        options.attempts = 1;
        options.try_tcp_on_error = true;
        Ok(Self { label, at, client: builder.build()? })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) async fn ipv4(&self, name: &str) -> Result<AddressAnswer, LookError> {
        Ok(addresses(&self.query(name, RecordType::A).await?))
    }

    pub(super) async fn ipv6(&self, name: &str) -> Result<AddressAnswer, LookError> {
        Ok(addresses(&self.query(name, RecordType::AAAA).await?))
    }

    /// Returns the addresses of a name in both families; fails if both queries fail.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookError> {
        match tokio::join!(self.ipv4(name), self.ipv6(name)) {
            (Err(error), Err(_)) => Err(error),
            (ipv4, ipv6) => Ok([ipv4, ipv6].into_iter().flatten().flat_map(|answer| answer.addresses).collect()),
        }
    }

    pub(super) async fn cname(&self, name: &str) -> Result<Option<String>, LookError> {
        let records = self.query(name, RecordType::CNAME).await?;
        Ok(addresses(&records).aliases.into_iter().next())
    }

    pub(super) async fn texts(&self, name: &str) -> Result<Vec<String>, LookError> {
        let records = self.query(name, RecordType::TXT).await?;
        let text = |record: &Record| match &record.data {
            RData::TXT(txt) => Some(readable(&txt.txt_data.concat())),
            _ => None,
        };
        Ok(records.iter().filter_map(text).collect())
    }

    /// Returns the CAA records of a name, or of its alias target; `None` if there are none.
    pub(super) async fn caa(&self, name: &str) -> Result<Option<CaaSet>, LookError> {
        let records = self.query(name, RecordType::CAA).await?;
        let caa = |record: &Record| match &record.data {
            RData::CAA(caa) => Some(CaaRecord {
                is_critical: caa.issuer_critical,
                tag: caa.tag.to_ascii_lowercase(),
                value: readable(&caa.value),
            }),
            _ => None,
        };
        let owner = records.iter().find(|record| caa(record).is_some()).map(|record| readable_name(&record.name));
        Ok(owner.map(|at| CaaSet { at, records: records.iter().filter_map(caa).collect() }))
    }

    async fn query(&self, name: &str, kind: RecordType) -> Result<Vec<Record>, LookError> {
        let name = Name::from_ascii(format!("{}.", name.trim_end_matches('.')))
            .map_err(|error| LookError::Away(format!("the name cannot be asked for: {error}")))?;
        let answer = tokio::time::timeout(QUERY_TIMEOUT, self.client.lookup(name.clone(), kind)).await;
        match answer {
            Ok(Ok(answer)) => Ok(answer.answers().iter().take(RECORDS).cloned().collect()),
            Ok(Err(error)) => match error {
                NetError::Dns(DnsError::NoRecordsFound(_)) => Ok(Vec::new()),
                NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail)) => {
                    let unchecked = tokio::time::timeout(QUERY_TIMEOUT, answers_unchecked(self.at, &name, kind)).await;
                    Err(LookError::ServFail { is_bogus: unchecked.unwrap_or(false) })
                }
                NetError::Dns(DnsError::ResponseCode(code)) => Err(LookError::Away(format!("it answered {code}"))),
                NetError::Timeout => Err(no_answer()),
                NetError::Io(_) | NetError::NoConnections => Err(LookError::Away("it cannot be reached".to_owned())),
                other => Err(LookError::Away(other.to_string())),
            },
            Err(_) => Err(no_answer()),
        }
    }
}

fn no_answer() -> LookError {
    LookError::Away(format!("it did not answer within {} seconds", QUERY_TIMEOUT.as_secs()))
}

fn addresses(records: &[Record]) -> AddressAnswer {
    let mut answer = AddressAnswer::default();
    for record in records {
        match &record.data {
            RData::A(address) => answer.addresses.push(address.0.into()),
            RData::AAAA(address) => answer.addresses.push(address.0.into()),
            RData::CNAME(alias) => {
                answer.aliases.push(readable_name(&alias.0));
            }
            _ => {}
        }
    }
    answer
}

fn readable_name(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_ascii_lowercase()
}

/// Returns bytes from DNS as text without invisible characters, cut to a length that can be shown.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    line::strip_hidden(&text, TEXT)
}
