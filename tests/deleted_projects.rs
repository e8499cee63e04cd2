//! `/deleted-projects`: a project that was deleted comes back as it was, and `svc projects restore`.

use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    cli::Shell,
    world::{Actor, Site, World, answer::assert_keys, eventually},
};

/// The projects that the actor can restore.
async fn deleted(actor: &Actor) -> Vec<Value> {
    actor.get("/deleted-projects").await.ok()["projects"].as_array().unwrap().clone()
}

fn path(project: &Value) -> String {
    format!("/deleted-projects/{}/restore", project["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_deleted_project_comes_back_as_it_was() {
    let world = World::builder().set("EDGE__HTTP_MODE", "serve").start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    ada.put("/projects/engine/env/KEY").json(&json!({ "value": "secret", "scope": "build" })).await.ok();
    for domain in ["www.kept.example", "www.taken.example"] {
        ada.post("/projects/engine/domains").json(&json!({ "domain": domain })).await.created();
    }
    ada.put("/projects/engine/stats/public").json(&json!({ "enabled": true })).await.ok();
    ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    ada.activate("engine", &first.id).await.ok();
    let before = ada.project("engine").await;
    let link = ada.get("/projects/engine/stats/public").await.ok();
    world
        .sql(
            "INSERT INTO traffic_days (day, project_id, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx,
                                       status_4xx, status_5xx, status_other, pageviews, people_bytes)
             SELECT current_date - 2, id, 7, 7, 0, 0, 7, 0, 0, 0, 0, 7, 7 FROM projects",
        )
        .await;

    ada.delete("/projects/engine").await.ok();
    world.edge().get(&first.url).await.assert_status(404);
    let kept = deleted(&ada).await;
    assert_eq!(kept.len(), 1);
    assert_keys(&kept[0], "id name org domains deleted_at restorable_until");
    assert_eq!(kept[0]["domains"], json!(["www.kept.example", "www.taken.example"]));
    assert_eq!((&kept[0]["name"], &kept[0]["id"], &kept[0]["org"]), (&json!("engine"), &before["id"], &Value::Null));
    // Whoever deletes traffic that nobody can ask for leaves it.
    world.sql("UPDATE traffic_removals SET queued_at = queued_at - interval '3 days'").await;
    // Nobody else gets who still follows its domains.
    let eve = world.user("eve").await;
    eve.create_project("hers").await;
    let taken = json!({ "domain": "www.taken.example" });
    let message = eve.post("/projects/hers/domains").json(&taken).await.assert_error(409, "domain_taken");
    assert!(message.contains("30 days") && message.contains("_svc-challenge.www.taken.example TXT"), "{message}");
    ada.create_project("other").await;
    ada.post("/projects/other/domains").json(&taken).await.created();

    let restored = ada.post(&path(&kept[0])).json(&json!({})).await;
    assert!(restored.header("x-svc-propagation").starts_with("1/1;"), "{}", restored.header("x-svc-propagation"));
    let restored = restored.ok();
    assert_eq!((&restored["id"], &restored["active_deployment_id"]), (&before["id"], &json!(first.id)));
    let after = ada.project("engine").await;
    for same in ["deployments", "access", "created_at", "url", "repo"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    let domains: Vec<_> = after["domains"].as_array().unwrap().iter().map(|domain| &domain["domain"]).collect();
    assert_eq!(domains, ["www.kept.example"]);
    let env = ada.get("/projects/engine/env").await.ok();
    assert_eq!(env["env"], json!([{ "key": "KEY", "value": "secret", "scope": "build" }]));
    assert_eq!(ada.get("/projects/engine/stats/public").await.ok(), link);
    let history = ada.get("/projects/engine/stats/history").await.ok();
    assert_eq!(history["totals"]["requests"], 7);

    world.edge().get(&first.url).await.assert_status(401);
    ada.delete("/projects/engine/password").await.ok();
    world.edge().get(&first.url).await.assert_body(200, "one");
    world.edge().get(&second.permanent_url()).await.assert_body(200, "two");
    world.edge().get("http://www.kept.example/").await.assert_body(200, "one");
    ada.activate("engine", &second.id).await.ok();
    world.edge().get(&first.url).await.assert_body(200, "two");
    assert_eq!(deleted(&ada).await.len(), 0);
    ada.post(&path(&kept[0])).json(&json!({})).await.assert_error(404, "not_found");
    let log = ada.get("/projects/engine/audit").await.ok();
    assert_eq!(log["entries"][2]["action"], "project.restore", "{log}");
    assert_eq!(world.sql_number("SELECT count(*) FROM pack_removals").await, 0);
    assert_eq!((world.stored_files().len(), world.trashed_files().len()), (4, 0));
}

#[tokio::test]
async fn a_name_in_use_and_a_full_plan_stand_in_the_way() {
    let world = World::builder().plan(&json!({ "projects": 2 })).start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("first")).await;
    ada.delete("/projects/engine").await.ok();
    ada.publish("engine", &Site::page("second")).await;
    let kept = deleted(&ada).await;
    let message = ada.post(&path(&kept[0])).json(&json!({})).await.assert_error(409, "name_taken");
    assert!(message.contains("`name`"), "{message}");
    ada.create_project("other").await;
    let named = json!({ "name": "engine-of-old" });
    ada.post(&path(&kept[0])).json(&named).await.assert_error(403, "plan_limit_reached");
    ada.delete("/projects/other").await.ok();
    ada.post(&path(&kept[0])).json(&json!({ "name": "WRONG" })).await.assert_error(400, "invalid_request");
    assert_eq!(ada.post(&path(&kept[0])).json(&named).await.ok()["name"], "engine-of-old");
    world.edge().get(&world.site_url("engine-of-old")).await.assert_body(200, "first");
    world.edge().get(&site.url).await.assert_body(200, "second");
}

#[tokio::test]
async fn after_a_week_it_is_gone_and_shares_are_at_once() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("one")).await;
    ada.put("/projects/engine/env/KEY").json(&json!({ "value": "secret" })).await.ok();
    let share = ada.share(&Site::page("look"), 1).await;
    ada.delete("/projects/engine").await.ok();
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    let kept = deleted(&ada).await;
    assert_eq!(kept.len(), 1, "a share is not kept");
    world
        .sql(
            "UPDATE deleted_projects SET deleted_at = deleted_at - interval '7 days';
             UPDATE pack_removals SET next_attempt_at = next_attempt_at - interval '7 days'",
        )
        .await;
    assert_eq!(deleted(&ada).await.len(), 0);
    ada.post(&path(&kept[0])).json(&json!({})).await.assert_error(404, "not_found");
    world.restart_admin_later().await;
    let left = "SELECT (SELECT count(*) FROM deleted_projects) + (SELECT count(*) FROM deleted_env_vars)";
    eventually(BACKGROUND, "nothing is kept of it", async || world.sql_number(left).await == 0).await;
    eventually(BACKGROUND, "its pack is in the trash", async || world.stored_files().is_empty()).await;
    assert_eq!(world.trashed_files().len(), 2 * 3);
}

#[tokio::test]
async fn an_organizations_admins_restore_its_projects() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    staff.owner.deploy("engine", &Site::page("ours")).await;
    staff.owner.put("/projects/engine/access").json(&json!({ "mode": "org" })).await.ok();
    staff.admin.delete("/projects/engine").await.ok();
    let list = "/deleted-projects?org=acme";
    staff.member.get(list).await.assert_error(403, "forbidden");
    world.user("eve").await.get(list).await.assert_error(404, "not_found");
    assert_eq!(deleted(&staff.admin).await.len(), 0, "it is not theirs");
    let kept = staff.admin.get(list).await.ok()["projects"][0].clone();
    assert_eq!(kept["org"], "acme");
    assert_eq!(staff.owner.post(&path(&kept)).json(&json!({})).await.ok()["org"], "acme");
    assert_eq!(staff.member.project("engine").await["access"], json!({ "mode": "org" }));
    // It goes with its organization.
    staff.owner.delete("/projects/engine").await.ok();
    staff.owner.delete("/orgs/acme").await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM deleted_projects").await, 0);
}

/// An organization without a plan of its own is charged to its creator, whose own deleted projects are not its admins' to
/// push out.
#[tokio::test]
async fn an_organization_pushes_out_nothing_that_its_creator_may_restore() {
    let world = World::builder().plan(&json!({ "projects": 6, "orgs": 2 })).start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.create_org("other").await;
    staff.owner.create_project("mine").await;
    staff.owner.delete("/projects/mine").await.ok();
    staff.owner.post("/projects").json(&json!({ "name": "theirs", "org": "other" })).await.created();
    staff.owner.delete("/projects/theirs").await.ok();
    for n in 0..8 {
        staff.admin.post("/projects").json(&json!({ "name": format!("junk-{n}"), "org": "acme" })).await.created();
        staff.admin.delete(&format!("/projects/junk-{n}")).await.ok();
    }
    let names = async |list: &str| -> Vec<String> {
        let found = staff.owner.get(list).await.ok()["projects"].as_array().unwrap().clone();
        found.iter().map(|project| project["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/deleted-projects").await, ["mine"]);
    assert_eq!(names("/deleted-projects?org=other").await, ["theirs"]);
    assert_eq!(names("/deleted-projects?org=acme").await, ["junk-7", "junk-6", "junk-5"], "half of the creator's six");
}

#[tokio::test]
async fn svc_lists_and_restores_deleted_projects() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("one")).await;
    let shell = Shell::new(&world, ada.token.clone());
    assert_eq!(shell.json(&["projects", "deleted"]).await["projects"], json!([]));
    let removed = shell.run(&["projects", "rm", "engine", "--yes"]).await;
    assert!(removed.err.contains("svc projects restore engine"), "{}", removed.err);
    assert_eq!(shell.json(&["projects", "deleted"]).await["projects"][0]["name"], "engine");
    let missing = shell.run(&["projects", "restore", "nothing"]).await;
    assert_eq!(missing.code, 4, "{}", missing.err);
    ada.create_project("engine").await;
    let taken = shell.run(&["projects", "restore", "engine"]).await;
    assert!(taken.code == 5 && taken.err.contains("--as NAME"), "{} {}", taken.code, taken.err);
    assert_eq!(shell.json(&["projects", "restore", "engine", "--as", "engine-2"]).await["name"], "engine-2");
    world.edge().get(&world.site_url("engine-2")).await.assert_body(200, "one");

    // What it cannot have back is named.
    ada.post("/projects/engine-2/domains").json(&json!({ "domain": "www.taken.example" })).await.created();
    assert_eq!(shell.run(&["projects", "rm", "engine-2", "--yes"]).await.code, 0);
    ada.post("/projects/engine/domains").json(&json!({ "domain": "www.taken.example" })).await.created();
    let restored = shell.run(&["projects", "restore", "engine-2"]).await;
    assert!(restored.err.contains("www.taken.example did not come back"), "{}", restored.err);

    // The command that is said to bring it back does, for a project of an organization, too.
    ada.post("/orgs").json(&json!({ "name": "acme" })).await.created();
    ada.post("/projects").json(&json!({ "name": "shared", "org": "acme" })).await.created();
    let removed = shell.run(&["projects", "rm", "shared", "--yes"]).await;
    assert!(removed.err.contains("svc projects restore shared --org acme"), "{}", removed.err);
    assert_eq!(shell.json(&["projects", "restore", "shared", "--org", "acme"]).await["name"], "shared");
}

/// What is restored column by column is every column that there is.
#[tokio::test]
async fn no_column_is_left_out() {
    let world = World::start().await;
    // A share's own, and what is kept beside the JSON.
    let known = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND (
            (table_name = 'projects' AND column_name NOT IN ('id', 'name', 'user_id', 'org_id', 'active_deployment_id',
                'access_mode', 'password_hash', 'access_version', 'share_name', 'expires_at', 'suspended_at',
                'suspended_for', 'created_at'))
         OR (table_name = 'deployments' AND column_name NOT IN ('id', 'project_id', 'status', 'files', 'bytes', 'cli_version',
                'git_sha', 'created_by', 'failure', 'access_version', 'created_at', 'superseded_at', 'stored_bytes'))
         OR (table_name = 'custom_domains' AND column_name NOT IN ('domain', 'project_id', 'created_at', 'proven_at'))
         OR (table_name = 'env_vars' AND column_name NOT IN ('project_id', 'key', 'sealed_value', 'scope', 'value_bytes',
                'created_at', 'updated_at'))
         OR (table_name = 'public_stats' AND column_name NOT IN ('project_id', 'token', 'created_at', 'created_by'))
         OR (table_name = 'repo_links' AND column_name NOT IN ('project_id', 'installation_id', 'org_id', 'repo_id', 'repo',
                'owner_avatar_url', 'branch', 'directory', 'linked_by', 'linked_at', 'last_sha', 'head_sha',
                'check_head_at')))";
    assert_eq!(
        world.sql_number(known).await,
        0,
        "common/db/src/projects/deleted.rs has to restore the new column, and this list to name it"
    );
    // Tables that belong to a project, and go with it: a new one has to be kept, or to be named here with the reason.
    let owned =
        "SELECT string_agg(DISTINCT conrelid::regclass::text, ' ' ORDER BY conrelid::regclass::text) FROM pg_constraint
                 WHERE contype = 'f' AND confrelid = 'projects'::regclass";
    // Tickets live for a minute, and faults of packs are found again by the next check.
    let kept_or_named = "custom_domains deployments env_vars gate_tickets pack_faults public_stats repo_links";
    assert_eq!(world.sql_text(owned).await, kept_or_named);
}
