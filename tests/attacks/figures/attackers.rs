//! The attackers of the figures: each goes on until it is stopped.

use std::{net::Ipv4Addr, pin::Pin, sync::Arc, time::Duration};

use tokio::{io::AsyncReadExt as _, time::timeout};

use super::attacker;
use crate::{
    attacks::{
        control_frames, header_expansion as expansion, manifest_weight, platform_floods as platform,
        slow_http1_readers as trickles, slow_http2_readers as stalls,
    },
    world::{
        Actor, Site, World,
        frames::{PING, frame},
        site::noise,
        socket::connect_from,
    },
};

/// The site that is attacked, or attacks.
pub(super) const HOST: &str = "engine.svc.localhost";
/// The time after which an attacker begins anew although nobody has ended its attack.
const ROUND: Duration = Duration::from_mins(1);
/// The time after which streams that take nothing have been reset, and are asked for anew.
const STALL: Duration = Duration::from_secs(32);

/// Attackers who work at the same time.
pub(super) type Attack = Vec<Pin<Box<dyn Future<Output = ()> + Send>>>;

async fn publisher(world: &World) -> Actor {
    world.user("mallory").await
}

/// Runs `round` over and over in `count` tasks, the `n`th of which is at the address that `n` counts modulo `clients`.
fn repeat<R>(count: usize, clients: usize, round: impl Fn(usize, Ipv4Addr) -> R + Clone + Send + 'static) -> Attack
where
    R: Future<Output = ()> + Send + 'static,
{
    let mut attack = Attack::new();
    for number in 0..count {
        let source = attacker(u8::try_from(1 + number % clients).unwrap());
        let round = round.clone();
        attack.push(Box::pin(go_on(move || round(number, source))));
    }
    attack
}

async fn go_on<R: Future<Output = ()>>(round: impl Fn() -> R) {
    loop {
        let _ = timeout(ROUND, round()).await;
        tokio::task::yield_now().await;
    }
}

pub(super) async fn header_expansion(world: Arc<World>) -> Attack {
    let field = |n| format!("  X-Big-{n}: {}\n", expansion::multiplier());
    let rules = format!("/:x/y\n{}", (0..20).map(field).collect::<Vec<_>>().concat()).repeat(2);
    publisher(&world).await.publish("engine", &Site::page("home").file("_headers", rules)).await;
    let url = world.edge().address(&format!("{}{}", world.site_url("engine"), expansion::long_path()));
    let clients: Vec<_> = (1..=4).map(|number| platform::client(&world, number)).collect();
    repeat(32, clients.len(), move |number, _| {
        let request = clients[number % clients.len()].get(url.clone());
        async move {
            let _ = request.send().await;
        }
    })
}

/// A site with photos that do not all fit into the edge's memory.
async fn publish_album(world: &World) {
    let album = (0..20).fold(Site::page("home"), |site, n| site.file(&format!("{n}.jpg"), noise(4_000_000)));
    let album = album.file("large.jpg", noise(8_000_000));
    publisher(world).await.publish("engine", &album).await;
}

pub(super) async fn slow_http2_readers(world: Arc<World>) -> Attack {
    publish_album(&world).await;
    repeat(32, 8, move |number, source| {
        let world = world.clone();
        async move {
            let path = if number % 4 == 0 { "/large.jpg".to_owned() } else { format!("/{}.jpg", number % 20) };
            if let Ok(attack) = stalls::Attacker::begin(&world, source, HOST, &path).await {
                let _ = timeout(STALL, attack.stall()).await;
            }
        }
    })
}

pub(super) async fn platform_floods(world: Arc<World>) -> Attack {
    repeat(160, 8, move |number, source| {
        let world = world.clone();
        async move {
            let length = ["10", "100000", ""][number % 3];
            let Ok(mut stream) = platform::hold(&world, source, length).await else { return };
            while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
        }
    })
}

pub(super) async fn heavy_manifests(world: Arc<World>) -> Attack {
    const RULED: usize = 100;
    const CROWDS: usize = 6;
    const FILES: usize = 9_990;
    let mallory = publisher(&world).await;
    let url = world.site_url("engine");
    mallory.create_project("engine").await;
    let css = ".a { color: red; margin: 0 auto; padding: 0 auto }\n".repeat(40);
    let ruled = Site::page("heavy").file("_headers", manifest_weight::rules()).tarball();
    let crowd = (0..FILES).fold(Site::page("home"), |site, n| site.file(&format!("{n}.css"), &css)).tarball();
    let mut addresses = Vec::new();
    for n in 0..RULED + CROWDS {
        let tarball = if n < RULED { &ruled } else { &crowd };
        let uploaded = mallory.post("/projects/engine/deployments").upload(tarball.clone()).await.created();
        let id = uploaded["deployment_id"].as_str().unwrap().trim_start_matches("dep_").to_owned();
        addresses.push(url.replacen("engine.", &format!("{id}--engine."), 1));
    }
    let clients: Vec<_> = (1..=4).map(|number| platform::client(&world, number)).collect();
    repeat(16, clients.len(), move |number, _| {
        let (client, addresses, world) = (clients[number % clients.len()].clone(), addresses.clone(), world.clone());
        async move {
            for n in 0..FILES {
                // Every file of the crowds, and between them a site with many rules.
                let crowd = &addresses[RULED + (number + n / 100) % CROWDS];
                let ruled = &addresses[(number * 7 + n) % RULED];
                for url in [format!("{crowd}/{n}.css"), ruled.clone()] {
                    let _ = client.head(world.edge().address(&url)).send().await;
                }
            }
        }
    })
}

pub(super) async fn silent_connections(world: Arc<World>) -> Attack {
    let ports = [world.edge().https_port, world.edge().http_port];
    repeat(16_000, 40, move |number, source| async move {
        match connect_from(source, ports[number % 2]).await {
            Ok(mut stream) => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
            Err(_) => crate::attacks::pause(Duration::from_millis(200)).await,
        }
    })
}

pub(super) async fn control_frames(world: Arc<World>) -> Attack {
    repeat(8, 8, move |_, source| {
        let world = world.clone();
        async move {
            let flood = frame(PING, 0, 0, &[0; 8]).repeat(control_frames::FLOOD);
            let _ = control_frames::said_to(&world, source, &flood).await;
        }
    })
}

pub(super) async fn slow_http1_readers(world: Arc<World>) -> Attack {
    publish_album(&world).await;
    let port = world.edge().http_port;
    repeat(1_000, 4, move |_, source| async move {
        if let Ok(stream) = trickles::reader(source, port, HOST).await {
            trickles::trickle(stream).await;
        }
    })
}
