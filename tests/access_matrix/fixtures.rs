//! What the operations are tried on: an org with its people and tokens, its things, and the owner's own.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering},
};

use domain::{InvoiceId, role::Role};
use reqwest::Method;
use serde_json::json;

use super::{Body, Cast, Row, Rule, Who, Whose};
use crate::{
    billing::books::Books,
    world::{Actor, Site, World, answer::Answer},
};

/// Makes targets.
pub(super) struct Fixtures<'w> {
    world: &'w World,
    cast: Cast,
    /// Somebody in each org whom others may act upon.
    colleague: Actor,
    next: AtomicU32,
}

/// What one operation is tried on.
#[derive(Clone)]
pub(super) struct Target {
    /// What stands for the `{…}` of its path and body.
    values: HashMap<&'static str, String>,
    deploy: Actor,
    ai: Actor,
}

impl<'w> Fixtures<'w> {
    pub(super) async fn new(world: &'w World) -> Self {
        let owner = world.user("owner").await;
        let revoked = owner.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
        owner.delete(&format!("/tokens/{}", revoked["id"].as_str().unwrap())).await.ok();
        let ai = owner.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        let outsider = world.user("outsider").await;
        let elsewhere = outsider.create_org("elsewhere").await;
        let cast = Cast {
            revoked: owner.with_token(revoked["token"].as_str().unwrap()),
            ai_key: owner.with_token(ai["token"].as_str().unwrap()),
            foreign_deploy: elsewhere.robot("deploy").await,
            outsider,
            member: world.user("member").await,
            admin: world.user("admin").await,
            owner,
        };
        Self { world, cast, colleague: world.user("colleague").await, next: AtomicU32::new(0) }
    }

    /// A target of its own for an operation: everything that its path names.
    #[expect(clippy::too_many_lines, reason = "a table: a name of the path, and how it is made")]
    pub(super) async fn target(&self, row: &Row, whose: Whose) -> Target {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let owner = &self.cast.owner;
        let org = owner.create_org(&format!("org-{number}")).await;
        // Shared ones need something to be shared.
        self.world
            .sql(&format!(
                "INSERT INTO installations (id, account, account_id, account_type, created_at)
                     VALUES ({number}, 'acme', 1, 'organization', now())"
            ))
            .await;
        let people =
            [(&self.cast.member, Role::Member), (&self.cast.admin, Role::Admin), (&self.colleague, Role::Member)];
        for (person, role) in people {
            org.admit(person, role).await;
        }
        let (deploy, ai) = (org.robot("deploy").await, org.robot("ai").await);
        let org = org.name;
        let (_, path) = row.0.split_once(' ').unwrap();
        let mut values = HashMap::from([("{new}", format!("new-{number}"))]);
        match path.split('/').nth(1).unwrap_or_default() {
            "projects" if path.contains("{name}") => {
                let project = format!("project-{number}");
                let org = matches!(whose, Whose::Org).then_some(&org);
                owner.post("/projects").json(&json!({ "name": project, "org": org })).await.created();
                if path.contains("{id}") {
                    let superseded = owner.deploy(&project, &Site::page("one")).await;
                    owner.deploy(&project, &Site::page("two")).await;
                    values.insert("{id}", superseded.id);
                }
                if path.contains("{key}") {
                    owner.put(&format!("/projects/{project}/env/KEY")).json(&json!({ "value": "0" })).await.ok();
                    values.insert("{key}", "KEY".to_owned());
                }
                if path.contains("{domain}") {
                    let domain = format!("www.{project}.example");
                    owner
                        .post(&format!("/projects/{project}/domains"))
                        .json(&json!({ "domain": domain }))
                        .await
                        .created();
                    values.insert("{domain}", domain);
                }
                values.insert("{name}", project);
            }
            "deployments" => {
                let project = format!("project-{number}");
                let org = matches!(whose, Whose::Org).then_some(&org);
                owner.post("/projects").json(&json!({ "name": project, "org": org })).await.created();
                values.insert("{id}", owner.deploy(&project, &Site::page("one")).await.id);
            }
            "deleted-projects" if path.contains("{id}") => {
                let project = format!("project-{number}");
                let org = matches!(whose, Whose::Org).then_some(&org);
                let made = owner.post("/projects").json(&json!({ "name": project, "org": org })).await.created();
                owner.delete(&format!("/projects/{project}")).await.ok();
                values.insert("{id}", made["id"].as_str().unwrap().to_owned());
            }
            "orgs" => {
                if path.contains("/invites/") {
                    let invite = json!({ "email": "new@example.com", "role": "member" });
                    let invite = owner.post(&format!("/orgs/{org}/invites")).json(&invite).await.created();
                    values.insert("{id}", invite["id"].as_str().unwrap().to_owned());
                }
                if path.contains("/tokens/") {
                    let token = json!({ "kind": "ai" });
                    let token = owner.post(&format!("/orgs/{org}/tokens")).json(&token).await.created();
                    values.insert("{id}", token["id"].as_str().unwrap().to_owned());
                }
                if path.ends_with("/icon") {
                    let path = format!("/orgs/{org}/icon");
                    owner.put(&path).header("content-type", "image/png").body(PNG).await.assert_status(200);
                }
                if path.contains("/installations/") {
                    self.share_installation(&org, number).await;
                    values.insert("{id}", number.to_string());
                }
                if path.contains("/billing/") {
                    values.insert("{id}", self.pay_for(&org, number, path.ends_with("/resume")).await.to_string());
                }
                values.insert("{login}", "colleague".to_owned());
                values.insert("{name}", org);
            }
            "billing" if path.contains("{id}") => {
                values.insert("{id}", self.pay(number).await.to_string());
            }
            "documents" => {
                let link = format!("/billing/invoices/{}/pdf", self.pay(number).await);
                let link = owner.get(&link).await.ok();
                values.insert("{link}", link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
            }
            "invites" => {
                let invite = json!({ "email": "new@example.com", "role": "member" });
                let invite = owner.post(&format!("/orgs/{org}/invites")).json(&invite).await.created();
                let link = invite["invite_url"].as_str().unwrap();
                values.insert("{token}", link.rsplit('/').next().unwrap().to_owned());
            }
            "stats" => {
                values.insert("{token}", self.publish_stats(number).await);
            }
            "sessions" if path.contains("{id}") => {
                values.insert("{id}", self.sign_in().await);
            }
            "notifications" => {
                values.insert("{kind}", "domain_trouble".to_owned());
            }
            "tokens" if path.contains("{id}") => {
                let token = owner.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
                values.insert("{id}", token["id"].as_str().unwrap().to_owned());
            }
            "shares" if path.contains("{name}") => {
                values.insert("{name}", owner.share(&Site::page("x"), 1).await.share_name());
            }
            _ => {}
        }
        Target { values, deploy, ai }
    }

    /// Shares an installation with an org.
    async fn share_installation(&self, org: &str, number: u32) {
        let share = "INSERT INTO installation_shares (installation_id, org_id, shared_by, shared_at)
                     SELECT $, o.id, u.id, now() FROM orgs o, users u WHERE o.name = '%' AND u.vcs_login = 'owner'";
        self.world.sql(&share.replace('$', &number.to_string()).replace('%', org)).await;
    }

    /// A session of the owner's in the console.
    async fn sign_in(&self) -> String {
        self.world.person().sign_in("owner").await;
        let sessions = self.cast.owner.get("/sessions").await.ok();
        sessions["sessions"][0]["id"].as_str().unwrap().to_owned()
    }

    /// The token of a public page of statistics.
    async fn publish_stats(&self, number: u32) -> String {
        let (owner, project) = (&self.cast.owner, format!("project-{number}"));
        owner.create_project(&project).await;
        let path = format!("/projects/{project}/stats/public");
        let link = owner.put(&path).json(&json!({ "enabled": true })).await.ok();
        link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    }

    /// An invoice of an organization, with its documents; its subscription may be cancelled.
    async fn pay_for(&self, org: &str, number: u32, is_cancelled: bool) -> InvoiceId {
        let books = Books::of_org(self.world, org).await;
        let paid = books.pay(0, 2_000, 420, number.into()).await;
        books.render(&paid.invoice).await;
        if is_cancelled {
            books.set("cancel_at_period_end = true").await;
        }
        paid.invoice
    }

    /// An invoice of the owner's own, with its documents.
    async fn pay(&self, number: u32) -> InvoiceId {
        let books = Books::of_user(self.world, "owner").await;
        let paid = books.pay(number.into(), 2_000, 420, number.into()).await;
        books.render(&paid.invoice).await;
        paid.invoice
    }

    /// Tries the operation.
    pub(super) async fn call(&self, row: &Row, target: &Target, who: Who) -> Answer {
        let filled = |text: &str| {
            let fill = |text: String, (name, value): (&&'static str, &String)| text.replace(*name, value);
            target.values.iter().fold(text.to_owned(), fill)
        };
        let (method, path) = row.0.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let request = self.actor(target, who).request(method, &filled(path));
        match row.3 {
            // Its answer has no end.
            Body::Empty if path == "/events" => request.head().await,
            Body::Empty => request.await,
            // Who is not refused makes something new each time.
            Body::Json(body) if row.1 == Rule::Person => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let body = body.replace("{new}", &format!("new-{number}"));
                request.json(&serde_json::from_str(&body).unwrap()).await
            }
            Body::Json(body) => request.json(&serde_json::from_str(&filled(body)).unwrap()).await,
            Body::Gzip => request.upload(Site::page("x").tarball()).await,
            Body::Png => request.header("content-type", "image/png").body(PNG).await,
        }
    }

    fn actor(&self, target: &Target, who: Who) -> Actor {
        match who {
            Who::Nobody => self.world.nobody(),
            Who::Revoked => self.cast.revoked.clone(),
            Who::AiKey => self.cast.ai_key.clone(),
            Who::OrgAiKey => target.ai.clone(),
            Who::DeployToken => target.deploy.clone(),
            Who::ForeignDeployToken => self.cast.foreign_deploy.clone(),
            Who::Outsider => self.cast.outsider.clone(),
            Who::Member => self.cast.member.clone(),
            Who::Admin => self.cast.admin.clone(),
            Who::Owner => self.cast.owner.clone(),
        }
    }
}

/// One transparent pixel.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00, 0x0a, 0x49,
    0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x00, 0x01, 0x00, 0x00, 0x05, 0x00, 0x01, 0x0d, 0x0a, 0x2d, 0xb4, 0x00, 0x00,
    0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];
