//! `/orgs/:name/members/:login`.

use domain::role::Role;
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::world::{Actor, World, answer::assert_keys, org::Org, request::Request};

fn set_role(actor: &Actor, org: &Org, login: &str, role: &str) -> Request {
    actor.put(&org.path(&format!("/members/{login}"))).json(&json!({ "role": role }))
}

fn remove(actor: &Actor, org: &Org, login: &str) -> Request {
    actor.delete(&org.path(&format!("/members/{login}")))
}

#[tokio::test]
async fn owners_change_roles() {
    let world = World::start().await;
    let (org, _) = world.org_with(Role::Member).await;
    for role in ["admin", "owner", "member"] {
        let answer = set_role(&org.owner, &org, "member", role).await;
        assert!(!answer.header("x-svc-propagation").is_empty());
        let member = answer.ok();
        assert_keys(&member, "login role joined");
        assert_eq!((&member["login"], &member["role"]), (&json!("member"), &json!(role)));
        assert!(org.roles().await.contains(&("member".to_owned(), role.to_owned())));
    }
    // Code hosts do not tell logins apart by case; and what is so already stays so.
    set_role(&org.owner, &org, "MEMBER", "member").await.ok();
    for body in [json!({}), json!({ "role": "king" }), json!({ "role": null }), json!({ "role": 1 }), json!([])] {
        org.owner.put(&org.path("/members/member")).json(&body).await.assert_error(400, "invalid_request");
    }
    world.user("eve").await;
    for unknown in ["eve", "nobody", "%00", "a%2fb", "-"] {
        set_role(&org.owner, &org, unknown, "member").await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn members_are_listed_in_the_order_of_joining() {
    let world = World::start().await;
    let org = world.acme().await;
    for (login, role) in [("zoe", Role::Member), ("yves", Role::Admin), ("xia", Role::Member), ("wim", Role::Owner)] {
        org.admit(&world.user(login).await, role).await;
    }
    let logins = async || org.roles().await.into_iter().map(|(login, _)| login).collect::<Vec<_>>();
    assert_eq!(logins().await, ["owner", "zoe", "yves", "xia", "wim"]);
    // A role that changes moves nobody.
    set_role(&org.owner, &org, "xia", "owner").await.ok();
    set_role(&org.owner, &org, "wim", "member").await.ok();
    assert_eq!(logins().await, ["owner", "zoe", "yves", "xia", "wim"]);
}

#[tokio::test]
async fn members_leave_and_are_removed() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let member = world.user("member").await;
    for remover in [&admin, &org.owner, &member] {
        org.admit(&member, Role::Member).await;
        member.create_project_in(&org, "engine").await;
        let answer = remove(remover, &org, "member").await;
        assert!(!answer.header("x-svc-propagation").is_empty());
        assert_eq!(answer.ok(), json!({ "ok": true }));
        member.get("/orgs/acme").await.assert_error(404, "not_found");
        member.get("/projects/engine").await.assert_error(404, "not_found");
        // What they made for the org stays the org's.
        org.owner.delete("/projects/engine").await.ok();
    }
    remove(&admin, &org, "member").await.assert_error(404, "not_found");
    remove(&admin, &org, "owner").await.assert_error(403, "forbidden");
    let other = world.user("other-admin").await;
    org.admit(&other, Role::Admin).await;
    remove(&admin, &org, "other-admin").await.ok();
    remove(&admin, &org, "admin").await.ok();
    assert_eq!(org.roles().await, [("owner".to_owned(), "owner".to_owned())]);
}

#[tokio::test]
async fn an_org_always_has_an_owner() {
    let world = World::start().await;
    let (org, co_owner) = world.org_with(Role::Owner).await;
    // Owners remove owners, and step down, while there is another.
    set_role(&co_owner, &org, "co-owner", "admin").await.ok();
    for path in [set_role(&org.owner, &org, "owner", "admin"), set_role(&org.owner, &org, "owner", "member")] {
        path.await.assert_error(409, "last_owner");
    }
    remove(&org.owner, &org, "owner").await.assert_error(409, "last_owner");
    set_role(&org.owner, &org, "owner", "owner").await.ok();
    set_role(&org.owner, &org, "co-owner", "owner").await.ok();
    remove(&co_owner, &org, "owner").await.ok();
    remove(&co_owner, &org, "co-owner").await.assert_error(409, "last_owner");
    org.owner.get("/orgs/acme").await.assert_error(404, "not_found");
    // Nor does an account disappear that would leave an org without an owner.
    let deleted = world.try_sql("DELETE FROM users WHERE vcs_login = 'co-owner'").await;
    assert!(deleted.unwrap_err().contains("without an owner"));
    co_owner.get("/orgs/acme").await.ok();
}

/// Two owners do `first` and `second` at once; whatever comes first, one of them stays.
async fn two_owners_at_once(first: impl Fn(&Actor, &Org) -> Request, second: impl Fn(&Actor, &Org) -> Request) {
    let world = World::builder().plan(&json!({})).start().await;
    let (owner, other) = (world.user("owner").await, world.user("co-owner").await);
    for round in 0..10 {
        let org = owner.create_org(&format!("acme-{round}")).await;
        org.admit(&other, Role::Owner).await;
        let (first, second) = tokio::join!(first(&owner, &org).into_future(), second(&other, &org).into_future());
        for answer in [first, second] {
            // Whoever comes second is the last owner, an owner no more, or no member any more.
            assert!([200, 403, 404, 409].contains(&answer.status.as_u16()), "{}: {}", answer.what, answer.text());
        }
        let owners = format!(
            "SELECT count(*) FROM org_members m JOIN orgs o ON o.id = m.org_id WHERE o.name = '{}' AND m.role = 'owner'",
            org.name
        );
        assert_eq!(world.sql_number(&owners).await, 1, "round {round}");
    }
}

#[tokio::test]
async fn two_owners_cannot_both_leave() {
    two_owners_at_once(|owner, org| remove(owner, org, "owner"), |other, org| remove(other, org, "co-owner")).await;
}

#[tokio::test]
async fn two_owners_cannot_demote_each_other() {
    two_owners_at_once(
        |owner, org| set_role(owner, org, "co-owner", "member"),
        |other, org| set_role(other, org, "owner", "member"),
    )
    .await;
}

#[tokio::test]
async fn two_owners_cannot_remove_each_other() {
    two_owners_at_once(|owner, org| remove(owner, org, "co-owner"), |other, org| remove(other, org, "owner")).await;
}

#[tokio::test]
async fn one_owner_cannot_leave_while_the_other_steps_down() {
    two_owners_at_once(
        |owner, org| remove(owner, org, "owner"),
        |other, org| set_role(other, org, "co-owner", "admin"),
    )
    .await;
}

#[tokio::test]
async fn the_database_holds_the_rule_for_every_other_way() {
    let world = World::start().await;
    let (org, _) = world.org_with(Role::Owner).await;
    // Two transactions, each of which has removed an owner before the other commits: one must fail.
    let mut transactions = Vec::new();
    for login in ["owner", "co-owner"] {
        let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
        let leave = format!(
            "BEGIN; DELETE FROM org_members m USING users u WHERE u.id = m.user_id AND u.vcs_login = '{login}'"
        );
        sqlx::raw_sql(AssertSqlSafe(leave)).execute(&mut connection).await.unwrap();
        transactions.push(connection);
    }
    let commits = transactions.iter_mut().map(|transaction| sqlx::raw_sql("COMMIT").execute(transaction));
    let refused: Vec<String> =
        join_all(commits).await.into_iter().filter_map(Result::err).map(|e| e.to_string()).collect();
    assert!(matches!(&refused[..], [error] if error.contains("without an owner")), "{refused:?}");
    assert_eq!(world.sql_number("SELECT count(*) FROM org_members WHERE role = 'owner'").await, 1);
    drop(org);
}

#[tokio::test]
async fn what_members_may_do_follows_their_role_at_once() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    member.get("/orgs/acme/tokens").await.assert_error(403, "forbidden");
    member.create_project_in(&org, "engine").await;
    member.delete("/projects/engine").await.assert_error(403, "forbidden");
    set_role(&org.owner, &org, "member", "admin").await.ok();
    member.get("/orgs/acme/tokens").await.ok();
    assert_eq!(member.get("/orgs").await.ok()["orgs"][0]["role"], "admin");
    set_role(&org.owner, &org, "member", "member").await.ok();
    member.get("/orgs/acme/tokens").await.assert_error(403, "forbidden");
    assert_eq!(member.get("/orgs/acme").await.ok()["role"], Value::from("member"));
}
