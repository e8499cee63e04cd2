//! An organization and the people in it, made through the API.

use domain::role::Role;
use serde_json::{Value, json};

use super::{Actor, World};

/// An organization.
#[derive(Clone)]
pub struct Org {
    pub name: String,
    /// The person who made the organization.
    pub owner: Actor,
}

impl World {
    /// An org called `acme` that a person called `owner` has made.
    pub async fn acme(&self) -> Org {
        self.user("owner").await.create_org("acme").await
    }

    /// An org called `acme`, and somebody in it who has this role and is called after it.
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

    /// An org of this name with an owner, an admin and a member: `org-owner`, `org-admin`, `org-member`.
    pub async fn staffed_org(&self, name: &str) -> Staff {
        let (owner, admin) = (self.user("org-owner").await, self.user("org-admin").await);
        let member = self.user("org-member").await;
        let org = owner.create_org(name).await;
        org.admit(&admin, Role::Admin).await;
        org.admit(&member, Role::Member).await;
        Staff { org, owner, admin, member }
    }
}

/// The people of an organization.
pub struct Staff {
    pub org: Org,
    pub owner: Actor,
    pub admin: Actor,
    pub member: Actor,
}

impl Actor {
    /// Makes an org.
    pub async fn create_org(&self, name: &str) -> Org {
        self.post("/orgs").json(&json!({ "name": name })).await.created();
        Org { name: name.to_owned(), owner: self.clone() }
    }

    /// What the actor is called at the code host.
    pub async fn login(&self) -> String {
        self.get("/me").await.ok()["vcs_login"].as_str().unwrap().to_owned()
    }

    /// Makes a project of an org.
    pub async fn create_project_in(&self, org: &Org, name: &str) -> Value {
        self.post("/projects").json(&json!({ "name": name, "org": org.name })).await.created()
    }
}

impl Org {
    /// A path of the org's own: `org.path("/members/ada")`.
    pub fn path(&self, rest: &str) -> String {
        format!("/orgs/{}{rest}", self.name)
    }

    /// The org's detail, as its owner sees it.
    pub async fn detail(&self) -> Value {
        self.owner.get(&self.path("")).await.ok()
    }

    /// The members' roles by their logins: `[("owner", "owner"), …]`.
    pub async fn roles(&self) -> Vec<(String, String)> {
        let detail = self.detail().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let members = detail["members"].as_array().unwrap().iter();
        members.map(|member| (text(&member["login"]), text(&member["role"]))).collect()
    }

    /// Invites somebody. Returns the answer's body.
    pub async fn invite(&self, role: &str) -> Value {
        let invite = json!({ "email": "somebody@example.com", "role": role });
        self.owner.post(&self.path("/invites")).json(&invite).await.created()
    }

    /// Makes `actor` a member, by an invite that they accept.
    pub async fn admit(&self, actor: &Actor, role: Role) {
        let invited = if role == Role::Admin { "admin" } else { "member" };
        let invite = self.invite(invited).await;
        actor.post(&format!("/invites/{}/accept", token_of(&invite))).await.ok();
        if role == Role::Owner {
            let path = self.path(&format!("/members/{}", actor.login().await));
            self.owner.put(&path).json(&json!({ "role": "owner" })).await.ok();
        }
    }

    /// Creates a token that the org owns. Returns the answer's body.
    pub async fn create_token(&self, kind: &str) -> Value {
        self.owner.post(&self.path("/tokens")).json(&json!({ "kind": kind, "label": "ci" })).await.created()
    }

    /// A caller with a new token that the org owns.
    pub async fn robot(&self, kind: &str) -> Actor {
        self.owner.with_token(self.create_token(kind).await["token"].as_str().unwrap())
    }
}

/// The secret at the end of an invite's link.
pub fn token_of(invite: &Value) -> String {
    invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
}
