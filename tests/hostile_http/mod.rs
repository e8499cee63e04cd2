//! Malformed and hostile requests: each gets a 4xx or a closed connection, and other visitors notice nothing.

mod broken;
mod floods;
mod frames;
mod paths;
mod slow;
mod smuggling;

use std::sync::Arc;

use rustls::version::TLS13;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::world::{
    Site, World,
    socket::{connect_tls, tls},
};

const SITE: &str = "engine.svc.localhost";
const API: &str = "api.svc.localhost";

async fn world_with_sites() -> World {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home").file("data.txt", "data")).await;
    ada.publish("victim", &Site::page("the victim's page")).await;
    world
}

async fn connect(world: &World, host: &str, alpn: &str) -> TlsStream<TcpStream> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &[alpn]));
    connect_tls(world.public_port(), host, config).await.unwrap()
}

async fn assert_alive(world: &World) {
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    world.edge().get("https://api.svc.localhost/health").await.assert_status(200);
}
