//! GET and HEAD, and nothing else.

use reqwest::Method;

use super::{docs, world_with};
use crate::world::site::noise;

#[tokio::test]
async fn head_is_get_without_the_body() {
    let (world, url) = world_with(docs().file("large.bin", noise(3_000_000))).await;
    for path in ["/", "/about", "/large.bin", "/nothing", "/about.html"] {
        let url = format!("{url}{path}");
        let get = world.edge().get(&url).await;
        let head = world.edge().head(&url).await;
        assert_eq!(head.status, get.status);
        assert!(head.body.is_empty());
        for name in ["content-length", "content-type", "etag", "cache-control", "location", "vary", "last-modified"] {
            assert_eq!(head.find_header(name), get.find_header(name), "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn other_methods_are_405() {
    let (world, url) = world_with(docs()).await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS, Method::TRACE] {
        for path in ["/", "/nothing"] {
            let answer = world.edge().request(method.clone(), &format!("{url}{path}")).await.assert_status(405);
            let allow = answer.header("allow");
            assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
        }
    }
}
