//! A new or removed icon is on every edge before admin has answered.

use futures_util::future::join_all;
use reqwest::Method;

use crate::{
    BACKGROUND,
    orgs::icons::png,
    world::{World, eventually, request::Request},
};

const SHOWN: [&str; 2] = ["https://api.svc.localhost/orgs/acme/icon", "https://app.svc.localhost/api/orgs/acme/icon"];

/// The answers of every edge at every address of the icon.
async fn shown(world: &World) -> Vec<(u16, Vec<u8>)> {
    let asked = world.edges.iter().flat_map(|edge| {
        SHOWN.map(|url| async move {
            let url = edge.address(url);
            let request = Request::new(&edge.browser, Method::GET, url.as_str());
            let answer = request.of_api(Method::GET, "/orgs/acme/icon").await;
            (answer.status.as_u16(), answer.body.to_vec())
        })
    });
    join_all(asked).await
}

/// The number of times that admin was asked for an icon.
fn asked(world: &World) -> usize {
    let log = world.admin.log();
    log.lines().filter(|line| line.contains("GET") && line.contains("/orgs/{name}/icon")).count()
}

#[tokio::test]
async fn a_new_icon_is_on_every_edge_at_once() {
    let world = World::builder().edges(2).start().await;
    let org = world.acme().await;
    let put = async |side: u32| {
        let answer = org.owner.put("/orgs/acme/icon").header("content-type", "image/png").body(png(side, 1)).await;
        answer.assert_status(200).header("x-svc-propagation").to_owned()
    };
    eventually(BACKGROUND, "admin has heard of both edges", async || put(1).await.starts_with("2/2")).await;
    for side in 2..22 {
        put(side).await;
        for (status, image) in shown(&world).await {
            assert!(status == 200 && image == png(side, 1), "{status} after icon {side}");
        }
        let before = asked(&world);
        shown(&world).await;
        assert_eq!(asked(&world), before, "it is kept");
    }
    org.owner.delete("/orgs/acme/icon").await.ok();
    assert!(shown(&world).await.iter().all(|(status, _)| *status == 404));
    put(1).await;
    assert!(shown(&world).await.iter().all(|(_, image)| *image == png(1, 1)));
}

#[tokio::test]
async fn an_organization_that_takes_a_name_does_not_show_the_icon_of_the_last_one() {
    let world = World::builder().edges(2).start().await;
    let org = world.acme().await;
    let put = async || {
        let request = org.owner.put("/orgs/acme/icon").header("content-type", "image/png").body(png(1, 1));
        request.await.assert_status(200).header("x-svc-propagation").to_owned()
    };
    eventually(BACKGROUND, "admin has heard of both edges", async || put().await.starts_with("2/2")).await;
    assert!(shown(&world).await.iter().all(|(status, _)| *status == 200));
    assert!(shown(&world).await.iter().all(|(status, _)| *status == 200));
    org.owner.delete("/orgs/acme").await.assert_status(200);
    assert!(shown(&world).await.iter().all(|(status, _)| *status == 404));
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '30 days'").await;
    world.user("another").await.create_org("acme").await;
    assert!(shown(&world).await.iter().all(|(status, _)| *status == 404));
}

#[tokio::test]
async fn versions_are_kept_and_made_up_ones_are_not() {
    let mut world = World::start().await;
    let org = world.acme().await;
    let stored = org.owner.put("/orgs/acme/icon").header("content-type", "image/png").body(png(1, 1)).await.ok();
    let url = format!("https://api.svc.localhost{}", stored["icon_url"].as_str().unwrap());
    let made_up = "https://api.svc.localhost/orgs/acme/icon?v=0000000000000000";
    for _ in 0..3 {
        world.edge().get(&url).await.assert_body(200, png(1, 1));
        world.edge().get(made_up).await.assert_body(200, png(1, 1));
    }
    assert_eq!(asked(&world), 4);
    assert_eq!(world.edge().get(&url).await.find_header("surrogate-key"), None);
    assert_eq!(world.edge().get(made_up).await.find_header("surrogate-key"), None);
    world.admin.kill();
    world.edge().get(&url).await.assert_body(200, png(1, 1));
    world.edge().get(made_up).await.assert_status(502);
}
