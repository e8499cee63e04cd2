//! Names that are the platform's own, or that people and programs would take for it.

use serde_json::json;

use crate::world::{Site, World};

const TOKEN: &str = "dGhlLXRva2VuLW9mLWEtY2hhbGxlbmdl";

#[tokio::test]
async fn names_of_the_platform_and_well_known_ones_are_refused_everywhere() {
    let world = World::builder()
        .plan(&json!({}))
        .set("SITE__DNS_TARGET", "cname.edges.svc.localhost")
        .set("SITE__SHARE_DOMAIN", "shared.svc.localhost")
        .start()
        .await;
    let ada = world.user("ada").await;
    for name in [
        "www",
        "edges",
        "shared",
        "app",
        "default",
        "console",
        "login",
        "account",
        "billing",
        "security",
        "support",
        "abuse",
        "postmaster",
        "hostmaster",
        "webmaster",
        "noc",
        "info",
        "sales",
        "autodiscover",
        "autoconfig",
        "mta-sts",
        "wpad",
        "isatap",
        "localhost",
    ] {
        for path in ["/projects", "/orgs"] {
            let message = ada.post(path).json(&json!({ "name": name })).await.assert_error(400, "invalid_request");
            assert!(message.contains("reserved"), "{path} {name}: {message}");
        }
    }
    // A deleted project takes no such name either.
    ada.publish("engine", &Site::page("home")).await;
    let id = ada.project("engine").await["id"].as_str().unwrap().to_owned();
    ada.delete("/projects/engine").await.ok();
    let restore = |name: &str| ada.post(&format!("/deleted-projects/{id}/restore")).json(&json!({ "name": name }));
    for name in ["edges", "mta-sts", "default"] {
        restore(name).await.assert_error(400, "invalid_request");
    }
    restore("motor").await.ok();
}

#[tokio::test]
async fn a_site_that_has_such_a_name_is_served_and_proves_nothing() {
    const DOMAIN: &str = "www.shop.localhost";
    let challenge = format!("/.well-known/acme-challenge/{TOKEN}");
    let world = World::start().await;
    world.certify(&[DOMAIN]).await;
    let ada = world.user("ada").await;
    let site = Site::page("home").file(&challenge[1..], "for an authority").file(".well-known/other", "for all");
    ada.publish("engine", &site).await;
    // As if it had been made before the platform took the name.
    world.sql("UPDATE projects SET name = 'edge'").await;
    ada.attach("edge", DOMAIN).await;
    let shared = ada.share(&site, 1).await.url;
    let own = world.site_url("edge");
    let deployed = ada.deploy("edge", &site).await;
    let address = own.replace("//", &format!("//{}--", deployed.id.trim_start_matches("dep_")));
    for base in [own, shared, address] {
        world.edge().get(&base).await.assert_body(200, "home");
        world.edge().get(&format!("{base}/.well-known/other")).await.assert_body(200, "for all");
        let answer = world.edge().get(&format!("{base}{challenge}")).await.assert_status(404);
        assert_eq!(answer.text(), "", "{base}");
        let port = format!(":{}", world.public_port());
        let plain = base.replace("https", "http").replace(&port, "");
        world.edge().get(&format!("{plain}{challenge}")).await.assert_status(404);
    }
    // At a hostname of its owner's the file is theirs to prove what they like.
    let theirs = format!("{}{challenge}", world.domain_url(DOMAIN));
    world.edge().get(&theirs).await.assert_body(200, "for an authority");
}
