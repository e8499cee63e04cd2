//! This edge's metrics. `telemetry::metrics` documents how they are exported, and which labels are allowed.

use std::sync::{Arc, LazyLock};

use http::StatusCode;
use limits::MemoryShares;
pub use metrics::{Counter, Histogram};
use metrics::{Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use telemetry::{OutageLine, OutageLog};

/// The `model` label of requests that name no configured model.
pub const NO_MODEL: &str = "none";

/// Requests to sites by status class. Looked up once, because counting sites is on the hottest path.
static SITES: LazyLock<[Counter; 6]> = LazyLock::new(|| {
    ["other", "1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| counter!("svc_sites_requests_total", "status" => class))
});
static BODIES: LazyLock<[Counter; 2]> =
    LazyLock::new(|| ["miss", "hit"].map(|found| counter!("svc_sites_bodies_total", "cache" => found)));

static PLATFORM_CACHED: LazyLock<[Counter; 2]> =
    LazyLock::new(|| ["miss", "hit"].map(|found| counter!("svc_platform_cached_total", "cache" => found)));
static ADMITTED: LazyLock<Counter> = LazyLock::new(|| counter!("svc_gateway_admitted_total"));
static SPARES: LazyLock<[Counter; 2]> =
    LazyLock::new(|| ["unused", "used"].map(|end| counter!("svc_gateway_spares_total", "end" => end)));

/// Counts a failed Postgres operation, and warns when this edge's role lacks the permission for it: a retry does not
/// help then, and callers do not always log the error.
pub fn postgres_failed(what: &'static str, error: &sqlx::Error) {
    static DENIED: OutageLog = OutageLog::new();
    telemetry::metrics::postgres_failed(what);
    if db::edges::roles::is_denied(error)
        && let Some(OutageLine { left_out, .. }) = DENIED.record_failure()
    {
        tracing::warn!(
            error = diagnosis::explain_postgres(error),
            what,
            left_out,
            "this edge's role in Postgres lacks a right that edges need; run `admin grant-edge ROLE` with the role of its postgres.url"
        );
    }
}

/// Describes every metric to the exporter. Called once, after the exporter has started.
pub fn describe() {
    describe_counter!("svc_sites_requests_total", "Requests to sites and unknown hosts, by class of status.");
    describe_counter!(
        "svc_sites_bodies_total",
        "Small bodies of sites looked for in memory, and whether they were there."
    );
    describe_gauge!(
        "svc_edge_memory_bytes",
        "Bytes of memory that are used, by kind: bodies on their way to visitors, bodies, manifests, routes and answers of admin (`platform`) that are kept, and whole answers of the AI gateway (`answers`) until they are sent."
    );
    describe_counter!(
        "svc_store_damaged_total",
        "Reads of packs that gave other bytes than were stored, twice in a row. None of them was served."
    );
    describe_counter!(
        "svc_packs_missing_total",
        "Reads of packs that are not in the store although their deployment exists."
    );
    describe_gauge!("svc_edge_memory_share_bytes", "Bytes of edge.memory that each kind may have.");
    describe_counter!("svc_edge_streams_reset_total", "HTTP/2 streams reset because their visitors did not take them.");
    describe_counter!(
        "svc_edge_exhausted_total",
        "Requests and answers refused or broken off for want of memory, the whole or their own part."
    );
    describe_counter!(
        "svc_edge_over_plan_requests_total",
        "Answers of sites whose owner has used up the month's bandwidth: sent at its pace (`paced`), or `refused` because too much waits."
    );
    describe_gauge!("svc_connections", "Connections that are open.");
    describe_gauge!("svc_connections_greediest", "Connections of the client that has the most of them.");
    describe_gauge!("svc_clients", "Clients that were here within the last minute.");
    describe_gauge!(
        "svc_clients_greediest_requests",
        "Requests of the client that made the most of them within a minute."
    );
    describe_gauge!(
        "svc_clients_greediest_bytes",
        "Bytes sent to the client that took the most of them within a minute."
    );
    describe_gauge!(
        "svc_clients_greediest_refusals",
        "Connections and requests refused to the client to which the most were refused within a minute."
    );
    describe_counter!(
        "svc_connections_refused_total",
        "Connections turned away because their client had as many as one may have."
    );
    describe_counter!(
        "svc_proxy_protocol_errors_total",
        "Connections from edge.proxy_protocol_from that were closed because they did not begin with a usable header."
    );
    describe_counter!(
        "svc_connections_shed_total",
        "Connections closed because files or memory ran short: `idle` ones, and those of the `greediest` clients."
    );
    describe_counter!(
        "svc_platform_refused_total",
        "Requests for the platform refused because too many were in flight, by whose bound: `connection`, `client`, `process`, `memory`."
    );
    describe_counter!(
        "svc_platform_taken_back_total",
        "Requests for the platform ended because turns ran short and their clients neither sent their bodies nor took the answers."
    );
    describe_counter!(
        "svc_platform_failed_total",
        "Requests that an admin did not answer: it was `unreached`, the connection `ended`, the answer was `late`, the admin was `silent` at a health check while another answers, or it `hung`."
    );
    describe_counter!(
        "svc_platform_asked_again_total",
        "Requests that were made again to another admin, by what kept the first from answering; `refused` are those that it had no room for."
    );
    describe_counter!(
        "svc_platform_cached_total",
        "Requests for files of the console and icons of organizations, and whether the edge answered them itself."
    );
    describe_gauge!("svc_admin_up", "Whether each of edge.admin_upstreams was healthy when this edge last looked.");
    describe_gateway();
    describe_gauge!("svc_traffic_waiting", "Batches of traffic that wait for Postgres.");
    describe_counter!(
        "svc_traffic_dropped_total",
        "Answers of sites that statistics lack: there was no `room` to count them, neither the `journal` nor memory kept them, \
         Postgres was away until their `age` was too great, it `refused` them, or a file in the spool was `damaged`."
    );
    describe_counter!("svc_traffic_journal_errors_total", "Batches of traffic that the journal did not take.");
    describe_counter!(
        "svc_traffic_journal_slow_total",
        "Writes to the journal of traffic for which the disk took long."
    );
    describe_gauge!("svc_traffic_journals_foreign", "Dead edges in the spool whose traffic is of another database.");
    describe_counter!("svc_traffic_adopted_total", "Batches of traffic sent in the name of edges that died.");
    describe_counter!(
        "svc_traffic_others_total",
        "Answers of sites whose path or hostname is `(other)` in statistics, for want of room on this edge."
    );
    describe_gauge!("svc_traffic_visitors_counted", "Whether visitors are counted: the salt of the day is there.");
}

fn describe_gateway() {
    describe_gauge!("svc_gateway_redis_up", "Whether Redis took the meter's lease last time.");
    describe_counter!(
        "svc_gateway_requests_total",
        "Requests to the gateway, by model and status; model is `none` for other requests than completions of a known one."
    );
    describe_gauge!(
        "svc_gateway_clock_skew_seconds",
        "Seconds by which this edge's clock is ahead of Redis's, which decides what day usage is charged to."
    );
    describe_counter!("svc_gateway_tokens_total", "Tokens metered, by model, kind, and whether they are estimated.");
    describe_counter!(
        "svc_gateway_usage_contradictions_total",
        "Completions of which a provider reported more tokens of a kind than in all, by provider; they were cut."
    );
    describe_counter!("svc_gateway_streams_failed_total", "Streams that ended in an error after they had begun.");
    describe_counter!(
        "svc_gateway_frames_left_out_total",
        "Frames of providers' streams that were no part of a completion, and did not pass."
    );
    describe_counter!(
        "svc_gateway_upstream_failures_total",
        "Requests that providers did not answer with a completion."
    );
    describe_gauge!(
        "svc_gateway_provider_circuit",
        "Whether a provider is asked: 0 always (closed), 1 by one request at a time (half-open), 2 not at all (open)."
    );
    describe_counter!(
        "svc_gateway_fallbacks_total",
        "Completions that a model's second provider was asked for, because the first could not have begun."
    );
    describe_gauge!(
        "svc_gateway_paced",
        "Completions that wait for their turn while a provider's rate limit is reached."
    );
    describe_histogram!("svc_gateway_upstream_seconds", "From asking a provider to the head of its answer.");
    describe_counter!("svc_gateway_admitted_total", "Completions that limits admitted.");
    describe_counter!("svc_gateway_spares_total", "Reservations made before their requests, by whether these came.");
    describe_counter!(
        "svc_gateway_refused_total",
        "Completions that limits refused, by the limit; `unavailable` when they cannot be checked, `books` when too much waits for Postgres."
    );
    describe_counter!("svc_gateway_settled_total", "Completions whose usage Postgres has.");
    describe_gauge!("svc_gateway_open", "Completions under way, each with a reservation.");
    describe_gauge!("svc_gateway_journal_backlog", "Completions that have ended and that Postgres does not have yet.");
    describe_counter!("svc_gateway_journal_errors_total", "Lines that the journal of usage did not take.");
    describe_counter!("svc_gateway_journal_slow_total", "Writes to the journal of usage for which the disk took long.");
    describe_counter!("svc_gateway_journal_damaged_total", "Lines of journals of usage that were damaged on disk.");
    describe_gauge!("svc_gateway_journals_foreign", "Dead edges in the spool whose journals are of another database.");
    describe_counter!("svc_gateway_replayed_total", "Completions written again because a copy took Postgres's place.");
    describe_counter!("svc_traces_sent_total", "Spans of completions that the collector has taken.");
    describe_counter!(
        "svc_traces_dropped_total",
        "Spans of completions that were dropped: the queue was full (`queue`), the collector did not take them (`collector`), or the edge has stopped (`stop`)."
    );
    describe_counter!(
        "svc_gateway_answers_resumed_total",
        "Answers given again, or gone on with, for a client with the same Idempotency-Key: from this edge's memory or another edge's (from `memory` or `edge`)."
    );
    describe_gauge!("svc_gateway_drains", "Answers read to their end although their clients have gone.");
    describe_counter!(
        "svc_gateway_drains_refused_total",
        "Answers not read to their end for want of a place: of a completion whose client has gone, which is settled by \
         estimate (kind `answer`), or of one that is not needed (`connection`)."
    );
}

/// Reports memory use, as returned by `used`, for as long as it is polled.
pub async fn watch_memory(shares: MemoryShares, used: impl Fn() -> [(&'static str, u64); 7]) {
    let MemoryShares { in_flight, bodies, manifests, routes, platform, answers, requests, .. } = shares;
    let shares = [in_flight, bodies, manifests, routes, platform, answers, requests];
    let mut every = tokio::time::interval(limits::MEMORY_REPORT_EVERY);
    loop {
        every.tick().await;
        for ((kind, used), share) in used().into_iter().zip(shares) {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            let (used, share) = (used as f64, share as f64);
            gauge!("svc_edge_memory_bytes", "kind" => kind).set(used);
            gauge!("svc_edge_memory_share_bytes", "kind" => kind).set(share);
        }
    }
}

/// Counts a request to a site or an unknown host, by the class of its response's status.
pub fn site(status: StatusCode) {
    let class = usize::from(status.as_u16() / 100);
    SITES.get(class).unwrap_or(&SITES[0]).increment(1);
}

/// Counts responses for which a traffic collection had no room: `dropped` ones, and `others` without their keys.
pub fn traffic_collected(dropped: u64, others: u64) {
    traffic_lost("room", dropped);
    counter!("svc_traffic_others_total").increment(others);
}

/// Shows whether visitors are counted, which requires the day's salt.
pub fn visitors_are_counted(is_so: bool) {
    level("svc_traffic_visitors_counted", usize::from(is_so));
}

/// Shows the number of batches of traffic that wait for Postgres.
pub fn traffic_waits(batches: usize) {
    level("svc_traffic_waiting", batches);
}

/// Counts responses that statistics lack, by the reason: `room`, `journal`, `age`, `refused` or `damaged`.
pub fn traffic_lost(why: &'static str, answers: u64) {
    counter!("svc_traffic_dropped_total", "why" => why).increment(answers);
}

/// Counts lines of journals of usage that were damaged on disk.
pub fn usage_damaged(lines: u64) {
    counter!("svc_gateway_journal_damaged_total").increment(lines);
}

/// Counts batches of traffic that were sent in the name of an edge that died.
pub fn traffic_adopted(batches: usize) {
    counter!("svc_traffic_adopted_total").increment(batches as u64);
}

/// Counts a lookup of a block of a site's body in memory, and whether it was `found` there.
pub fn body(found: bool) {
    BODIES[usize::from(found)].increment(1);
}

/// Counts a read of a pack that gave other bytes than were stored, twice in a row.
pub fn store_damaged() {
    counter!("svc_store_damaged_total").increment(1);
}

/// Counts a pack that is missing from the store, in whole or only its data.
pub fn pack_missing() {
    counter!("svc_packs_missing_total").increment(1);
}

/// Counts an HTTP/2 stream that was reset because its visitor did not take the response.
pub fn stream_reset() {
    counter!("svc_edge_streams_reset_total").increment(1);
}

/// Counts a request or a response that was refused or broken off because memory ran short.
pub fn exhausted() {
    counter!("svc_edge_exhausted_total").increment(1);
}

/// Counts a response of a site whose owner is over the month's bandwidth.
pub fn over_plan(outcome: &'static str) {
    counter!("svc_edge_over_plan_requests_total", "outcome" => outcome).increment(1);
}

/// Counts a connection refused because its client is at the limit of connections per client.
pub fn connection_refused() {
    counter!("svc_connections_refused_total").increment(1);
}

/// Counts a balancer's connection that was closed because its PROXY header did not arrive or is invalid.
pub fn proxy_header_failed() {
    counter!("svc_proxy_protocol_errors_total").increment(1);
}

/// Shows whether the admin at the address `admin` was healthy at its last health check.
pub fn admin_is_up(admin: &str, is_healthy: bool) {
    gauge!("svc_admin_up", "admin" => admin.to_owned()).set(if is_healthy { 1.0 } else { 0.0 });
}

/// Counts connections closed because the machine ran short: idle ones, or those of the `greediest` clients.
pub fn connections_shed(which: &'static str, count: usize) {
    counter!("svc_connections_shed_total", "which" => which).increment(count as u64);
}

/// Counts a platform request refused because the `connection`, `client` or `process` has too many in flight.
pub fn platform_refused(bound: &'static str) {
    counter!("svc_platform_refused_total", "bound" => bound).increment(1);
}

/// Counts a platform request whose turn was revoked because its client held up others.
pub fn platform_revoked() {
    counter!("svc_platform_taken_back_total").increment(1);
}

/// Counts a request that an admin did not answer, by the reason: `unreached`, `ended`, `late` or `hung`.
pub fn platform_failed(why: &'static str) {
    counter!("svc_platform_failed_total", "why" => why).increment(1);
}

/// Counts a request that is sent to another admin, by the failure of the first, or as `refused` if it had no room.
pub fn platform_retried(why: &'static str) {
    counter!("svc_platform_asked_again_total", "why" => why).increment(1);
}

/// Counts a request for a public response of admin, and whether the edge's cache had it.
pub fn platform_cached(found: bool) {
    PLATFORM_CACHED[usize::from(found)].increment(1);
}

/// Counts spans of completions that the collector has accepted.
pub fn spans_sent(spans: usize) {
    counter!("svc_traces_sent_total").increment(spans as u64);
}

/// Counts spans that were dropped, by the reason: `queue` (full), `collector` (failed) or `stop` (of the edge).
pub fn spans_dropped(why: &'static str, spans: usize) {
    counter!("svc_traces_dropped_total", "why" => why).increment(spans as u64);
}

/// Counts an answer that was repeated or continued for a client, from this edge's `memory` or another `edge`.
pub fn answer_resumed(from: &'static str) {
    counter!("svc_gateway_answers_resumed_total", "from" => from).increment(1);
}

/// The number of completions that are read to their end without a client.
pub fn drains() -> Gauge {
    gauge!("svc_gateway_drains")
}

/// Counts a completion that could not be read to its end for lack of a slot.
pub fn drain_refused(kind: &'static str) {
    counter!("svc_gateway_drains_refused_total", "kind" => kind).increment(1);
}

/// The number of the gateway's responses with `status`. `model` is a configured one, or [`NO_MODEL`].
#[must_use = "it counts nothing by itself"]
pub fn gateway_answers(model: &str, status: StatusCode) -> Counter {
    counter!("svc_gateway_requests_total", "model" => model.to_owned(), "status" => status.as_str().to_owned())
}

/// Counts a completion that the limits admitted.
pub fn admitted() {
    ADMITTED.increment(1);
}

/// Counts a spare reservation, which a request used or which was released unused.
pub fn spare(is_used: bool) {
    SPARES[usize::from(is_used)].increment(1);
}

/// Counts the tokens of a completion of `model`, by kind and whether they are estimated.
pub fn tokens(model: &Arc<str>, prompt: u64, completion: u64, is_estimated: bool) {
    let estimated = if is_estimated { "true" } else { "false" };
    for (kind, count) in [("prompt", prompt), ("completion", completion)] {
        counter!("svc_gateway_tokens_total", "model" => model.clone(), "kind" => kind, "estimated" => estimated)
            .increment(count);
    }
}

/// Counts a provider's report of more tokens of one kind than in total.
pub fn usage_contradicted(provider: &Arc<str>) {
    counter!("svc_gateway_usage_contradictions_total", "provider" => provider.clone()).increment(1);
}

/// Counts a stream of `model` that ended in an error after it had begun.
pub fn stream_failed(model: &str) {
    counter!("svc_gateway_streams_failed_total", "model" => model.to_owned()).increment(1);
}

/// Counts a stream's frames that are not part of a completion.
pub fn frames_dropped(provider: &str, frames: u64) {
    counter!("svc_gateway_frames_left_out_total", "provider" => provider.to_owned()).increment(frames);
}

/// The seconds from the request to a provider until the head of its response, or its failure.
#[must_use = "it records nothing by itself"]
pub fn upstream_seconds(provider: &str) -> Histogram {
    histogram!("svc_gateway_upstream_seconds", "provider" => provider.to_owned())
}

/// Counts a provider's failure to return a completion. `why` is a word of ours, or the provider's status.
pub fn upstream_failed(provider: &str, why: impl Into<metrics::SharedString>) {
    counter!("svc_gateway_upstream_failures_total", "provider" => provider.to_owned(), "why" => why.into())
        .increment(1);
}

/// The state of a provider's circuit breaker: the requests that the provider receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// The provider receives all requests.
    Closed,
    /// The provider receives one request at a time.
    HalfOpen,
    /// The provider receives no requests.
    Open,
}

/// Shows the state of the circuit breaker of `provider`, as a number: 0 if closed, 1 if half-open, 2 if open.
pub fn circuit(provider: &str, state: CircuitState) {
    let number = match state {
        CircuitState::Closed => 0.0,
        CircuitState::HalfOpen => 1.0,
        CircuitState::Open => 2.0,
    };
    gauge!("svc_gateway_provider_circuit", "provider" => provider.to_owned()).set(number);
}

/// Counts a completion for which `provider`, the model's second one, is asked because the first could not begin.
pub fn fallback(provider: &str) {
    counter!("svc_gateway_fallbacks_total", "provider" => provider.to_owned()).increment(1);
}

/// The number of completions that wait because of a provider's rate limit.
pub fn paced() -> Gauge {
    gauge!("svc_gateway_paced")
}

/// Sets a gauge to a current count.
pub fn level(name: &'static str, count: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    gauge!(name).set(count as f64);
}
