//! Which requests a connection carries: those of the host that it was made for.

use std::sync::Arc;

use rustls::version::TLS13;

use super::{DOMAIN, published, published_on};
use crate::world::{
    Site, World,
    socket::{connect_tls, converse, statuses, tls},
};

async fn status(world: &World, sni: &str, host: &str) -> Vec<u16> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    let mut stream = connect_tls(world.public_port(), sni, config).await.unwrap_or_else(|e| panic!("{sni}: {e}"));
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    statuses(&converse(&mut stream, request.as_bytes()).await)
}

#[tokio::test]
async fn a_connection_is_for_one_domain() {
    let (world, ada, _) = published(&Site::page("home")).await;
    let other = "other.shop.localhost";
    world.certify(&[other]).await;
    ada.publish("other", &Site::page("other")).await;
    ada.attach("other", other).await;
    let own = "engine.svc.localhost";
    // Twice: the first time the edge does not know the sites yet.
    for round in 0..2 {
        for (sni, host, expected) in [
            (DOMAIN, DOMAIN, 200),
            (DOMAIN, "WWW.shop.localhost.", 200),
            (DOMAIN, other, 421),
            (DOMAIN, own, 421),
            (DOMAIN, "api.svc.localhost", 421),
            (DOMAIN, "app.svc.localhost", 421),
            (DOMAIN, "ai.svc.localhost", 421),
            (DOMAIN, "nobody.shop.localhost", 421),
            (DOMAIN, "127.0.0.1", 421),
            (other, DOMAIN, 421),
            (own, DOMAIN, 421),
            (own, "nobody.shop.localhost", 421),
            ("api.svc.localhost", DOMAIN, 421),
            (own, own, 200),
            (own, "other.svc.localhost", 200),
        ] {
            assert_eq!(status(&world, sni, host).await, [expected], "{sni} then {host}, round {round}");
        }
    }
}

#[tokio::test]
async fn a_trusted_proxy_brings_visitors_of_every_host() {
    let world = World::builder().set("EDGE__TRUSTED_PROXIES", "127.0.0.1").start().await;
    let (world, ..) = published_on(world, &Site::page("home")).await;
    for host in [DOMAIN, "engine.svc.localhost"] {
        for sni in [DOMAIN, "engine.svc.localhost", "api.svc.localhost"] {
            assert_eq!(status(&world, sni, host).await, [200], "{sni} then {host}");
        }
    }
    // What the proxy took over TLS is not sent round once more.
    let plain = world.edge().get(&format!("http://{DOMAIN}/")).header("x-forwarded-proto", "https").await;
    assert_eq!(plain.assert_body(200, "home").header("strict-transport-security"), "max-age=2592000");
}
