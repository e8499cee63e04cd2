//! An edge that was stopped for longer than admin waits for it: what it remembers is old, and it must not serve that.

use std::sync::Arc;

use futures_util::future::join_all;

use super::PATIENCE;
use crate::world::{Site, World, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_slept_serves_nothing_old() {
    let world = Arc::new(World::start().await);
    let ada = world.user("ada").await;
    let texts = ["one", "two"];
    let one = ada.publish("engine", &Site::page(texts[0])).await;
    let two = ada.deploy("engine", &Site::page(texts[1])).await;
    let deployments = [&one.id, &two.id];
    for round in 0..6 {
        let text = texts[round % 2];
        // Known to the edge, over connections that stay.
        let kept = [world.edge().another_browser(true), world.edge().another_browser(false)];
        for browser in &kept {
            let answer = browser.get(one.url.clone()).send().await.unwrap().text().await.unwrap();
            assert_eq!(answer, texts[(round + 1) % 2]);
        }
        world.edge().process.signal("STOP");
        let receipt = ada.activate("engine", deployments[round % 2]).await.assert_status(200);
        assert!(receipt.header("x-svc-propagation").starts_with("0/1"), "{}", receipt.header("x-svc-propagation"));
        if round == 0 {
            eventually(PATIENCE, "admin has forgotten the edge", async || {
                let receipt = ada.activate("engine", deployments[0]).await;
                receipt.header("x-svc-propagation").starts_with("0/0")
            })
            .await;
        }
        // Asked while it sleeps, so that the first that it does is to answer.
        let browsers = kept.into_iter().flat_map(|browser| [browser.clone(), browser.clone(), browser]);
        let fresh = [true, false, true, false].map(|http2| world.edge().another_browser(http2));
        let visits: Vec<_> = browsers
            .chain(fresh)
            .map(|browser| {
                let sent = browser.get(one.url.clone()).send();
                tokio::spawn(async move { sent.await.unwrap().text().await.unwrap() })
            })
            .collect();
        tokio::task::yield_now().await;
        world.edge().process.signal("CONT");
        let answers = join_all(visits).await.into_iter().map(Result::unwrap);
        let old: Vec<_> = answers.filter(|answer| answer != text).collect();
        assert!(old.is_empty(), "round {round}: {} of the first 10 answers are old: {old:?}", old.len());
        eventually(PATIENCE, "admin hears the edge again", async || {
            let receipt = ada.activate("engine", deployments[round % 2]).await;
            receipt.header("x-svc-propagation").starts_with("1/1")
        })
        .await;
    }
}
