//! The API, judged by its own description: schemathesis sends what `/openapi.json` says can be sent, and what it says
//! cannot, and holds every answer against it. No 500, no status, header, type or field that is not described.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{Site, World, tools};

/// The variable that says how many requests of each kind an operation gets: `make api-test` sets it.
const EXAMPLES: &str = "SVC_TEST_API_EXAMPLES";
/// As many as a run of all tests has time for: each takes some ten seconds of all operations together.
const USUAL_EXAMPLES: &str = "25";

#[tokio::test]
async fn the_api_does_what_its_description_says() {
    let world = World::builder()
        .set("LIMITS__AUTH_DEVICE_PER_10_MIN", 1_000_000)
        .set("LIMITS__AUTH_POLL_PER_10_MIN", 1_000_000)
        .set("CODE_HOST__WEBHOOK_SECRET", "secret-of-the-webhooks")
        .play_money()
        .start()
        .await;
    let ada = world.user("ada").await;
    let own_token = ada.get("/tokens").await.ok()["tokens"][0]["id"].clone();
    let mut ids = Vec::new();
    for site in ["x", "y"] {
        ids.push(ada.post("/tokens").json(&json!({ "kind": "ai", "label": site })).await.created()["id"].clone());
    }
    ada.create_project("engine").await;
    for site in ["x", "y", "z"] {
        ids.push(ada.deploy("engine", &Site::page(site)).await.id.into());
    }
    ada.put("/projects/engine/env/A_KEY").json(&json!({ "value": "x" })).await.ok();
    ada.post("/projects/engine/domains").json(&json!({ "domain": "www.example.com" })).await.created();
    ada.share(&Site::page("share"), 1).await;
    ada.post("/orgs").json(&json!({ "name": "guild" })).await.created();
    ada.post("/projects").json(&json!({ "name": "workshop", "org": "guild" })).await.created();
    for email in ["bob@example.com", "eve@example.com"] {
        let invite = ada.post("/orgs/guild/invites").json(&json!({ "email": email, "role": "member" })).await.created();
        ids.push(invite["id"].clone());
        ids.push(invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().into());
    }
    let link = ada.put("/projects/engine/stats/public").json(&json!({ "enabled": true })).await.ok();
    ids.push(link["url"].as_str().unwrap().rsplit('/').next().unwrap().into());
    for kind in ["ai", "deploy"] {
        ids.push(ada.post("/orgs/guild/tokens").json(&json!({ "kind": kind })).await.created()["id"].clone());
    }
    // As JSON, quoted: so schemathesis wants it.
    let ids: Vec<String> = ids.iter().map(Value::to_string).collect();
    let folder = world.folder().join("schemathesis");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("ids.txt"), ids.join("\n")).unwrap();
    for file in ["schemathesis.toml", "schemathesis_hooks.py"] {
        let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(file);
        std::fs::copy(pinned, folder.join(file)).unwrap();
    }

    let api = format!("http://127.0.0.1:{}", world.admin_port);
    let examples = std::env::var(EXAMPLES).unwrap_or_else(|_| USUAL_EXAMPLES.to_owned());
    let mut command = tools::program("schemathesis");
    command
        .args([
            "run",
            &format!("{api}/openapi.json"),
            "--url",
            &api,
            "--checks",
            "all",
            "--max-examples",
            &examples,
            "--no-color",
        ])
        .current_dir(folder)
        .env("SVC_TOKEN", ada.token.as_deref().unwrap())
        .env("SVC_TOKEN_ID", own_token.as_str().unwrap());
    let output = command.output().await.unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
}
