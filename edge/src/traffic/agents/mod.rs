//! Who asks: what stands in a request says whether a program names itself, only claims to be a browser, or may be one.
//!
//! [`text`] reads a `User-Agent`, once for each distinct one ([`memo`]); [`fields`] looks for what contradicts it. What
//! a client that may be a browser does afterwards is judged elsewhere. A name is confirmed by an address that its
//! operator publishes ([`networks`]), or by a signature ([`signatures`]); both are read from Postgres, where admin
//! keeps them. Start with [`Agents::judge`].

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
    traffic::{agents::Agent, visitors::Evidence},
};
use http::{HeaderMap, Method, Uri};
use sqlx::PgPool;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub(super) use self::fields::Fields;
use self::{
    memo::Said,
    networks::Networks,
    signatures::{Keys, Verifications},
};
use crate::{limits, metrics::postgres_failed};

/// What is known of agents: their names, their networks, their keys. There is one for the program.
pub struct Agents {
    clock: Clock,
    networks: ArcSwap<Networks>,
    keys: ArcSwap<Keys>,
    verifications: Verifications,
}

/// The part of a request that says who asks.
pub(crate) struct Claim<'r> {
    /// The method.
    pub(crate) method: &'r Method,
    /// The target.
    pub(crate) uri: &'r Uri,
    /// The host, in lower case and without a port.
    pub(crate) host: &'r str,
    /// The header fields.
    pub(crate) headers: &'r HeaderMap,
    /// The client's address, as far as it is believed.
    pub(crate) address: IpAddr,
    /// Whether the client sees HTTPS.
    pub(crate) tls: bool,
}

/// What a request's fields say of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// A program that names itself.
    Agent {
        /// Its row in the table of agents.
        agent: &'static Agent,
        /// The reason to believe the name.
        evidence: Evidence,
    },
    /// A program that claims to be a browser, which its fields contradict, or that does not say what it is.
    Automation,
    /// A client that may be a browser: nothing contradicts.
    Browser,
}

impl Agents {
    /// The agents and networks that are built in, and no keys yet, by the time of `clock`.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            networks: ArcSwap::from_pointee(Networks::of(&[])),
            keys: ArcSwap::default(),
            verifications: Verifications::default(),
        }
    }

    /// Keeps networks and keys as they are in `db`, until `stop`. While they cannot be read the last ones stay.
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

    /// Reads networks and keys once.
    async fn read(&self, db: &PgPool) -> Result<(), sqlx::Error> {
        let networks = db::stats::agents::networks(db, limits::AGENT_SOURCES).await?;
        let keys = db::stats::agents::keys(db, self.clock.now(), limits::AGENT_KEYS).await?;
        self.networks.store(Arc::new(Networks::of(&networks)));
        self.keys.store(Arc::new(Keys::of(keys)));
        Ok(())
    }

    /// Judges who sent `request`, with these of its fields.
    pub(crate) fn judge(&self, request: &Claim<'_>, fields: &Fields<'_>) -> Judgement {
        let said = fields.user_agent.map(|text| memo::read(text.as_bytes()));
        if fields.is_signed
            && let Some(signer) = self.keys.load().signer(request, self.clock.now(), &self.verifications)
        {
            // The key is the operator's: which of its programs it is, the name says.
            let agent = match said {
                Some(Said::Agent(named)) if named.operator == signer.operator => named,
                _ => signer,
            };
            return Judgement::Agent { agent, evidence: Evidence::Signature };
        }
        match said {
            None => Judgement::Automation,
            Some(Said::Agent(agent)) => {
                let holds = |source| self.networks.load().hold(source, request.address);
                let evidence = if agent.networks.is_some_and(holds) { Evidence::Network } else { Evidence::Name };
                Judgement::Agent { agent, evidence }
            }
            Some(Said::Browser(browser)) if fields.contradict(browser, request.method, request.tls) => {
                Judgement::Automation
            }
            Some(Said::Browser(_)) => Judgement::Browser,
        }
    }
}
