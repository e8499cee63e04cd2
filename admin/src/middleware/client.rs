//! The address of a request's client, behind edges and trusted proxies.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
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

/// Middleware: stores the peer's address or, when the peer is an edge or a trusted proxy, the one that
/// `X-Forwarded-For` names.
pub async fn find(State(trusted): State<Arc<Networks>>, mut request: Request, next: Next) -> Response {
    if let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<SocketAddr>>().copied() {
        let address = client(peer.ip().to_canonical(), request.headers(), &trusted);
        request.extensions_mut().insert(ClientAddress(address));
    }
    next.run(request).await
}

/// Finds the nearest address in the chain that is not a trusted proxy's.
fn client(peer: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let believed = |address: IpAddr| address.is_loopback() || trusted.contains(address);
    let mut client = peer;
    let chain = headers.get_all(X_FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = chain.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        if !believed(client) {
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
        let trusted = Networks::parse(&["10.0.0.0/8".to_owned()]).unwrap();
        let seen = |peer: &str, forwarded: &str| {
            let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, HeaderValue::from_str(forwarded).unwrap())]);
            client(peer.parse().unwrap(), &headers, &trusted).to_string()
        };
        assert_eq!(seen("127.0.0.1", "203.0.113.9"), "203.0.113.9");
        assert_eq!(seen("10.1.2.3", "203.0.113.9"), "203.0.113.9");
        assert_eq!(seen("203.0.113.1", "198.51.100.7"), "203.0.113.1");
        assert_eq!(seen("127.0.0.1", "198.51.100.7, 203.0.113.9, 10.0.0.1"), "203.0.113.9");
        assert_eq!(seen("127.0.0.1", "not an address"), "127.0.0.1");
        assert_eq!(seen("127.0.0.1", "::ffff:203.0.113.9"), "203.0.113.9");
    }
}
