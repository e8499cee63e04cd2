//! `svc domains add --wait`, and the states of domains.

use serde_json::json;

use crate::{
    cli::Shell,
    world::{Site, World},
};

/// A world whose own authority signs names under `localhost`, and no others.
async fn local() -> World {
    let folder = World::start().await.ca().parent().unwrap().display().to_string();
    World::builder().set("ACME__ISSUER", "local").set("ACME__LOCAL_DIR", folder).start().await
}

#[tokio::test]
async fn waiting_ends_when_the_domain_is_live_or_cannot_be() {
    let world = local().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let mut stream = ada.follow(None).await;
    let shell = Shell::new(&world, ada.token.clone());
    shell.write(".svcproject", "engine\n");
    let live = shell.run(&["domains", "add", "www.shop.localhost", "--wait"]).await;
    assert!(live.code == 0 && live.err.contains("is live"), "{}", live.err);
    stream.until("domain.attach").await;
    loop {
        let told = stream.until("domain.state").await.data;
        assert_eq!((&told["subject"], &told["project"]), (&json!("www.shop.localhost"), &json!("engine")));
        if told["detail"]["state"] == "live" {
            break;
        }
    }

    let blocked = shell.run(&["domains", "add", "www.shop.example", "--wait", "--timeout", "60"]).await;
    assert!(blocked.code == 1 && blocked.err.contains("certs import"), "{} {}", blocked.code, blocked.err);
    let told = shell.run(&["--json", "domains", "add", "www.shop.example", "--wait"]).await;
    assert!(
        told.code == 1 && format!("{}{}", told.out, told.err).contains("domain_blocked"),
        "{} {}",
        told.out,
        told.err
    );
    let never = shell.run(&["domains", "add", "x.shop.example", "--wait", "--timeout", "0"]).await;
    assert_eq!(never.code, 1, "{}", never.err);
    let alone = shell.run(&["domains", "add", "x.shop.example", "--timeout", "5"]).await;
    assert_eq!(alone.code, 2, "{}", alone.err);
}

#[tokio::test]
async fn waiting_goes_on_without_events() {
    let world = local().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    // All places are taken.
    let mut streams = Vec::new();
    for _ in 0..16 {
        streams.push(ada.follow(None).await);
    }
    let shell = Shell::new(&world, ada.token.clone());
    let live = shell.run(&["domains", "add", "www.shop.localhost", "--wait", "--project", "engine"]).await;
    assert!(live.code == 0 && live.err.contains("is live"), "{}", live.err);
}
