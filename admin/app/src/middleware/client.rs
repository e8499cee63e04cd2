//! The address of a request's client, behind edges and trusted proxies.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header, uri::PathAndQuery},
    middleware::Next,
    response::Response,
};
use domain::{Clock, networks::NetworkSet};
use live::bus::SURROGATE_KEY;
use secrets::{
    MasterKey,
    edge_proof::{self, ForwardedRequest},
};

use super::hosts::OriginalUri;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const EDGE_PROOF: HeaderName = HeaderName::from_static(edge_proof::HEADER);

/// The client's address, stored in the extensions of a request and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Peers whose `X-Forwarded-For` is trusted: edges, and the operator's proxies.
#[derive(Clone)]
pub struct TrustedPeers {
    /// The key from which edges derive their proofs.
    pub master_key: MasterKey,
    /// The clock that decides whether a proof is current.
    pub clock: Clock,
    /// Whether the previous version's proof is accepted (`admin.accept_fixed_edge_proof`).
    pub accepts_fixed_proof: bool,
    /// The operator's own proxies, as listed in `edge.trusted_proxies`.
    pub proxies: Arc<NetworkSet>,
}

/// Whether an untrusted peer was logged. Once is enough, because anybody who can reach this program can cause it.
static UNBELIEVED_REPORTED: AtomicBool = AtomicBool::new(false);

/// Middleware that stores the client's address with the request and the response: the one that `X-Forwarded-For` names
/// if the request proves that it comes from an edge, or the peer is a trusted proxy; otherwise the peer's own. Only
/// edges receive the cache key (`SURROGATE_KEY`) of a response.
pub async fn find_client(State(believed): State<TrustedPeers>, mut request: Request, next: Next) -> Response {
    let is_edge = is_edge(&request, &believed);
    let mut found = None;
    if let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>().copied() {
        let peer = peer.ip().to_canonical();
        if request.headers().contains_key(X_FORWARDED_FOR)
            && !is_edge
            && !believed.proxies.contains(peer)
            && !UNBELIEVED_REPORTED.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                %peer,
                "X-Forwarded-For of a peer that is not believed is ignored, so all its clients share one rate limit; \
                 if it is an edge, its key file must be of this program's master key, its clock within 90 seconds of this one, and an edge \
                 of the version before needs admin.accept_fixed_edge_proof; if it is a proxy of yours, add it to edge.trusted_proxies"
            );
        }
        let address = client_address(peer, is_edge, request.headers(), &believed.proxies);
        request.extensions_mut().insert(ClientAddress(address));
        found = Some(ClientAddress(address));
    }
    // Inner layers have no use for it.
    request.headers_mut().remove(EDGE_PROOF);
    let mut response = next.run(request).await;
    // For the log line, which an outer layer writes.
    if let Some(address) = found {
        response.extensions_mut().insert(address);
    }
    if !is_edge {
        response.headers_mut().remove(SURROGATE_KEY);
    }
    response
}

fn is_edge<B>(request: &axum::http::Request<B>, believed: &TrustedPeers) -> bool {
    let headers = request.headers();
    let proofs = headers.get_all(EDGE_PROOF);
    if proofs.iter().next().is_none() {
        return false;
    }
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |asked| &asked.0);
    let field = |name| headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
    let clients: Vec<&[u8]> = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    let handed = ForwardedRequest {
        method: request.method().as_str(),
        path: uri.path_and_query().map_or("/", PathAndQuery::as_str),
        host: field(header::HOST),
        client: &clients.join(&b", "[..]),
        scheme: field(X_FORWARDED_PROTO),
    };
    let (key, now) = (&believed.master_key, believed.clock.now());
    proofs.iter().map(HeaderValue::as_bytes).any(|proof| {
        key.is_edge_request(proof, &handed, now) || (believed.accepts_fixed_proof && key.is_fixed_edge_proof(proof))
    })
}

/// Returns the nearest address in the chain that is neither an edge, as only the peer can be, nor a trusted proxy.
fn client_address(peer: IpAddr, is_edge: bool, headers: &HeaderMap, trusted: &NetworkSet) -> IpAddr {
    let mut client = peer;
    let chain = headers.get_all(X_FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = chain.flat_map(|value| value.split(',')).map(str::trim).collect();
    for (passed, hop) in hops.into_iter().rev().enumerate() {
        let is_believed = trusted.contains(client) || (is_edge && passed == 0);
        if !is_believed {
            break;
        }
        match hop.parse::<IpAddr>() {
            Ok(address) => client = address.to_canonical(),
            Err(_) => break,
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use secrets::EdgeKey;

    use super::*;

    fn seen(peer: &str, is_edge: bool, forwarded: &str) -> String {
        let trusted = NetworkSet::parse(&["10.0.0.0/8".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, HeaderValue::from_str(forwarded).unwrap())]);
        client_address(peer.parse().unwrap(), is_edge, &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed_by_their_address() {
        let seen = |peer: &str, forwarded: &str| seen(peer, false, forwarded);
        assert_eq!(seen("127.0.0.1", "203.0.113.9"), "203.0.113.9");
        assert_eq!(seen("10.1.2.3", "203.0.113.9"), "203.0.113.9");
        assert_eq!(seen("203.0.113.1", "198.51.100.7"), "203.0.113.1");
        assert_eq!(seen("127.0.0.1", "198.51.100.7, 203.0.113.9, 10.0.0.1"), "203.0.113.9");
        assert_eq!(
            seen("127.0.0.2", "203.0.113.9"),
            "127.0.0.2",
            "this machine's own addresses are not trusted by themselves"
        );
        assert_eq!(seen("127.0.0.1", "not an address"), "127.0.0.1");
        assert_eq!(seen("127.0.0.1", "::ffff:203.0.113.9"), "203.0.113.9");
    }

    #[test]
    fn an_edge_is_believed_wherever_it_is_but_not_what_its_client_says() {
        let seen = |forwarded: &str| seen("203.0.113.1", true, forwarded);
        assert_eq!(seen("198.51.100.7"), "198.51.100.7");
        assert_eq!(seen("6.6.6.6, 198.51.100.7"), "198.51.100.7");
        assert_eq!(seen("198.51.100.7, 10.0.0.1"), "198.51.100.7", "a trusted proxy before the edge");
        assert_eq!(seen("not an address"), "203.0.113.1");
    }

    #[test]
    fn an_edge_is_known_by_its_proof_of_this_request() {
        let (ours, theirs) = (MasterKey::generate(), MasterKey::generate());
        let clock = Clock::from_fn(|| domain::Timestamp::from_unix_millis(1_800_000_000_000));
        let handed = ForwardedRequest {
            method: "GET",
            path: "/api/me?x",
            host: b"app.svc.test",
            client: b"203.0.113.9",
            scheme: b"https",
        };
        let believed = |accepts_fixed_proof| TrustedPeers {
            master_key: ours.clone(),
            clock: clock.clone(),
            accepts_fixed_proof,
            proxies: Arc::new(NetworkSet::default()),
        };
        let request = |proof: &str, client: &str| {
            let request =
                axum::http::Request::get("/me?x").header("host", "app.svc.test").header("x-forwarded-for", client);
            let request = request.header("x-forwarded-proto", "https").header(EDGE_PROOF, proof);
            request.extension(OriginalUri("/api/me?x".parse().unwrap())).body(axum::body::Body::empty()).unwrap()
        };
        let proofs = EdgeKey::from_master_key(&ours).proofs(&handed, clock.now());
        let [fixed, proof] = &proofs[..] else { panic!("{proofs:?}") };
        assert!(is_edge(&request(proof, "203.0.113.9"), &believed(false)));
        assert!(!is_edge(&request(proof, "203.0.113.8"), &believed(true)), "another client than the proof's");
        assert!(is_edge(&request(fixed, "203.0.113.8"), &believed(true)));
        assert!(!is_edge(&request(fixed, "203.0.113.9"), &believed(false)));
        let foreign = EdgeKey::from_master_key(&theirs).proofs(&handed, clock.now());
        assert!(!foreign.iter().any(|proof| is_edge(&request(proof, "203.0.113.9"), &believed(true))));
        assert!(!is_edge(&request("", "203.0.113.9"), &believed(true)));
    }
}
