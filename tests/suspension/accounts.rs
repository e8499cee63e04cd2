//! A person or an organization that the operator suspends: they change nothing, and publish nothing, until they are resumed.

use domain::role::Role;
use serde_json::json;

use super::{assert_refused, operate};
use crate::world::{Actor, Site, World, org::Org};

#[tokio::test]
async fn a_suspended_person_publishes_nothing_anywhere() {
    let world = World::builder().edges(2).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    // An organization that is not suspended, which both belong to.
    let org = bob.create_org("acme").await;
    org.admit(&ada, Role::Admin).await;
    ada.create_project_in(&org, "crane").await;
    let crane = ada.deploy("crane", &Site::page("theirs")).await;
    let site = ada.publish("engine", &Site::page("poison")).await;
    let share = ada.share(&Site::page("poison"), 1).await;
    ada.publish("gone", &Site::page("poison")).await;
    ada.delete("/projects/gone").await.ok();
    let gone = ada.get("/deleted-projects").await.ok()["projects"][0]["id"].as_str().unwrap().to_owned();
    let key = async || {
        let token = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        token["token"].as_str().unwrap().to_owned()
    };
    let models = format!("https://ai.svc.localhost:{}/v1/models", world.public_port());
    let before = key().await;
    for edge in &world.edges {
        edge.get(&models).bearer(&before).await.assert_status(200);
        edge.get(&site.url).await.assert_body(200, "poison");
    }

    let said = operate(&world, &["suspend", "--account", "ADA", "--reason", "abuse"]).await.unwrap();
    assert!(said.starts_with("the account ada (usr_") && said.contains("is suspended (abuse); edges: 2/2; "), "{said}");
    let said = operate(&world, &["suspend", "gone", "--reason", "abuse"]).await.unwrap_err();
    assert!(said.contains("was deleted") && said.contains("--account usr_"), "{said}");
    for edge in &world.edges {
        for url in [&site.url, &site.permanent_url(), &share.url] {
            edge.get(url).await.assert_status(403);
        }
        let refused = edge.get(&models).bearer(&before).await.assert_status(401);
        assert!(refused.text().contains("suspended by the operator"), "{}", refused.text());
        edge.get(&crane.url).await.assert_body(200, "theirs");
    }
    let in_acme = json!({ "name": "second", "org": "acme" });
    assert_refused(vec![
        ("create", ada.post("/projects").json(&json!({ "name": "second" })).await),
        ("create in an organization", ada.post("/projects").json(&in_acme).await),
        ("create an organization", ada.post("/orgs").json(&json!({ "name": "second" })).await),
        ("upload", ada.upload("engine", &Site::page("poison")).await),
        ("upload for an organization", ada.upload("crane", &Site::page("poison")).await),
        ("activate for an organization", ada.activate("crane", &crane.id).await),
        ("share", ada.post("/shares").upload(Site::page("poison").tarball()).await),
        ("make a key", ada.post("/tokens").json(&json!({ "kind": "ai" })).await),
        ("hand a token out", ada.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await),
        (
            "attach for an organization",
            ada.post("/projects/crane/domains").json(&json!({ "domain": "a.example" })).await,
        ),
        ("give away", ada.post("/projects/engine/transfer").json(&json!({ "org": "acme" })).await),
        ("take", ada.post("/projects/crane/transfer").json(&json!({ "org": null })).await),
        ("delete", ada.delete("/projects/engine").await),
        ("delete a share", ada.delete(&format!("/shares/{}", share.share_name())).await),
        ("restore", ada.post(&format!("/deleted-projects/{gone}/restore")).json(&json!({})).await),
    ]);
    // They sign in, read, export and see their bills.
    let again = world.user("ada").await;
    for path in ["/me", "/projects", "/projects/engine", "/tokens", "/billing", "/orgs/acme", "/projects/engine/audit"]
    {
        again.get(path).await.assert_status(200);
    }
    assert_eq!(again.get("/suspensions").await.ok()["account"]["reason"], "abuse");
    let logged =
        "SELECT string_agg(action || ' ' || actor_kind || ' ' || coalesce(detail->>'reason', ''), ', ' ORDER BY id)
                  FROM audit_log WHERE user_id = (SELECT id FROM users WHERE vcs_login = 'ada') AND action LIKE 'account.%'";
    assert_eq!(world.sql_text(logged).await, "account.suspend platform abuse");

    let said = operate(&world, &["resume", "--account", "ada"]).await.unwrap();
    assert!(said.contains("is suspended no more; edges: 2/2; "), "{said}");
    for edge in &world.edges {
        edge.get(&site.url).await.assert_body(200, "poison");
        edge.get(&models).bearer(&before).await.assert_status(200);
    }
    ada.deploy("engine", &Site::page("cured")).await;
    assert_eq!(world.sql_text(logged).await, "account.suspend platform abuse, account.resume platform ");
}
/// What an organization has that somebody acts or is served by.
struct Works {
    org: Org,
    robot: Actor,
    key: String,
    url: String,
}

impl Works {
    async fn of(owner: &Actor, name: &str) -> Self {
        let org = owner.create_org(name).await;
        owner.create_project_in(&org, &format!("{name}-site")).await;
        let url = owner.deploy(&format!("{name}-site"), &Site::page("hello")).await.url;
        let (robot, key) = (org.robot("deploy").await, org.create_token("ai").await);
        Self { robot, key: key["token"].as_str().unwrap().to_owned(), url, org }
    }

    /// The statuses of its site, of an upload by its deploy token, and of its AI key, the same at every edge.
    async fn statuses(&self, world: &World) -> [u16; 3] {
        let models = format!("https://ai.svc.localhost:{}/v1/models", world.public_port());
        let upload = self.robot.upload(&format!("{}-site", self.org.name), &Site::page("hello")).await;
        let mut seen = Vec::new();
        for edge in &world.edges {
            let (site, key) = (edge.get(&self.url).await, edge.get(&models).bearer(&self.key).await);
            seen.push([site.status.as_u16(), upload.status.as_u16(), key.status.as_u16()]);
        }
        assert!(seen.iter().all(|statuses| *statuses == seen[0]), "edges differ: {seen:?}");
        seen[0]
    }
}

const WORKS: [u16; 3] = [200, 201, 200];
const NOBODY_ACTS: [u16; 3] = [200, 409, 401];
const IS_DOWN: [u16; 3] = [403, 409, 401];
const IS_DOWN_BY_LAW: [u16; 3] = [451, 409, 401];

#[tokio::test]
async fn organizations_are_suspended_and_resumed_with_the_person_who_owns_them_alone() {
    let world = World::builder().edges(2).plan(&json!({})).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let (alone, shared) = (Works::of(&ada, "alone").await, Works::of(&ada, "shared").await);
    let (before, given) = (Works::of(&ada, "before").await, Works::of(&ada, "given").await);
    alone.org.admit(&bob, Role::Admin).await;
    for works in [&shared, &given] {
        works.org.admit(&bob, Role::Owner).await;
    }
    // One that another owner pays for is not the person's any more.
    ada.delete("/orgs/given/members/ada").await.ok();
    bob.post("/orgs/given/payer").await.ok();
    operate(&world, &["suspend", "--account", "before", "--reason", "legal"]).await.unwrap();

    // Without its organizations: who else owns one goes on, and nobody acts for one that is the person's alone.
    let said = operate(&world, &["suspend", "--account", "ada", "--reason", "abuse"]).await.unwrap();
    for line in [
        "the organization alone: has no other owner",
        "the organization before: was suspended before",
        "the organization shared: goes on for its other owner",
    ] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert!(said.contains("--with-orgs") && said.contains("edges: 2/2"), "{said}");
    assert!(!said.contains("the organization given"), "{said}");
    assert_eq!(alone.statuses(&world).await, NOBODY_ACTS);
    assert_eq!(before.statuses(&world).await, IS_DOWN_BY_LAW);
    for works in [&shared, &given] {
        assert_eq!(works.statuses(&world).await, WORKS);
    }
    bob.upload("alone-site", &Site::page("hello")).await.assert_status(201);

    // With them.
    let said = operate(&world, &["suspend", "--account", "ada", "--reason", "abuse", "--with-orgs"]).await.unwrap();
    assert!(said.contains("the organization alone: suspended with the account"), "{said}");
    assert!(said.contains("the organization shared: goes on"), "{said}");
    assert_eq!(alone.statuses(&world).await, IS_DOWN);
    assert_eq!(shared.statuses(&world).await, WORKS);
    bob.upload("alone-site", &Site::page("hello")).await.assert_error(409, "suspended");
    let entry = bob.get("/orgs/alone/audit").await.ok()["entries"][0].clone();
    assert_eq!((&entry["action"], &entry["detail"]["reason"]), (&json!("account.suspend"), &json!("abuse")));
    assert!(entry["detail"]["with"].as_str().unwrap().starts_with("usr_"), "{entry}");

    // What was suspended by itself stays so.
    let said = operate(&world, &["resume", "--account", "ada"]).await.unwrap();
    for line in ["the organization alone: resumed with the account", "the organization before: stays suspended"] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert_eq!(bob.get("/orgs/alone/audit").await.ok()["entries"][0]["action"], "account.resume");
    for works in [&alone, &shared, &given] {
        assert_eq!(works.statuses(&world).await, WORKS);
    }
    assert_eq!(before.statuses(&world).await, IS_DOWN_BY_LAW);
    // So does one that was suspended with the person, and then for a reason of its own.
    operate(&world, &["suspend", "--account", "ada", "--reason", "abuse", "--with-orgs"]).await.unwrap();
    operate(&world, &["suspend", "--account", "alone", "--reason", "legal"]).await.unwrap();
    operate(&world, &["resume", "--account", "ada"]).await.unwrap();
    let status = world.edge().get(&alone.url).await.status;
    assert_eq!(status, 451);
    let said = operate(&world, &["suspend", "alone-site", "--reason", "abuse", "--with-orgs"]).await.unwrap_err();
    assert!(said.contains("--account"), "{said}");
}

#[tokio::test]
async fn an_organization_whose_last_owner_goes_is_nobodys_to_act_for() {
    let world = World::builder().edges(2).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let works = Works::of(&ada, "acme").await;
    works.org.admit(&bob, Role::Owner).await;
    operate(&world, &["suspend", "--account", "ada", "--reason", "abuse"]).await.unwrap();
    assert_eq!(works.statuses(&world).await, WORKS);
    bob.put("/orgs/acme/members/bob").json(&json!({ "role": "admin" })).await.ok();
    assert_eq!(works.statuses(&world).await, NOBODY_ACTS);
    operate(&world, &["resume", "--account", "ada"]).await.unwrap();
    assert_eq!(works.statuses(&world).await, WORKS);
}

#[tokio::test]
async fn a_suspended_person_ends_what_is_theirs_and_invites_nobody() {
    let world = World::builder().play_money().start().await;
    let (ada, bob, eve) = (world.user("ada").await, world.user("bob").await, world.user("eve").await);
    let org = bob.create_org("acme").await;
    org.admit(&ada, Role::Admin).await;
    org.admit(&world.user("dan").await, Role::Member).await;
    let sent = json!({ "email": "eve@example.com", "role": "member" });
    let invite = ada.post("/orgs/acme/invites").json(&sent).await.created();
    let link = format!("/invites/{}", invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap());
    let theirs = bob.create_org("other").await.invite("member").await;
    let theirs = theirs["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let old = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created()["id"].as_str().unwrap().to_owned();

    operate(&world, &["suspend", "--account", "ada", "--reason", "abuse"]).await.unwrap();
    // Neither by the API nor by the console's page, of which each is another way in.
    let accept = format!("/invites/{theirs}/accept");
    assert_refused(vec![("accept", ada.post(&accept).json(&json!({})).await)]);
    let person = world.person();
    person.sign_in("ada").await;
    let page = person.visit(&world.console_url(&format!("/invites/{theirs}"))).await;
    person.fill(&page, &[]).await.assert_at(409, page.url.as_str());
    eve.get(&link).await.assert_error(404, "not_found");
    eve.post(&format!("{link}/accept")).json(&json!({})).await.assert_error(404, "not_found");
    let details = json!({ "name": "Ada", "country": "NL" });
    assert_refused(vec![
        ("checkout", ada.post("/billing/checkout").json(&json!({ "plan": "pro" })).await),
        ("details", ada.put("/billing/profile").json(&details).await),
        ("remove another", ada.delete("/orgs/acme/members/dan").await),
    ]);
    ada.delete(&format!("/tokens/{old}")).await.ok();
    ada.delete("/sessions").await.ok();
    // Whoever has not paid may.
    operate(&world, &["suspend", "--account", "ada", "--reason", "payment"]).await.unwrap();
    ada.put("/billing/profile").json(&details).await.ok();
    ada.post("/billing/checkout").json(&json!({ "plan": "pro" })).await.ok();
    let change = ada.post("/billing/change-plan").json(&json!({ "plan": "pro" })).await;
    assert!(change.assert_error(409, "suspended").contains("payment"));
    operate(&world, &["resume", "--account", "ada"]).await.unwrap();
    eve.post(&format!("{link}/accept")).json(&json!({})).await.ok();
    operate(&world, &["suspend", "--account", "ada", "--reason", "abuse"]).await.unwrap();
    ada.delete("/orgs/acme/members/ada").await.ok();
}

#[tokio::test]
async fn a_suspended_organization_cannot_be_left_with_what_it_has() {
    let world = World::start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let org = ada.create_org("acme").await;
    org.admit(&bob, Role::Owner).await;
    ada.create_project_in(&org, "crane").await;
    let site = ada.deploy("crane", &Site::page("poison")).await;
    let (robot, key) = (org.robot("deploy").await, org.create_token("ai").await["token"].as_str().unwrap().to_owned());
    // A person may be called like an organization: the id says which is meant.
    world.user("acme").await;
    let said = operate(&world, &["suspend", "--account", "acme", "--reason", "abuse"]).await.unwrap_err();
    assert!(said.contains("more than one account") && said.contains("usr_"), "{said}");
    let id = said[said.find("org_").unwrap()..].split([',', ' ', '"']).next().unwrap().trim().to_owned();
    operate(&world, &["suspend", "--account", &id, "--reason", "abuse"]).await.unwrap();
    for (account, word) in [("nobody", "no person or organization"), ("", "no person or organization")] {
        let said = operate(&world, &["resume", "--account", account]).await.unwrap_err();
        assert!(said.contains(word), "{said}");
    }
    world.edge().get(&site.url).await.assert_status(403);
    let models = format!("https://ai.svc.localhost:{}/v1/models", world.public_port());
    world.edge().get(&models).bearer(&key).await.assert_status(401);
    assert_refused(vec![
        ("upload", robot.upload("crane", &Site::page("poison")).await),
        ("create", bob.post("/projects").json(&json!({ "name": "second", "org": "acme" })).await),
        ("take", bob.post("/projects/crane/transfer").json(&json!({ "org": null })).await),
        ("delete", bob.delete("/projects/crane").await),
        ("delete the organization", bob.delete("/orgs/acme").await),
    ]);
    // Its people leave it, and publish elsewhere; it stays suspended.
    ada.delete("/orgs/acme/members/ada").await.ok();
    ada.publish("engine", &Site::page("mine")).await;
    world.edge().get(&site.url).await.assert_status(403);
    assert_eq!(bob.get("/orgs/acme/audit").await.ok()["entries"][1]["action"], "account.suspend");
    operate(&world, &["resume", "--account", &id]).await.unwrap();
    // Nothing new is made in it before an owner takes it over.
    bob.post("/orgs/acme/payer").await.ok();
    robot.deploy("crane", &Site::page("cured")).await;
    world.edge().get(&site.url).await.assert_body(200, "cured");
}
