//! `/orgs`: making, listing, renaming and deleting them, and who may.

pub mod icons;
mod members;
mod payer;
mod tokens;

use domain::role::Role;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{
    Site, World,
    answer::{assert_keys, assert_one_took_the_name, parse_timestamp},
};

#[tokio::test]
async fn who_makes_an_org_owns_it() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let body = json!({ "name": "acme", "display_name": "  Acme & Söhne " });
    let org = ada.post("/orgs").json(&body).await.created();
    assert_keys(&org, "name display_name icon_url role created_at");
    assert_eq!(org["name"], "acme");
    assert_eq!(org["display_name"], "Acme & Söhne");
    assert_eq!(org["icon_url"], Value::Null);
    assert_eq!(org["role"], "owner");
    parse_timestamp(&org["created_at"]);

    let detail = ada.get("/orgs/acme").await.ok();
    assert_keys(&detail, "name display_name icon_url role created_at members projects");
    assert_eq!(detail["projects"], 0);
    let members = detail["members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert_keys(&members[0], "login role joined");
    assert_eq!((&members[0]["login"], &members[0]["role"]), (&json!("ada"), &json!("owner")));
    parse_timestamp(&members[0]["joined"]);

    ada.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    assert_eq!(ada.get("/orgs/acme").await.ok()["projects"], 1);
}

#[tokio::test]
async fn names_have_the_rules_of_projects() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for bad in
        ["", "ab", &"x".repeat(41), "Acme", "a.b", "a b", "äcme", "-abc", "abc-", "xn--abc", "api", "mail", "tmp-x"]
    {
        let message = ada.post("/orgs").json(&json!({ "name": bad })).await.assert_error(400, "invalid_request");
        assert!(message.contains("name"), "{bad:?}: {message}");
    }
    for body in [
        json!({}),
        json!({ "name": null }),
        json!({ "name": 5 }),
        json!([]),
        json!({ "name": "acme", "display_name": 5 }),
        json!({ "name": "acme", "display_name": "x".repeat(101) }),
        json!({ "name": "acme", "display_name": "a\nb" }),
        json!({ "name": "acme", "display_name": "a\u{0}b" }),
        json!({ "name": "acme", "display_name": "a\u{202e}b" }),
        json!({ "name": "acme", "display_name": "a\u{200b}b" }),
        json!({ "name": "postmaster" }),
        json!({ "name": "billing" }),
    ] {
        ada.post("/orgs").json(&body).await.assert_error(400, "invalid_request");
    }
    assert_eq!(ada.get("/orgs").await.ok()["orgs"], json!([]));
    for name in ["abc", &"x".repeat(40)] {
        ada.create_org(name).await;
    }
    let blank = ada.post("/orgs").json(&json!({ "name": "blank", "display_name": " " })).await.created();
    assert_eq!(blank["display_name"], Value::Null);
    // An org is no host: a project may have its name.
    ada.create_project("abc").await;
}

#[tokio::test]
async fn fifty_racing_creations_of_a_name_make_one_org() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let requests = (0..50).map(|number| {
        let actor = if number % 2 == 0 { &ada } else { &eve };
        async { actor.post("/orgs").json(&json!({ "name": "acme" })).await }
    });
    assert_one_took_the_name(join_all(requests).await);
    assert_eq!(world.sql_number("SELECT count(*) FROM orgs").await, 1);
    assert_eq!(world.sql_number("SELECT count(*) FROM org_members WHERE role = 'owner'").await, 1);
}

#[tokio::test]
async fn the_plan_says_how_many_orgs_a_person_creates() {
    let plans = json!({ "free": { "name": "Free", "price_cents": 0, "limits": {
        "orgs": 3, "projects": 9, "domains": 9, "ready_apps": 0, "bandwidth_bytes": 9, "ai_credit_cents": 9,
    } } });
    let world = World::builder().set("BILLING__PLANS", plans).start().await;
    let ada = world.user("ada").await;
    let requests = (0..8).map(|number| {
        let ada = ada.clone();
        async move { ada.post("/orgs").json(&json!({ "name": format!("acme-{number}") })).await }
    });
    let mut names = Vec::new();
    for answer in join_all(requests).await {
        if answer.status == 201 {
            names.push(answer.created()["name"].as_str().unwrap().to_owned());
        } else {
            answer.assert_error(403, "plan_limit_reached");
        }
    }
    assert_eq!(names.len(), 3, "{names:?}");
    // Those of others do not count, and a deleted one no longer does.
    let other = world.acme().await;
    other.admit(&ada, Role::Owner).await;
    ada.post("/orgs").json(&json!({ "name": "one-more" })).await.assert_error(403, "plan_limit_reached");
    ada.delete(&format!("/orgs/{}", names[0])).await.ok();
    ada.create_org("one-more").await;
}

#[tokio::test]
async fn your_orgs_are_listed_newest_first_and_paged() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    for name in ["first", "second", "third"] {
        ada.create_org(name).await;
    }
    let theirs = eve.create_org("theirs").await;
    eve.create_org("private").await;
    theirs.admit(&ada, Role::Admin).await;
    let list = ada.get("/orgs").await.ok();
    assert_keys(&list, "orgs next_cursor");
    let pairs = |list: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let orgs = list["orgs"].as_array().unwrap();
        for org in orgs {
            assert_keys(org, "name display_name icon_url role created_at");
        }
        orgs.iter().map(|org| (text(&org["name"]), text(&org["role"]))).collect()
    };
    let all = [("theirs", "admin"), ("third", "owner"), ("second", "owner"), ("first", "owner")];
    let all: Vec<_> = all.iter().map(|(name, role)| ((*name).to_owned(), (*role).to_owned())).collect();
    assert_eq!(pairs(&list), all);
    assert_eq!(list["next_cursor"], Value::Null);

    let (mut seen, mut path) = (Vec::new(), "/orgs?limit=3".to_owned());
    loop {
        let page = ada.get(&path).await.ok();
        seen.extend(pairs(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/orgs?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, all);
    for query in ["limit=0", "limit=101", "limit=x", "cursor=nonsense", "cursor=prj_00000000000000000000"] {
        ada.get(&format!("/orgs?{query}")).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn an_org_is_renamed_in_sentences_only() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let rename = |body: Value| admin.request(reqwest::Method::PATCH, "/orgs/acme").json(&body);
    let renamed = rename(json!({ "display_name": " Acme " })).await.ok();
    assert_keys(&renamed, "name display_name icon_url role created_at");
    assert_eq!((&renamed["name"], &renamed["display_name"]), (&json!("acme"), &json!("Acme")));
    assert_eq!(renamed["role"], "admin");
    assert_eq!(org.detail().await["display_name"], "Acme");
    for body in [
        json!({}),
        json!({ "name": "other" }),
        json!({ "display_name": 5 }),
        json!({ "display_name": "é".repeat(101) }),
        json!({ "display_name": "a\r\nBcc: x" }),
    ] {
        rename(body).await.assert_error(400, "invalid_request");
    }
    assert_eq!(org.detail().await["display_name"], "Acme");
    rename(json!({ "display_name": "é".repeat(100) })).await.ok();
    assert_eq!(rename(json!({ "display_name": null })).await.ok()["display_name"], Value::Null);
    assert_eq!(org.detail().await["display_name"], Value::Null);
}

#[tokio::test]
async fn an_org_is_deleted_when_it_is_empty() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    let token = org.create_token("deploy").await;
    let robot = world.nobody().with_token(token["token"].as_str().unwrap());
    let invite = org.invite("member").await;
    member.create_project_in(&org, "engine").await;
    org.owner.delete("/orgs/acme").await.assert_error(409, "org_not_empty");
    robot.deploy("engine", &Site::page("home")).await;
    org.owner.delete("/projects/engine").await.ok();

    let deleted = org.owner.delete("/orgs/acme").await;
    assert!(!deleted.header("x-svc-propagation").is_empty());
    assert_eq!(deleted.ok(), json!({ "ok": true }));
    for actor in [&org.owner, &member] {
        actor.get("/orgs/acme").await.assert_error(404, "not_found");
        assert_eq!(actor.get("/orgs").await.ok()["orgs"], json!([]));
    }
    robot.get("/me").await.assert_error(401, "unauthorized");
    let path = format!("/invites/{}", crate::world::org::token_of(&invite));
    world.nobody().get(&path).await.assert_error(404, "not_found");
    // Its name is its owner's for 30 days, and so are those of its projects.
    for (path, name) in [("/orgs", "acme"), ("/projects", "engine")] {
        let body = json!({ "name": name });
        let message = member.post(path).json(&body).await.assert_error(409, "name_taken");
        assert!(message.contains("30 days"), "{message}");
        org.owner.post(path).json(&body).await.created();
        org.owner.delete(&format!("{path}/{name}")).await.ok();
        member.post(path).json(&body).await.assert_error(409, "name_taken");
        let later = "UPDATE retired_names SET retired_at = retired_at - interval '30 days'";
        world.sql(&format!("{later} WHERE name = '{name}'")).await;
        member.post(path).json(&body).await.created();
        org.owner.post(path).json(&body).await.assert_error(409, "name_taken");
    }
}

#[tokio::test]
async fn each_owner_of_a_deleted_org_may_take_its_name_again() {
    let world = World::start().await;
    let (org, other) = world.org_with(Role::Owner).await;
    let admin = world.user("admin").await;
    org.admit(&admin, Role::Admin).await;
    let tries = join_all((0..8).map(|_| async { admin.post("/orgs").json(&json!({ "name": "acme" })).await }));
    let (deleted, tries) = tokio::join!(async { org.owner.delete("/orgs/acme").await }, tries);
    deleted.ok();
    for answer in tries {
        answer.assert_error(409, "name_taken");
    }
    other.create_org("acme").await;
    // It is the other's alone now.
    other.delete("/orgs/acme").await.ok();
    org.owner.post("/orgs").json(&json!({ "name": "acme" })).await.assert_error(409, "name_taken");
}

/// As many domains are kept for a former owner, whichever way they were given up.
#[tokio::test]
async fn the_end_of_an_org_does_not_release_what_is_kept_for_its_owner() {
    let world = World::start().await;
    let org = world.acme().await;
    world
        .sql(
            "INSERT INTO retired_names (kind, name, former_owners, retired_at)
             SELECT 'domain', format('%s.example', n), ARRAY[m.user_id], now() - interval '1 day'
             FROM org_members m, generate_series(1, 40) n;
             INSERT INTO retired_names (kind, name, former_owners, retired_at)
             SELECT 'domain', format('%s.of-the-org.example', n), ARRAY[id], now() FROM orgs, generate_series(1, 40) n",
        )
        .await;
    org.owner.delete("/orgs/acme").await.ok();
    let kept = "SELECT count(*) FROM retired_names r JOIN users u ON former_owners = ARRAY[u.id] WHERE kind = 'domain'";
    assert_eq!(world.sql_number(kept).await, 80);
}

#[tokio::test]
async fn a_deletion_that_races_with_new_projects_is_clean() {
    let world = World::start().await;
    for round in 0..5 {
        let ada = world.user(&format!("ada-{round}")).await;
        let org = ada.create_org(&format!("acme-{round}")).await;
        let making = join_all((0..6).map(|number| {
            let body = json!({ "name": format!("engine-{round}-{number}"), "org": org.name });
            let ada = ada.clone();
            async move { ada.post("/projects").json(&body).await }
        }));
        let (deleted, made) = tokio::join!(ada.delete(&org.path("")).into_future(), making);
        let made: Vec<_> = made.into_iter().map(|answer| (answer.status.as_u16(), answer)).collect();
        let projects = made.iter().filter(|(status, _)| *status == 201).count();
        if deleted.status == 200 {
            assert_eq!(projects, 0, "projects of an org that is gone");
        } else {
            deleted.assert_error(409, "org_not_empty");
        }
        for (status, answer) in made {
            if status != 201 {
                answer.assert_error(404, "not_found");
            }
        }
    }
}

#[tokio::test]
async fn an_org_is_nothing_to_outsiders_and_its_levels_are_kept() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    let admin = world.user("admin").await;
    org.admit(&admin, Role::Admin).await;
    let (eve, nobody) = (world.user("eve").await, world.nobody());
    let invite = org.invite("member").await["id"].as_str().unwrap().to_owned();
    let token = org.create_token("deploy").await;
    let robot = nobody.with_token(token["token"].as_str().unwrap());
    let token = token["id"].as_str().unwrap();
    let unknown = eve.get("/orgs/unknown").await.assert_error(404, "not_found");
    // Method, path, body, who is refused for their role.
    let table = [
        ("GET", org.path(""), None, vec![]),
        ("PATCH", org.path(""), Some(json!({ "display_name": "x" })), vec![&member]),
        ("DELETE", org.path(""), None, vec![&member, &admin]),
        ("PUT", org.path("/members/owner"), Some(json!({ "role": "owner" })), vec![&member, &admin]),
        ("DELETE", org.path("/members/owner"), None, vec![&member, &admin]),
        ("DELETE", org.path("/members/admin"), None, vec![&member]),
        ("DELETE", org.path("/members/unknown"), None, vec![&member]),
        ("GET", org.path("/invites"), None, vec![&member]),
        ("POST", org.path("/invites"), Some(json!({ "email": "x@example.com", "role": "member" })), vec![&member]),
        ("DELETE", org.path(&format!("/invites/{invite}")), None, vec![&member]),
        ("PUT", org.path("/icon"), Some(json!({})), vec![&member]),
        ("DELETE", org.path("/icon"), None, vec![&member]),
        ("GET", org.path("/tokens"), None, vec![&member]),
        ("POST", org.path("/tokens"), Some(json!({ "kind": "ai" })), vec![&member]),
        ("DELETE", org.path(&format!("/tokens/{token}")), None, vec![&member]),
    ];
    for (method, path, body, refused) in &table {
        let method: reqwest::Method = method.parse().unwrap();
        let ask = |actor: &crate::world::Actor| {
            let request = actor.request(method.clone(), path);
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let message = ask(&eve).await.assert_error(404, "not_found");
        assert_eq!(message, unknown, "{method} {path} tells an outsider that it exists");
        for actor in [&nobody, &robot] {
            ask(actor).await.assert_error(401, "unauthorized");
        }
        for actor in refused {
            ask(actor).await.assert_error(403, "forbidden");
        }
    }
    for odd in ["%00", "..%2f..", "ACME", "acme%20", "-"] {
        org.owner.get(&format!("/orgs/{odd}")).await.assert_error(404, "not_found");
    }
    // Nothing of all that has changed anything.
    assert_eq!(org.roles().await.len(), 3);
    assert_eq!(org.detail().await["display_name"], Value::Null);
}

#[tokio::test]
async fn every_change_is_audited() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    let owner = &org.owner;
    owner.request(reqwest::Method::PATCH, "/orgs/acme").json(&json!({ "display_name": "Acme" })).await.ok();
    owner.put("/orgs/acme/members/member").json(&json!({ "role": "admin" })).await.ok();
    let invite = org.invite("admin").await;
    owner.delete(&org.path(&format!("/invites/{}", invite["id"].as_str().unwrap()))).await.ok();
    let token = org.create_token("ai").await;
    owner.delete(&org.path(&format!("/tokens/{}", token["id"].as_str().unwrap()))).await.ok();
    owner.put("/orgs/acme/icon").body(icons::png(1, 1)).await.ok();
    owner.delete("/orgs/acme/icon").await.ok();
    member.delete("/orgs/acme/members/member").await.ok();
    org.admit(&member, Role::Member).await;
    owner.delete("/orgs/acme/members/member").await.ok();

    let log = owner.get("/orgs/acme/audit").await.ok();
    let entries = log["entries"].as_array().unwrap();
    let mut actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    actions.reverse();
    assert_eq!(
        actions,
        [
            "org.create",
            "invite.create",
            "invite.accept",
            "org.update",
            "member.role",
            "invite.create",
            "invite.revoke",
            "token.create",
            "token.revoke",
            "icon.set",
            "icon.remove",
            "member.leave",
            "invite.create",
            "invite.accept",
            "member.remove",
        ]
    );
    for secret in [token["token"].as_str().unwrap(), &crate::world::org::token_of(&invite)] {
        assert!(!log.to_string().contains(secret));
    }
    owner.delete("/orgs/acme").await.ok();
    assert_eq!(world.sql_number("SELECT count(*) FROM audit_log WHERE action = 'org.delete'").await, 1);
}
