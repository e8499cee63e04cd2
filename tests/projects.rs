//! `/projects`.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    world::{
        Site, World,
        answer::{assert_keys, assert_one_took_the_name, parse_id, parse_timestamp},
        eventually,
    },
};

fn assert_project(project: &Value) {
    assert_keys(project, "id name org url active_deployment_id expires_at created_at");
    parse_id(&project["id"], "prj_");
    parse_timestamp(&project["created_at"]);
}

#[tokio::test]
async fn a_new_project_has_an_address_and_nothing_on_it() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let project = ada.create_project("engine").await;
    assert_project(&project);
    assert_eq!(project["name"], "engine");
    assert_eq!(project["org"], Value::Null);
    assert_eq!(project["url"], world.site_url("engine"));
    assert_eq!(project["active_deployment_id"], Value::Null);
    assert_eq!(project["expires_at"], Value::Null);

    let detail = ada.project("engine").await;
    assert_keys(&detail, "id name org url active_deployment_id expires_at created_at deployments domains access repo");
    assert_eq!(detail["id"], project["id"]);
    assert_eq!(detail["deployments"], json!([]));
    assert_eq!(detail["domains"], json!([]));
    assert_eq!(detail["access"], json!({ "mode": "public" }));
    assert_eq!(detail["repo"], Value::Null);
    world.edge().get(&world.site_url("engine")).await.assert_status(404);
}

#[tokio::test]
async fn names_have_rules() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let (long, longest) = ("x".repeat(41), "x".repeat(40));
    for bad in [
        "",
        "ab",
        long.as_str(),
        "Engine",
        "my_site",
        "my.site",
        "my site",
        "ängine",
        "-abc",
        "abc-",
        "a/b",
        "..",
        "xn--abc",
        "tmp-site",
        "tmp-",
        "www",
        "api",
        "ai",
        "app",
        "admin",
        "dashboard",
        "status",
        "docs",
        "mail",
        "postmaster",
        "autodiscover",
        "support",
        "localhost",
        "0123456789abcdefghij--site",
        "abc\n",
        "abc\u{0}",
    ] {
        let message = ada.post("/projects").json(&json!({ "name": bad })).await.assert_error(400, "invalid_request");
        assert!(message.contains("name"), "{bad:?}: {message}");
    }
    for body in [json!({}), json!({ "name": null }), json!({ "name": 5 }), json!([]), json!("engine")] {
        ada.post("/projects").json(&body).await.assert_error(400, "invalid_request");
    }
    for good in ["abc", longest.as_str(), "0-0", "my-site", "admin2", "tmpsite"] {
        ada.create_project(good).await;
    }
    ada.post("/projects").json(&json!({ "name": "engine", "colour": "red" })).await.created();
}

#[tokio::test]
async fn a_name_is_taken_once() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.create_project("engine").await;
    for actor in [&ada, &eve] {
        actor.post("/projects").json(&json!({ "name": "engine" })).await.assert_error(409, "name_taken");
    }
}

#[tokio::test]
async fn a_name_that_was_given_up_is_its_former_owners_for_30_days() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let org = eve.create_org("umbrella").await;
    ada.publish("engine", &Site::page("home")).await;
    ada.delete("/projects/engine").await.ok();
    let body = json!({ "name": "engine" });
    let message = eve.post("/projects").json(&body).await.assert_error(409, "name_taken");
    assert!(message.contains("30 days"), "{message}");
    eve.post("/projects").json(&json!({ "name": "engine", "org": org.name })).await.assert_error(409, "name_taken");
    eve.get("/projects/engine").await.assert_error(404, "not_found");
    // An organization's name is another thing.
    eve.create_org("engine").await;
    // Ada has it back at once, in an organization of hers as well.
    ada.create_project("engine").await;
    ada.delete("/projects/engine").await.ok();
    let acme = ada.create_org("acme").await;
    ada.create_project_in(&acme, "engine").await;
    ada.deploy("engine", &Site::page("home")).await;
    ada.delete("/projects/engine").await.ok();
    // The last owner was the organization.
    ada.post("/projects").json(&body).await.assert_error(409, "name_taken");
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '29 days 23 hours'").await;
    eve.post("/projects").json(&body).await.assert_error(409, "name_taken");
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '1 hour'").await;
    eve.publish("engine", &Site::page("home")).await;
    assert_eq!(world.sql_number("SELECT count(*) FROM retired_names").await, 0);
    // It is eve's now, and hers alone when she gives it up.
    eve.delete("/projects/engine").await.ok();
    ada.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.assert_error(409, "name_taken");
    eve.create_project("engine").await;
}

#[tokio::test]
async fn nobody_slips_in_while_a_name_is_given_up() {
    let world = World::builder().plan(&json!({})).start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    for round in 0..10 {
        let name = format!("engine-{round}");
        ada.publish(&name, &Site::page("home")).await;
        let body = json!({ "name": name });
        let tries = join_all((0..8).map(|_| async { eve.post("/projects").json(&body).await }));
        let (deleted, tries) = tokio::join!(async { ada.delete(&format!("/projects/{name}")).await }, tries);
        deleted.ok();
        for answer in tries {
            answer.assert_error(409, "name_taken");
        }
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM retired_names").await, 10);
}

#[tokio::test]
async fn names_of_shares_are_nobodys_and_old_names_are_forgotten() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.share(&Site::page("x"), 1).await;
    let share = ada.get("/shares").await.ok()["shares"][0]["name"].as_str().unwrap().to_owned();
    ada.delete(&format!("/shares/{share}")).await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM retired_names").await, 0);
    for name in ["old", "new"] {
        ada.publish(name, &Site::page("home")).await;
        ada.delete(&format!("/projects/{name}")).await.ok();
    }
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '31 days' WHERE name = 'old'").await;
    world.restart_admin_later().await;
    crate::world::eventually(crate::BACKGROUND, "the old name is forgotten", async || {
        world.sql_text("SELECT string_agg(name, ' ') FROM retired_names").await == "new"
    })
    .await;
}

#[tokio::test]
async fn fifty_racing_creations_of_a_name_make_one_project() {
    let world = World::start().await;
    let people = [world.user("ada").await, world.user("eve").await];
    let mut clients = Vec::new();
    for number in 0..50 {
        let person = &people[number % 2];
        let token = person.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
        clients.push(person.with_token(token["token"].as_str().unwrap()));
    }
    let requests =
        clients.iter().map(|client| async { client.post("/projects").json(&json!({ "name": "engine" })).await });
    assert_one_took_the_name(join_all(requests).await);
    assert_eq!(world.sql_number("SELECT count(*) FROM audit_log WHERE action = 'project.create'").await, 1);
}

#[tokio::test]
async fn projects_are_listed_newest_first_and_paged() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for name in ["first", "second", "third"] {
        ada.create_project(name).await;
    }
    world.user("eve").await.create_project("eves").await;
    ada.share(&Site::page("shared"), 1).await;

    let list = ada.get("/projects").await.ok();
    assert_keys(&list, "projects next_cursor");
    let names = |list: &Value| -> Vec<String> {
        list["projects"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
    };
    list["projects"].as_array().unwrap().iter().for_each(assert_project);
    assert_eq!(names(&list), ["third", "second", "first"]);
    assert_eq!(list["next_cursor"], Value::Null);

    let page = ada.get("/projects?limit=2").await.ok();
    assert_eq!(names(&page), ["third", "second"]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = ada.get(&format!("/projects?limit=2&cursor={cursor}")).await.ok();
    assert_eq!(names(&page), ["first"]);
    assert_eq!(page["next_cursor"], Value::Null);
    for query in ["limit=0", "limit=101", "limit=x", "limit=256", "cursor=nonsense"] {
        ada.get(&format!("/projects?{query}")).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn lists_are_searched_and_ordered_by_the_server_page_by_page() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for name in ["charlie", "alpha-one", "bravo-one", "delta-one"] {
        ada.create_project(name).await;
    }
    ada.create_org("acme").await;
    ada.post("/projects").json(&json!({ "name": "echo-one", "org": "acme" })).await.created();
    for name in ["bravo-one", "charlie"] {
        ada.upload(name, &Site::page(name)).await.created();
    }
    // One row a page: each cursor of each order is followed.
    for (query, expected) in [
        ("", "delta-one bravo-one alpha-one charlie"),
        ("&order=newest", "delta-one bravo-one alpha-one charlie"),
        ("&all=true", "echo-one delta-one bravo-one alpha-one charlie"),
        ("&order=name", "alpha-one bravo-one charlie delta-one"),
        ("&order=deployed", "charlie bravo-one delta-one alpha-one"),
        ("&search=-ONE", "delta-one bravo-one alpha-one"),
        ("&search=one&order=name&all=true", "alpha-one bravo-one delta-one echo-one"),
        ("&search=one&order=deployed&all=true", "bravo-one echo-one delta-one alpha-one"),
        ("&org=acme&order=deployed", "echo-one"),
        ("&search=%25", ""),
        ("&search=%00", ""),
        ("&search=_", ""),
        ("&search=%20", "delta-one bravo-one alpha-one charlie"),
    ] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = ada.get(&format!("/projects?limit=1{query}{cursor}")).await.ok();
            let projects = page["projects"].as_array().unwrap();
            assert!(projects.len() <= 1, "{query}");
            projects.iter().for_each(assert_project);
            found.extend(projects.iter().map(|project| project["name"].as_str().unwrap().to_owned()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found.join(" "), expected, "{query}");
    }
    for query in ["order=age", "order=deployed&cursor=charlie", "summary=perhaps"] {
        ada.get(&format!("/projects?{query}")).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_list_says_at_a_glance_how_each_project_is() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for name in ["engine", "empty"] {
        ada.create_project(name).await;
    }
    let deployed = ada.upload("engine", &Site::page("home")).await.created();
    ada.upload("engine", &Site::new()).await.assert_error(400, "invalid_archive");
    ada.attach("engine", "www.engine.example").await;
    world.edge().get(&world.site_url("engine")).await.assert_status(200);

    let summaries = async || {
        let list = ada.get("/projects?summary=true").await.ok();
        let of = |place: usize| list["projects"][place]["summary"].clone();
        [of(1), of(0)]
    };
    let requests = |summary: &Value| -> u64 {
        summary["hours"].as_array().unwrap().iter().map(|hour| hour["requests"].as_u64().unwrap()).sum()
    };
    let [engine, empty] = summaries().await;
    for summary in [&engine, &empty] {
        assert_keys(summary, "deployed_at last_failed suspended stored_bytes domains_blocked domains_coming hours");
        assert_eq!(summary["hours"].as_array().unwrap().len(), 24);
        assert_eq!(summary["suspended"], Value::Null);
    }
    let detail = ada.project("engine").await;
    let live = detail["deployments"].as_array().unwrap().iter().find(|row| row["active"] == true).unwrap();
    assert_eq!(live["id"], deployed["deployment_id"]);
    assert_eq!(engine["deployed_at"], live["created_at"]);
    assert_eq!(engine["last_failed"], detail["deployments"][0]["status"] == "failed");
    assert!(engine["stored_bytes"].as_u64().unwrap() > 0);
    assert_eq!(engine["domains_blocked"].as_u64().unwrap() + engine["domains_coming"].as_u64().unwrap(), 1);
    assert_eq!(empty["deployed_at"], Value::Null);
    assert_eq!(empty["stored_bytes"], 0);
    assert_eq!(requests(&empty), 0);
    eventually(BACKGROUND, "the visit is counted", async || requests(&summaries().await[0]) == 1).await;
}

#[tokio::test]
async fn another_persons_project_does_not_exist() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let deployed = ada.publish("engine", &Site::page("ada's")).await;
    let deployment = format!("/projects/engine/deployments/{}", deployed.id);
    let unknown = eve.get("/projects/unknown").await.assert_error(404, "not_found");
    for request in [
        eve.get("/projects/engine"),
        eve.delete("/projects/engine"),
        eve.get("/projects/engine/deployments"),
        eve.upload("engine", &Site::page("eve's")),
        eve.get(&deployment),
        eve.delete(&deployment),
        eve.activate("engine", &deployed.id),
        eve.put("/projects/engine/access").json(&json!({ "mode": "public" })),
        eve.put("/projects/engine/password").json(&json!({ "password": "hunter22" })),
        eve.delete("/projects/engine/password"),
    ] {
        let message = request.await.assert_error(404, "not_found");
        assert_eq!(message.replace("engine", "unknown"), unknown, "the answer tells that it exists");
    }
    world.edge().get(&deployed.url).await.assert_body(200, "ada's");
    for odd in ["%00", "..%2f..", "ENGINE", "engine%20", "-"] {
        ada.get(&format!("/projects/{odd}")).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn a_deleted_project_is_gone_with_all_it_owned() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    world.edge().get(&first.url).await.assert_body(200, "two");

    assert_eq!(ada.delete("/projects/engine").await.ok(), json!({ "ok": true }));
    for url in [&first.url, &first.permanent_url(), &second.permanent_url()] {
        world.edge().get(url).await.assert_status(404);
    }
    ada.get("/projects/engine").await.assert_error(404, "not_found");
    ada.delete("/projects/engine").await.assert_error(404, "not_found");
    assert_eq!(world.stored_files().len(), 4, "it can still be restored");
    world.sql("UPDATE pack_removals SET next_attempt_at = now()").await;
    crate::world::eventually(crate::BACKGROUND, "the files are removed", async || world.stored_files().is_empty())
        .await;

    ada.publish("engine", &Site::page("again")).await;
    world.edge().get(&first.url).await.assert_body(200, "again");
    world.edge().get(&first.permanent_url()).await.assert_status(404);
}

#[tokio::test]
async fn a_name_unknown_to_the_edge_is_served_as_soon_as_it_is_published() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = world.site_url("engine");
    world.edge().get(&url).await.assert_status(404);
    ada.publish("engine", &Site::page("now")).await;
    world.edge().get(&url).await.assert_body(200, "now");
}
