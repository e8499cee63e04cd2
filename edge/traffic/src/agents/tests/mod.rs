//! Classification of real user agents, and of requests as real programs send them.

mod fields;
mod fixtures;
mod networks;
mod signatures;

use std::net::{IpAddr, Ipv4Addr};

use domain::Clock;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::*;

fn judged(fields: &[(&str, &str)]) -> ClientVerdict {
    judged_of(&Method::GET, true, fields)
}

fn judged_of(method: &Method, tls: bool, fields: &[(&str, &str)]) -> ClientVerdict {
    let (uri, headers) = (Uri::from_static("/"), headers(fields));
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let claim = ClientClaim { method, uri: &uri, host: "engine.example", headers: &headers, address, tls };
    AgentRegistry::new(Clock::system()).judge(&claim, &ClientFields::from_headers(&headers))
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| -> (HeaderName, HeaderValue) {
        (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    fields.iter().map(field).collect()
}
