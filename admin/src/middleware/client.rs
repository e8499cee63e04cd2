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
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::Response,
};
use domain::networks::Networks;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address, stored in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Whether a peer that is not trusted was reported: once is enough, and it is known to anybody who can reach this program.
static UNTRUSTED_REPORTED: AtomicBool = AtomicBool::new(false);

/// Middleware: stores the peer's address or, when the peer is an edge or a proxy that is trusted, the one that
/// `X-Forwarded-For` names.
pub async fn find(State(trusted): State<Arc<Networks>>, mut request: Request, next: Next) -> Response {
    if let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>().copied() {
        let peer = peer.ip().to_canonical();
        if request.headers().contains_key(X_FORWARDED_FOR)
            && !trusted.contains(peer)
            && !UNTRUSTED_REPORTED.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                %peer,
                "X-Forwarded-For of a peer that is not trusted is ignored, so all its clients share one rate limit; \
                 if it is an edge, add it to admin.trusted_edges, if it is a proxy of yours, to edge.trusted_proxies"
            );
        }
        let address = client(peer, request.headers(), &trusted);
        request.extensions_mut().insert(ClientAddress(address));
    }
    next.run(request).await
}

/// Finds the nearest address in the chain that is not a trusted proxy's.
fn client(peer: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let mut client = peer;
    let chain = headers.get_all(X_FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = chain.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        if !trusted.contains(client) {
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
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_trusted_peers_are_believed() {
        let trusted = Networks::parse(&["10.0.0.0/8".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let seen = |peer: &str, forwarded: &str| {
            let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, HeaderValue::from_str(forwarded).unwrap())]);
            client(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
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
}
