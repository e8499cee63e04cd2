//! The public link: statistics for whoever has it, until it is turned off.

use serde_json::{Value, json};

use super::{rows::sums, *};
use crate::world::{answer::assert_keys, request::Request};

const CONSOLE: &str = "https://app.svc.localhost";

fn set(actor: &Actor, project: &str, enabled: bool) -> Request {
    actor.put(&format!("/projects/{project}/stats/public")).json(&json!({ "enabled": enabled }))
}

#[tokio::test]
async fn a_link_shows_statistics_to_everybody_until_it_is_turned_off() {
    let visited = Visited::start(&Site::page("home")).await;
    let off = json!({ "enabled": false, "url": null });
    assert_eq!(visited.report("public").await, off);
    visited
        .append(
            0,
            &sums(20, 2_000, 9),
            &[
                ("view", "/<b>x</b>\tnews.example\tDE\tengine.svc.localhost", 9, 900),
                ("agent", "ai_training\tGPTBot\tname", 4, 40),
                ("agent", "person\t\tbehaviour", 16, 40),
                ("error", "404\t/secret-path\t", 4, 4),
            ],
            0..3,
        )
        .await;
    let on = set(&visited.ada, "engine", true).await.ok();
    assert_eq!(on["enabled"], true);
    let url = on["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(CONSOLE), "{url}");
    assert_eq!(visited.report("public").await, on);
    assert_eq!(set(&visited.ada, "engine", true).await.ok(), on, "it stays as it is");

    let page = visited.world.edge().get(&url).await.assert_status(200);
    let text = page.text();
    for part in [
        "<h1>engine</h1>",
        "<strong>9</strong> page views",
        "<strong>2 KB</strong> sent",
        "<svg",
        "9 page views, 3 visitors",
        "/&#60;b&#62;x",
        "news.example",
        "DE",
        "<td class=\"number\">16</td>",
        "noindex",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<script") && !text.contains("secret-path") && !text.contains("<b>x"), "{text}");
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!((page.header("cache-control"), page.header("referrer-policy")), ("no-store", "same-origin"));

    let token = url.rsplit('/').next().unwrap();
    let nobody = visited.world.nobody();
    let stats = nobody.get(&format!("/stats/{token}")).await.ok();
    assert_keys(
        &stats,
        "project from to days requests bytes pageviews previous timeline top_pages top_referrers top_countries bots",
    );
    assert_eq!((&stats["project"], &stats["requests"], &stats["pageviews"]), (&json!("engine"), &json!(20), &json!(9)));
    assert_eq!((stats["timeline"].as_array().unwrap().len(), &stats["timeline"][29]["visitors"]), (30, &json!(3)));
    assert_eq!(stats["bots"]["people"]["requests"], 16);
    // Where the page's own link to it leads.
    let same = visited.world.edge().get(&format!("{CONSOLE}/api/stats/{token}")).await.ok();
    assert_eq!(same["top_pages"], stats["top_pages"]);

    assert_eq!(set(&visited.ada, "engine", false).await.ok(), off);
    visited.world.edge().get(&url).await.assert_status(404);
    nobody.get(&format!("/stats/{token}")).await.assert_error(404, "not_found");
    set(&visited.ada, "engine", false).await.ok();
    let again = set(&visited.ada, "engine", true).await.ok();
    assert_ne!(again["url"], url, "a link that was turned off never works again");
    visited.world.edge().get(&url).await.assert_status(404);
    let log = visited.ada.get("/projects/engine/audit").await.ok();
    let actions: Vec<_> = log["entries"].as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(&actions[..3], ["stats.publish", "stats.unpublish", "stats.publish"]);
    assert!(!log.to_string().contains(token), "the log names no link");

    let url = again["url"].as_str().unwrap();
    visited.ada.delete("/projects/engine").await.ok();
    visited.world.edge().get(url).await.assert_status(404);
}

#[tokio::test]
async fn admins_turn_the_link_on_and_members_see_it() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.member.create_project_in(&staff.org, "engine").await;
    set(&staff.member, "engine", true).await.assert_error(403, "forbidden");
    let on = set(&staff.admin, "engine", true).await.ok();
    assert_eq!(staff.member.get("/projects/engine/stats/public").await.ok(), on);
    world.user("eve").await.get("/projects/engine/stats/public").await.assert_error(404, "not_found");
    for body in [json!({}), json!({ "enabled": "yes" }), json!({ "enabled": null }), json!([])] {
        staff.owner.put("/projects/engine/stats/public").json(&body).await.assert_error(400, "invalid_request");
    }
    // Members see what is counted, too.
    for path in ["audience", "bots", "errors", "history", "export"] {
        staff.member.get(&format!("/projects/engine/stats/{path}")).await.assert_status(200);
    }
}

#[tokio::test]
async fn what_is_no_link_is_not_found() {
    let world = World::start().await;
    let nobody = world.nobody();
    for token in ["x", "%00", &"A".repeat(43), &"A".repeat(5_000), "%F0%9F%A6%80"] {
        let status = nobody.get(&format!("/stats/{token}")).await;
        assert_eq!(status.status, 404, "{token}: {}", status.text());
        world.edge().get(&format!("{CONSOLE}/stats/{token}")).await.assert_status(404);
    }
}

#[tokio::test]
async fn an_expired_share_has_no_statistics() {
    let visited = Visited::start(&Site::page("home")).await;
    visited.ada.share(&Site::page("shared"), 1).await;
    let shares = visited.ada.get("/shares").await.ok();
    let name = shares["shares"][0]["project"].as_str().unwrap().to_owned();
    let on: Value = set(&visited.ada, &name, true).await.ok();
    let url = on["url"].as_str().unwrap();
    visited.world.edge().get(url).await.assert_status(200);
    visited
        .world
        .sql("UPDATE projects SET expires_at = now() - interval '1 second' WHERE share_name IS NOT NULL")
        .await;
    visited.world.edge().get(url).await.assert_status(404);
}
