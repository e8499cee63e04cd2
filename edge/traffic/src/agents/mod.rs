//! Classifies clients by their requests: programs that name themselves, false browsers, and possible browsers.
//!
//! [`text`] reads a `User-Agent`, once for each distinct one ([`memo`]); [`fields`] looks for contradictions to it. The
//! later behavior of a possible browser is judged in [`people`](super::people). A name is confirmed by an address that
//! its operator publishes ([`networks`]) or by a signature ([`signatures`]); both are read from Postgres, where admin
//! maintains them. Start with [`AgentRegistry::judge`].

mod fields;
mod memo;
mod networks;
mod signatures;
#[cfg(test)]
mod tests;
mod text;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use domain::{
    Clock,
    traffic::{agents::KnownAgent, visitors::ClassEvidence},
};
use edge_metrics::postgres_failed;
use http::{HeaderMap, Method, Uri};
use sqlx::PgPool;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub(super) use self::fields::ClientFields;
use self::{
    memo::ParsedAgent,
    networks::AgentNetworkMap,
    signatures::{AgentKeys, VerificationLimit},
};

/// The known agents with their networks and keys. There is one per program.
pub struct AgentRegistry {
    clock: Clock,
    networks: ArcSwap<AgentNetworkMap>,
    keys: ArcSwap<AgentKeys>,
    verifications: VerificationLimit,
}

/// The parts of a request from which its client is classified.
pub struct ClientClaim<'r> {
    /// The method, on which it depends what a browser sends.
    pub method: &'r Method,
    /// The target of the request, as sent: a signature may cover it.
    pub uri: &'r Uri,
    /// The host, in lower case and without a port.
    pub host: &'r str,
    /// The headers, which name the client and may contradict what it claims to be.
    pub headers: &'r HeaderMap,
    /// The client's address, as far as proxies are trusted.
    pub address: IpAddr,
    /// Whether the client sees HTTPS.
    pub tls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientVerdict {
    /// A program that names itself.
    Agent {
        agent: &'static KnownAgent,
        /// The reason to trust the name.
        evidence: ClassEvidence,
    },
    /// A program that does not identify itself, or that claims to be a browser while its fields contradict it.
    Automation,
    /// A client that may be a browser: nothing contradicts it.
    Browser,
}

impl AgentRegistry {
    /// Creates the built-in agents and networks, without keys, with the time of `clock`.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            networks: ArcSwap::from_pointee(AgentNetworkMap::from_sources(&[])),
            keys: ArcSwap::default(),
            verifications: VerificationLimit::default(),
        }
    }

    /// Keeps networks and keys up to date with `db` until `stop`. If they cannot be read, the last ones stay.
    pub async fn follow(&'static self, db: PgPool, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let read = stop.run_until_cancelled(timeout(limits::AGENTS_WAIT, self.read(&db))).await;
            if let Some(read) = read
                && let Err(error) = read.unwrap_or(Err(sqlx::Error::PoolTimedOut))
            {
                postgres_failed("agents", &error);
            }
            let _ = stop.run_until_cancelled(sleep(limits::AGENTS_EVERY)).await;
        }
    }

    async fn read(&self, db: &PgPool) -> Result<(), sqlx::Error> {
        let networks = db::stats::agents::networks(db, limits::AGENT_SOURCES).await?;
        let keys = db::stats::agents::keys(db, self.clock.now(), limits::AGENT_KEYS).await?;
        self.networks.store(Arc::new(AgentNetworkMap::from_sources(&networks)));
        self.keys.store(Arc::new(AgentKeys::from_rows(keys)));
        Ok(())
    }

    /// Classifies the client that sent `request`, with these of its fields.
    pub(crate) fn judge(&self, request: &ClientClaim<'_>, fields: &ClientFields<'_>) -> ClientVerdict {
        let said = fields.user_agent.map(|text| memo::read(text.as_bytes()));
        if fields.is_signed
            && let Some(signer) = self.keys.load().signer(request, self.clock.now(), &self.verifications)
        {
            // The key belongs to the operator; the name tells which of its programs it is.
            let agent = match said {
                Some(ParsedAgent::Agent(named)) if named.operator == signer.operator => named,
                _ => signer,
            };
            return ClientVerdict::Agent { agent, evidence: ClassEvidence::Signature };
        }
        match said {
            None => ClientVerdict::Automation,
            Some(ParsedAgent::Agent(agent)) => {
                let holds = |source| self.networks.load().contains(source, request.address);
                let evidence =
                    if agent.networks.is_some_and(holds) { ClassEvidence::Network } else { ClassEvidence::Name };
                ClientVerdict::Agent { agent, evidence }
            }
            Some(ParsedAgent::Browser(browser)) if fields.contradicts(browser, request.method, request.tls) => {
                ClientVerdict::Automation
            }
            Some(ParsedAgent::Browser(_)) => ClientVerdict::Browser,
        }
    }
}
