//! `/orgs/:name/invites` and `/invites/:token`. The letters are in [`letters`], the console's page behind the link is in
//! [`page`].

mod letters;
mod page;

use std::collections::HashSet;

use domain::role::Role;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{
    Actor, World,
    answer::{assert_keys, parse_id, parse_timestamp},
    org::token_of,
    request::Request,
};

const FORTNIGHT: i64 = 14 * 24 * 3_600;

fn accept(actor: &Actor, token: &str) -> Request {
    actor.post(&format!("/invites/{token}/accept"))
}

#[tokio::test]
async fn an_invite_is_previewed_and_accepted_once() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let body = json!({ "email": " eve@example.com ", "role": "member" });
    let invite = admin.post("/orgs/acme/invites").json(&body).await.created();
    assert_keys(&invite, "id email role invited_by created_at expires_at invite_url email_sent");
    parse_id(&invite["id"], "inv_");
    assert_eq!((&invite["email"], &invite["role"]), (&json!("eve@example.com"), &json!("member")));
    assert_eq!((&invite["invited_by"], &invite["email_sent"]), (&json!("admin"), &json!(false)));
    assert_eq!(parse_timestamp(&invite["expires_at"]) - parse_timestamp(&invite["created_at"]), FORTNIGHT);
    let url = invite["invite_url"].as_str().unwrap();
    assert!(url.starts_with(&format!("https://app.svc.localhost:{}/invites/", world.public_port())), "{url}");
    let token = token_of(&invite);
    assert_eq!(token.len(), 43);

    let preview = world.nobody().get(&format!("/invites/{token}")).await;
    assert_eq!(preview.header("cache-control"), "no-store");
    let preview = preview.ok();
    assert_keys(&preview, "org display_name role invited_by expires_at");
    assert_eq!((&preview["org"], &preview["role"]), (&json!("acme"), &json!("member")));
    assert_eq!((&preview["display_name"], &preview["invited_by"]), (&Value::Null, &json!("admin")));
    assert_eq!(preview["expires_at"], invite["expires_at"]);

    accept(&world.nobody(), &token).await.assert_error(401, "unauthorized");
    let eve = world.user("eve").await;
    let joined = accept(&eve, &token).await;
    assert!(!joined.header("x-svc-propagation").is_empty());
    let joined = joined.ok();
    assert_keys(&joined, "name display_name icon_url role created_at");
    assert_eq!((&joined["name"], &joined["role"]), (&json!("acme"), &json!("member")));
    eve.get("/orgs/acme").await.ok();
    let mallory = world.user("mallory").await;
    for actor in [&eve, &mallory] {
        accept(actor, &token).await.assert_error(404, "not_found");
    }
    world.nobody().get(&format!("/invites/{token}")).await.assert_error(404, "not_found");
    assert_eq!(org.roles().await.len(), 3);
}

#[tokio::test]
async fn twenty_people_at_once_accept_an_invite_and_one_joins() {
    let world = World::start().await;
    let org = world.acme().await;
    let token = token_of(&org.invite("admin").await);
    let people = join_all((0..20).map(|number| {
        let world = &world;
        async move { world.user(&format!("person-{number}")).await }
    }))
    .await;
    let mut joined = 0;
    for answer in join_all(people.iter().map(|person| accept(person, &token).into_future())).await {
        if answer.status == 200 {
            joined += 1;
        } else {
            answer.assert_error(404, "not_found");
        }
    }
    assert_eq!(joined, 1);
    assert_eq!(org.roles().await.len(), 2);

    // The same person twenty times over joins once, too.
    let token = token_of(&org.invite("member").await);
    let eve = world.user("eve").await;
    let answers = join_all((0..20).map(|_| accept(&eve, &token).into_future())).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(org.roles().await.len(), 3);
}

#[tokio::test]
async fn who_is_a_member_already_keeps_the_higher_role() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    // Nothing changes, and the invite is still good for somebody else.
    let token = token_of(&org.invite("member").await);
    for actor in [&member, &org.owner] {
        let joined = accept(actor, &token).await;
        assert!(joined.find_header("x-svc-propagation").is_none());
        joined.ok();
    }
    let eve = world.user("eve").await;
    accept(&eve, &token).await.ok();
    // A higher role is taken on.
    let token = token_of(&org.invite("admin").await);
    assert_eq!(accept(&org.owner, &token).await.ok()["role"], "owner");
    assert_eq!(accept(&member, &token).await.ok()["role"], "admin");
    accept(&eve, &token).await.assert_error(404, "not_found");
    let roles: HashSet<_> = org.roles().await.into_iter().collect();
    let wanted = [("owner", "owner"), ("member", "admin"), ("eve", "member")];
    assert_eq!(roles, wanted.map(|(login, role)| (login.to_owned(), role.to_owned())).into());
}

#[tokio::test]
async fn pending_invites_are_listed_and_revoked() {
    let world = World::start().await;
    let org = world.acme().await;
    let mut made = Vec::new();
    for number in 0..5 {
        let body = json!({ "email": format!("{number}@example.com"), "role": "member" });
        made.push(org.owner.post("/orgs/acme/invites").json(&body).await.created());
    }
    let list = org.owner.get("/orgs/acme/invites").await.ok();
    assert_keys(&list, "invites next_cursor");
    assert_eq!(list["invites"].as_array().unwrap().len(), made.len());
    for (listed, invite) in list["invites"].as_array().unwrap().iter().zip(made.iter().rev()) {
        assert_keys(listed, "id email role invited_by created_at expires_at");
        assert_eq!((&listed["id"], &listed["email"]), (&invite["id"], &invite["email"]));
        assert!(!list.to_string().contains(&token_of(invite)));
    }
    let page = org.owner.get("/orgs/acme/invites?limit=3").await.ok();
    let path = format!("/orgs/acme/invites?limit=3&cursor={}", page["next_cursor"].as_str().unwrap());
    let rest = org.owner.get(&path).await.ok();
    assert_eq!((page["invites"].as_array().unwrap().len(), rest["invites"].as_array().unwrap().len()), (3, 2));
    assert_eq!(rest["next_cursor"], Value::Null);
    for query in ["limit=0", "limit=101", "cursor=x"] {
        org.owner.get(&format!("/orgs/acme/invites?{query}")).await.assert_error(400, "invalid_request");
    }

    let eve = world.user("eve").await;
    let of = |invite: &Value| org.path(&format!("/invites/{}", invite["id"].as_str().unwrap()));
    assert_eq!(org.owner.delete(&of(&made[0])).await.ok(), json!({ "ok": true }));
    org.owner.delete(&of(&made[0])).await.assert_error(404, "not_found");
    accept(&eve, &token_of(&made[0])).await.assert_error(404, "not_found");
    accept(&eve, &token_of(&made[1])).await.ok();
    org.owner.delete(&of(&made[1])).await.assert_error(404, "not_found");
    // Fourteen days later.
    world.sql("UPDATE invites SET expires_at = now() WHERE email = '2@example.com'").await;
    world.nobody().get(&format!("/invites/{}", token_of(&made[2]))).await.assert_error(404, "not_found");
    accept(&world.user("late").await, &token_of(&made[2])).await.assert_error(404, "not_found");
    org.owner.delete(&of(&made[2])).await.assert_error(404, "not_found");
    let left = org.owner.get("/orgs/acme/invites").await.ok();
    assert_eq!(left["invites"].as_array().unwrap().len(), 2);

    let other = eve.create_org("evil").await;
    let foreign = other.path(&format!("/invites/{}", made[3]["id"].as_str().unwrap()));
    eve.delete(&foreign).await.assert_error(404, "not_found");
    for unknown in ["nonsense", "inv_00000000000000000000", "%00"] {
        org.owner.delete(&org.path(&format!("/invites/{unknown}"))).await.assert_error(404, "not_found");
    }
    let long = "A".repeat(44);
    for odd in ["nonsense", "%00", &long, made[3]["id"].as_str().unwrap()] {
        world.nobody().get(&format!("/invites/{odd}")).await.assert_error(404, "not_found");
        accept(&eve, odd).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn of_revoking_and_accepting_at_once_one_happens() {
    let world = World::start().await;
    let org = world.acme().await;
    let mut joined = 0;
    for round in 0..12 {
        let invite = org.invite("member").await;
        let person = world.user(&format!("person-{round}")).await;
        let revoking = org.owner.delete(&org.path(&format!("/invites/{}", invite["id"].as_str().unwrap())));
        let token = token_of(&invite);
        let (revoked, accepted) = tokio::join!(revoking.into_future(), accept(&person, &token).into_future());
        match (revoked.status.as_u16(), accepted.status.as_u16()) {
            (200, 404) => {}
            (404, 200) => joined += 1,
            _ => panic!("{} and {}", revoked.text(), accepted.text()),
        }
        let is_member = person.get("/orgs/acme").await.status == 200;
        assert_eq!(is_member, accepted.status == 200, "round {round}");
    }
    assert_eq!(org.roles().await.len(), 1 + joined);
}

#[tokio::test]
async fn an_org_that_is_deleted_takes_its_invites_along() {
    let world = World::start().await;
    let person = world.user("person").await;
    for round in 0..8 {
        let owner = world.user(&format!("owner-{round}")).await;
        let org = owner.create_org(&format!("acme-{round}")).await;
        let token = token_of(&org.invite("admin").await);
        let deleting = org.owner.delete(&org.path(""));
        let (deleted, accepted) = tokio::join!(deleting.into_future(), accept(&person, &token).into_future());
        deleted.ok();
        assert!([200, 404].contains(&accepted.status.as_u16()), "{}", accepted.text());
        world.nobody().get(&format!("/invites/{token}")).await.assert_error(404, "not_found");
        accept(&person, &token).await.assert_error(404, "not_found");
    }
    assert_eq!(person.get("/orgs").await.ok()["orgs"], json!([]));
    assert_eq!(world.sql_number("SELECT count(*) FROM invites").await, 0);
}

#[tokio::test]
async fn an_invite_is_good_until_its_last_moment() {
    let world = World::start().await;
    let org = world.acme().await;
    let (last, over) = (token_of(&org.invite("member").await), token_of(&org.invite("member").await));
    let expire = async |token: &str, at: &str| {
        let sql = format!("UPDATE invites SET expires_at = {at} WHERE secret_hash = sha256('{token}'::bytea)");
        world.sql(&sql).await;
    };
    expire(&last, "now() + interval '1 minute'").await;
    expire(&over, "now()").await;
    let eve = world.user("eve").await;
    world.nobody().get(&format!("/invites/{last}")).await.ok();
    accept(&eve, &last).await.ok();
    world.nobody().get(&format!("/invites/{over}")).await.assert_error(404, "not_found");
    accept(&world.user("late").await, &over).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn an_invite_lasts_while_its_sender_may_invite() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let send = async || {
        let body = json!({ "email": "x@example.com", "role": "admin" });
        token_of(&admin.post("/orgs/acme/invites").json(&body).await.created())
    };
    let demoted = send().await;
    org.owner.put("/orgs/acme/members/admin").json(&json!({ "role": "member" })).await.ok();
    accept(&admin, &demoted).await.assert_error(404, "not_found");
    org.owner.put("/orgs/acme/members/admin").json(&json!({ "role": "admin" })).await.ok();
    let removed = send().await;
    org.owner.delete("/orgs/acme/members/admin").await.ok();
    accept(&admin, &removed).await.assert_error(404, "not_found");
    assert_eq!(org.owner.get("/orgs/acme/invites").await.ok()["invites"], json!([]));
}

#[tokio::test]
async fn invites_have_rules() {
    let world = World::start().await;
    let org = world.acme().await;
    for (email, role) in [
        (json!(null), json!("member")),
        (json!(5), json!("member")),
        (json!(""), json!("member")),
        (json!("not an address"), json!("member")),
        (json!("a@b"), json!("member")),
        (json!("a@example.com\r\nBcc: eve@example.com"), json!("member")),
        (json!("a@example.com, b@example.com"), json!("member")),
        (json!("Ada <a@example.com>"), json!("member")),
        (json!(format!("{}@example.com", "x".repeat(65))), json!("member")),
        (json!("a@example.com"), json!("owner")),
        (json!("a@example.com"), json!("king")),
        (json!("a@example.com"), json!(null)),
    ] {
        let body = json!({ "email": email, "role": role });
        org.owner.post("/orgs/acme/invites").json(&body).await.assert_error(400, "invalid_request");
    }
    org.owner.post("/orgs/acme/invites").json(&json!({ "role": "member" })).await.assert_error(400, "invalid_request");
    assert_eq!(world.sql_number("SELECT count(*) FROM invites").await, 0);
    let token = token_of(&org.invite("member").await);
    let hashed = format!("SELECT count(*) FROM invites WHERE secret_hash = sha256('{token}'::bytea)");
    assert_eq!(world.sql_number(&hashed).await, 1);
    let plain = format!("SELECT count(*) FROM invites WHERE invites::text LIKE '%{token}%'");
    assert_eq!(world.sql_number(&plain).await, 0);
    world.nobody().get(&format!("/invites/{token}")).await.ok();
    assert!(!world.admin.log().contains(&token), "the log holds an invite's secret");
    // As many as may wait.
    world
        .sql(
            "INSERT INTO invites (id, org_id, email, role, secret_hash, created_at, expires_at)
             SELECT 'inv_' || lpad(n::text, 20, '0'), (SELECT id FROM orgs), 'x@example.com', 'member',
                    sha256(n::text::bytea), now(), now() + interval '1 day' FROM generate_series(1, 499) n",
        )
        .await;
    let body = json!({ "email": "a@example.com", "role": "member" });
    org.owner.post("/orgs/acme/invites").json(&body).await.assert_error(403, "plan_limit_reached");
}

#[tokio::test]
async fn an_org_has_room_for_so_many_members() {
    // The plan has room for more than the service shows at once.
    let world = World::builder().plan(&json!({ "members": 5_000 })).start().await;
    let org = world.acme().await;
    world
        .sql(
            "INSERT INTO users (id, vcs_id, vcs_login, created_at)
             SELECT 'usr_' || lpad(n::text, 20, '0'), 'x' || n, 'x' || n, now() FROM generate_series(1, 999) n;
             INSERT INTO org_members SELECT (SELECT id FROM orgs), id, 'member', now() FROM users WHERE vcs_id LIKE 'x%'",
        )
        .await;
    assert_eq!(org.detail().await["members"].as_array().unwrap().len(), 1_000);
    let token = token_of(&org.invite("member").await);
    let eve = world.user("eve").await;
    accept(&eve, &token).await.assert_error(403, "plan_limit_reached");
    org.owner.delete("/orgs/acme/members/x7").await.ok();
    accept(&eve, &token).await.ok();
}
