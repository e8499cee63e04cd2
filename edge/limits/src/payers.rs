//! The payer of each scarce resource. A greedy user can exhaust a shared limit that nobody pays for, so each limit
//! names its payer here; a test finds those that do not.

/// The payer of a limit: each such payer has its own share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    /// A client, and its /48.
    Client,
    /// A connection, of which a client has a limited number.
    Connection,
    /// The account whose site, key or visitors use it; all organizations that one person created share one part.
    Account,
    /// No payer, with the reason why no user can exhaust it.
    Nobody(&'static str),
}

use Payer::{Account, Client, Connection, Nobody};

/// Every limit on concurrent use, in file order: where it is created, what it limits, and who pays.
pub(crate) const PAYERS: [(&str, &str, Payer); 29] = [
    ("gate/src/lib.rs", "computations of password hashes", Client),
    ("gate/src/lib.rs", "computations of password hashes of an account's sites", Account),
    ("gate/src/org.rs", "look-ups of tickets", Client),
    ("gateway/src/drains.rs", "streams that are read without their clients", Account),
    (
        "gateway/src/drains.rs",
        "connections to providers that wait for an end",
        Nobody("a refusal closes a connection that would have been used again, and nothing else"),
    ),
    ("meter/src/lib.rs", "reads of totals", Nobody("an account's totals are read once for all its requests that wait")),
    ("gateway/src/lib.rs", "memory for answers that are read whole", Account),
    ("gateway/src/lib.rs", "completions under way", Account),
    ("gateway/src/lib.rs", "memory for large bodies of requests", Account),
    ("gateway/src/resume/mod.rs", "memory for answers that are kept", Account),
    ("gateway/src/resume/store.rs", "memory for answers that are kept", Account),
    ("upstream/src/pace.rs", "requests that wait for a provider's rate", Account),
    ("upstream/src/pace.rs", "requests that wait for their account's rate at a provider", Account),
    ("http-types/src/pacing.rs", "bytes a second beyond a plan's bandwidth", Account),
    (
        "listen/src/tcp/seats.rs",
        "connections",
        Nobody("a client's own bound stands beside it, and the greediest client's are shed"),
    ),
    ("listen/src/tcp/seats.rs", "connections of plain HTTP", Nobody("a client's own bound stands beside it")),
    ("listen/src/tcp/seats.rs", "connections of a client", Client),
    ("listen/src/tls/validation.rs", "handshakes of authorities", Client),
    ("src/main.rs", "bytes in flight", Client),
    ("memory/src/challenges.rs", "reads of answers to challenges", Client),
    ("memory/src/recall.rs", "those who wait for reads", Client),
    ("memory/src/recall.rs", "reads from Postgres", Client),
    (
        "memory/src/sites.rs",
        "looks whether a deployment is kept",
        Nobody("without an answer in time the deployment counts as kept, which is what it nearly always is"),
    ),
    ("platform/src/lib.rs", "streams of events", Client),
    ("platform/src/lib.rs", "requests for the platform", Client),
    ("platform/src/lib.rs", "requests of which the body is read", Client),
    (
        "platform/src/lib.rs",
        "bytes of bodies that have come",
        Nobody("they count as bytes in flight as well, of which each client has a share"),
    ),
    ("platform/src/lib.rs", "requests for the platform on a connection", Connection),
    ("sites/src/cache.rs", "reads of manifests and of bodies, and bodies that are decoded", Account),
];
