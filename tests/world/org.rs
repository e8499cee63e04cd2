//! An organization and its members, created through the API.

use domain::role::Role;
use serde_json::{Value, json};

use super::{Actor, World};

#[derive(Clone)]
pub struct Org {
    pub name: String,
    pub owner: Actor,
}

impl World {
    /// Creates an organization `acme`, owned by a new person `owner`.
    pub async fn acme(&self) -> Org {
        self.user("owner").await.create_org("acme").await
    }

    /// Creates an organization `acme`, and a member with this role whose login is the role's name.
    pub async fn org_with(&self, role: Role) -> (Org, Actor) {
        let org = self.acme().await;
        let member = match role {
            Role::Owner => "co-owner",
            Role::Admin => "admin",
            Role::Member => "member",
        };
        let member = self.user(member).await;
        org.admit(&member, role).await;
        (org, member)
    }

    /// Creates an organization with an owner, an admin and a member: `org-owner`, `org-admin`, `org-member`.
    pub async fn staffed_org(&self, name: &str) -> Staff {
        let (owner, admin) = (self.user("org-owner").await, self.user("org-admin").await);
        let member = self.user("org-member").await;
        let org = owner.create_org(name).await;
        org.admit(&admin, Role::Admin).await;
        org.admit(&member, Role::Member).await;
        Staff { org, owner, admin, member }
    }
}

pub struct Staff {
    pub org: Org,
    pub owner: Actor,
    pub admin: Actor,
    pub member: Actor,
}

impl Actor {
    pub async fn create_org(&self, name: &str) -> Org {
        self.post("/orgs").json(&json!({ "name": name })).await.created();
        Org { name: name.to_owned(), owner: self.clone() }
    }

    /// Returns the actor's login at the code host.
    pub async fn login(&self) -> String {
        self.get("/me").await.ok()["vcs_login"].as_str().unwrap().to_owned()
    }

    pub async fn create_project_in(&self, org: &Org, name: &str) -> Value {
        self.post("/projects").json(&json!({ "name": name, "org": org.name })).await.created()
    }
}

impl Org {
    /// Returns an API path of the organization, as in `org.path("/members/ada")`.
    pub fn path(&self, rest: &str) -> String {
        format!("/orgs/{}{rest}", self.name)
    }

    /// Returns the organization's details, as its owner sees them.
    pub async fn detail(&self) -> Value {
        self.owner.get(&self.path("")).await.ok()
    }

    /// Returns the members' roles by login: `[("owner", "owner"), …]`.
    pub async fn roles(&self) -> Vec<(String, String)> {
        let detail = self.detail().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let members = detail["members"].as_array().unwrap().iter();
        members.map(|member| (text(&member["login"]), text(&member["role"]))).collect()
    }

    pub async fn invite(&self, role: &str) -> Value {
        let invite = json!({ "email": "somebody@example.com", "role": role });
        self.owner.post(&self.path("/invites")).json(&invite).await.created()
    }

    /// Makes `actor` a member through an invite that they accept.
    pub async fn admit(&self, actor: &Actor, role: Role) {
        let invited = if role == Role::Admin { "admin" } else { "member" };
        let invite = self.invite(invited).await;
        actor.post(&format!("/invites/{}/accept", token_of(&invite))).await.ok();
        if role == Role::Owner {
            let path = self.path(&format!("/members/{}", actor.login().await));
            self.owner.put(&path).json(&json!({ "role": "owner" })).await.ok();
        }
    }

    pub async fn create_token(&self, kind: &str) -> Value {
        self.owner.post(&self.path("/tokens")).json(&json!({ "kind": kind, "label": "ci" })).await.created()
    }

    /// Returns a caller with a new token owned by the organization.
    pub async fn robot(&self, kind: &str) -> Actor {
        self.owner.with_token(self.create_token(kind).await["token"].as_str().unwrap())
    }
}

/// Returns the secret at the end of an invite's link.
pub fn token_of(invite: &Value) -> String {
    invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
}
