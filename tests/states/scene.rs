//! The people and things of one pair, in the state that it begins with, and whether the state holds.

use domain::role::Role;
use serde_json::{Value, json};

use super::table::{Act, State};
use crate::{
    BACKGROUND,
    world::{Actor, Site, World, actor::Uploaded, eventually, form::Form, org::Org},
};

pub const PASSWORD: &str = "hunter22";

/// What all pairs have in common.
pub struct Stack {
    pub world: World,
}

impl Stack {
    pub fn new(world: World) -> Self {
        Self { world }
    }
}

/// One pair.
pub struct Scene<'s> {
    pub world: &'s World,
    pub number: usize,
    pub state: State,
    pub act: Act,
    /// The owner of the organization.
    pub boss: Actor,
    /// The person who acts: an admin of the organization.
    pub mia: Actor,
    pub org: Org,
    /// The project that something is done to.
    pub project: String,
    pub site: Uploaded,
    /// What the state is looked at by: an address, a secret, a name.
    thing: String,
}

impl<'s> Scene<'s> {
    /// Sets the scene of a pair: people, an organization and a project, and the state.
    pub async fn set(stack: &'s Stack, number: usize, state: State, act: Act) -> Self {
        let world = &stack.world;
        let (boss, mia) = (world.user(&format!("boss-{number}")).await, world.user(&format!("mia-{number}")).await);
        let org = boss.create_org(&format!("org-{number}")).await;
        org.admit(&mia, Role::Admin).await;
        let project = format!("project-{number}");
        let site = publish(&mia, begins_in_org(state, act).then_some(&org), &project).await;
        let mut scene = Self { world, number, state, act, boss, mia, org, project, site, thing: String::new() };
        if act == Act::Detach || matches!(state, State::KeptDomain | State::Certificate) {
            scene.mia.attach(&scene.project, &scene.domain()).await;
        }
        scene.thing = scene.arrange().await;
        scene
    }

    /// The custom domain of the pair.
    pub fn domain(&self) -> String {
        format!("www.shop-{}.example", self.number)
    }

    pub fn mia_login(&self) -> String {
        format!("mia-{}", self.number)
    }

    pub fn boss_login(&self) -> String {
        format!("boss-{}", self.number)
    }

    /// Another project, of the account whose state it is.
    pub fn other(&self) -> String {
        format!("other-{}", self.number)
    }

    pub async fn operate(&self, arguments: &[&str]) {
        let said = self.world.admin_prints(arguments).await;
        assert!(said.contains("1/1"), "{said}");
    }

    async fn arrange(&self) -> String {
        let (mia, path) = (&self.mia, format!("/projects/{}", self.project));
        match self.state {
            State::SiteSuspension => {
                self.operate(&["suspend", &self.project, "--reason", "abuse"]).await;
                self.site.url.clone()
            }
            State::ShareSuspension => {
                let share = mia.share(&Site::page("shared"), 1).await;
                self.operate(&["suspend", &share.share_name(), "--reason", "abuse"]).await;
                share.url
            }
            State::PersonSuspension => {
                let url = publish(mia, None, &self.other()).await.url;
                self.operate(&["suspend", "--account", &self.mia_login(), "--reason", "abuse"]).await;
                url
            }
            State::OrgSuspension => {
                let url = publish(mia, Some(&self.org), &self.other()).await.url;
                self.operate(&["suspend", "--account", &self.org.name, "--reason", "abuse"]).await;
                url
            }
            State::SuspensionWithOwner => {
                let url = publish(mia, Some(&self.org), &self.other()).await.url;
                self.operate(&["suspend", "--account", &self.boss_login(), "--reason", "abuse", "--with-orgs"]).await;
                url
            }
            State::KeptName => {
                let name = self.other();
                publish(mia, begins_in_org(self.state, self.act).then_some(&self.org), &name).await;
                mia.delete(&format!("/projects/{name}")).await.ok();
                // However short it lived.
                let sql = format!(
                    "INSERT INTO retired_names (kind, name, former_owners, retired_at)
                     SELECT 'project', '{name}', ARRAY[COALESCE(org_id, user_id)], now() FROM deleted_projects
                     WHERE name = '{name}' ON CONFLICT DO NOTHING"
                );
                self.world.sql(&sql).await;
                name
            }
            State::KeptDomain => {
                mia.detach(&self.project, &self.domain()).await;
                self.domain()
            }
            State::PublicLink => {
                let link = mia.put(&format!("{path}/stats/public")).json(&json!({ "enabled": true })).await.ok();
                last_segment(&link["url"])
            }
            State::DeployToken | State::OrgKey => {
                let kind = if self.state == State::OrgKey { "ai" } else { "deploy" };
                let token = mia.post(&self.org.path("/tokens")).json(&json!({ "kind": kind })).await.created();
                text(&token["token"])
            }
            State::OwnKey => text(&mia.post("/tokens").json(&json!({ "kind": "ai" })).await.created()["token"]),
            State::Variable => {
                mia.put(&format!("{path}/env/KEY")).json(&json!({ "value": "1" })).await.ok();
                String::new()
            }
            State::Password | State::Gate => {
                mia.put(&format!("{path}/password")).json(&json!({ "password": PASSWORD })).await.ok();
                if self.state == State::Gate { self.let_in().await } else { String::new() }
            }
            State::RepoLink => {
                self.link_repository().await;
                String::new()
            }
            State::Invite => {
                let invite = json!({ "email": format!("guest-{}@example.com", self.number), "role": "member" });
                last_segment(&mia.post(&self.org.path("/invites")).json(&invite).await.created()["invite_url"])
            }
            State::Payment => {
                let details = json!({ "name": "Org", "country": "NL" });
                self.boss.put(&self.org.path("/billing/profile")).json(&details).await.ok();
                self.boss.post(&self.org.path("/billing/checkout")).json(&json!({ "plan": "pro" })).await.ok();
                String::new()
            }
            State::Certificate | State::MemberView => String::new(),
        }
    }

    /// The cookie of a visitor who has given the password.
    async fn let_in(&self) -> String {
        let page = self.world.edge().navigate(&self.site.url).await.assert_status(401);
        let form = &Form::all(&page.text())[0];
        let fields = form.filled(&[("password", PASSWORD)], "");
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let base = url::Url::parse(&self.site.url).unwrap();
        let target = base.join(&form.action).unwrap();
        let origin = base.origin().ascii_serialization();
        let entered = self.world.edge().post(target.as_str()).header("origin", origin).form(&fields).await;
        entered.header("set-cookie").split(';').next().unwrap().to_owned()
    }

    /// Links the project to a repository that nobody asks a code host about, by an installation of the person's.
    async fn link_repository(&self) {
        let (id, project, org, login) = (self.number + 1_000, &self.project, &self.org.name, self.mia_login());
        let is_in_org = begins_in_org(self.state, self.act);
        self.world
            .sql(&format!(
                "INSERT INTO installations (id, account, account_id, account_type, created_at)
                     VALUES ({id}, 'acme', {id}, 'Organization', now());
                 INSERT INTO installation_shares (installation_id, org_id, shared_by, shared_at)
                     SELECT {id}, o.id, u.id, now() FROM orgs o, users u
                     WHERE {is_in_org} AND o.name = '{org}' AND u.vcs_login = '{login}';
                 INSERT INTO repo_links (project_id, installation_id, org_id, repo_id, repo, branch, directory, linked_by,
                                         linked_at)
                     SELECT p.id, {id}, p.org_id, {id}, 'acme/site', 'main', '.', u.id, now() FROM projects p, users u
                     WHERE p.name = '{project}' AND u.vcs_login = '{login}'"
            ))
            .await;
    }

    /// Whether the state holds, as whoever it concerns sees it.
    pub async fn holds(&self) -> bool {
        let (edge, path) = (self.world.edge(), format!("/projects/{}", self.project));
        let of_project = |table: &str| {
            format!(
                "SELECT count(*) FROM {table} t JOIN projects p ON p.id = t.project_id WHERE p.name = '{}'",
                self.project
            )
        };
        match self.state {
            State::SiteSuspension
            | State::ShareSuspension
            | State::PersonSuspension
            | State::OrgSuspension
            | State::SuspensionWithOwner => edge.get(&self.thing).await.status == 403,
            State::KeptName => {
                let answer = self.stranger().await.post("/projects").json(&json!({ "name": self.thing })).await;
                answer.status == 409 && answer.text().contains("30 days")
            }
            State::KeptDomain => {
                let eve = self.stranger().await;
                let hers = format!("eves-{}", self.number);
                if eve.get(&format!("/projects/{hers}")).await.status == 404 {
                    eve.create_project(&hers).await;
                }
                let attach = eve.post(&format!("/projects/{hers}/domains")).json(&json!({ "domain": self.thing }));
                let answer = attach.await;
                answer.status == 409 && answer.text().contains("30 days")
            }
            State::PublicLink => {
                let (path, mut status) = (format!("/stats/{}", self.thing), 503);
                // One client looks at few of them at a time, and all pairs are one client's.
                eventually(BACKGROUND, "there is a turn for the statistics", async || {
                    status = self.world.nobody().get(&path).await.status.as_u16();
                    !matches!(status, 429 | 503)
                })
                .await;
                status == 200
            }
            State::DeployToken => {
                let deployed = self.mia.with_token(&self.thing).upload(&self.project, &Site::page("home")).await;
                deployed.status == 201
            }
            State::OrgKey | State::OwnKey => {
                let models = format!("https://ai.svc.localhost:{}/v1/models", self.world.public_port());
                edge.get(&models).bearer(&self.thing).await.status == 200
            }
            State::Variable => self.world.sql_number(&of_project("env_vars")).await == 1,
            State::Password => edge.get(&self.site.url).await.status == 401,
            State::Gate => edge.get(&self.site.url).header("cookie", &self.thing).await.status == 200,
            State::RepoLink => {
                let alive = format!("{} AND p.org_id IS NOT DISTINCT FROM t.org_id", of_project("repo_links"));
                self.world.sql_number(&alive).await == 1
            }
            State::Invite => self.boss.get(&format!("/invites/{}", self.thing)).await.status == 200,
            State::Payment => {
                let billing = self.boss.get(&self.org.path("/billing")).await;
                billing.status == 200 && billing.ok()["subscription"]["status"] == "pending"
            }
            State::Certificate => {
                let sql = format!("SELECT count(*) FROM certificate_orders WHERE domain = '{}'", self.domain());
                self.world.sql_number(&sql).await == 1
            }
            State::MemberView => {
                let viewer = if self.act == Act::ToPerson { &self.boss } else { &self.mia };
                viewer.get(&path).await.status == 200
            }
        }
    }

    /// Somebody who has nothing to do with any of it.
    async fn stranger(&self) -> Actor {
        self.world.user(&format!("eve-{}", self.number)).await
    }
}

/// Whether the project is the organization's to begin with.
pub fn begins_in_org(state: State, act: Act) -> bool {
    match act {
        Act::ToOrg => false,
        Act::ToPerson | Act::Leave | Act::Remove | Act::Lower | Act::DeleteOrg | Act::Suspend | Act::SuspendOwner => {
            true
        }
        Act::Delete | Act::Detach | Act::Recreate | Act::Restore => {
            matches!(
                state,
                State::OrgSuspension
                    | State::SuspensionWithOwner
                    | State::DeployToken
                    | State::OrgKey
                    | State::Payment
                    | State::MemberView
            )
        }
    }
}

/// A project of the person's, or of the organization, with a page.
async fn publish(person: &Actor, org: Option<&Org>, name: &str) -> Uploaded {
    match org {
        None => drop(person.create_project(name).await),
        Some(org) => drop(person.create_project_in(org, name).await),
    }
    person.deploy(name, &Site::page("home")).await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn last_segment(url: &Value) -> String {
    text(url).rsplit('/').next().unwrap().to_owned()
}
