//! What is done to the subject of a state.

use serde_json::{Value, json};

use super::{
    scene::{Scene, begins_in_org},
    table::{Act, State},
};
use crate::world::answer::Answer;

impl Scene<'_> {
    /// Does the act. Returns the code when it is refused.
    pub async fn act(&self) -> Option<String> {
        let done = match self.act {
            Act::Delete if self.state == State::ShareSuspension => {
                let project = self.share().await;
                self.mia.delete(&format!("/shares/{project}")).await
            }
            Act::Delete => self.delete().await,
            Act::ToOrg => self.transfer(json!(self.org.name)).await,
            Act::ToPerson => self.transfer(Value::Null).await,
            Act::Detach => self.mia.delete(&format!("/projects/{}/domains/{}", self.project, self.domain())).await,
            Act::Leave => self.mia.delete(&self.org.path(&format!("/members/{}", self.mia_login()))).await,
            Act::Remove => self.boss.delete(&self.org.path(&format!("/members/{}", self.mia_login()))).await,
            Act::Lower => {
                let path = self.org.path(&format!("/members/{}", self.mia_login()));
                self.boss.put(&path).json(&json!({ "role": "member" })).await
            }
            Act::DeleteOrg => return self.delete_org().await,
            Act::Suspend | Act::SuspendOwner => {
                let login = if self.act == Act::Suspend { self.mia_login() } else { self.boss_login() };
                self.operate(&["suspend", "--account", &login, "--reason", "abuse"]).await;
                return None;
            }
            Act::Recreate if self.state == State::KeptName => self.create(&self.other()).await,
            Act::Recreate => match refusal(&self.delete().await) {
                None => self.create(&self.project).await,
                refused => return refused,
            },
            Act::Restore if self.state == State::KeptName => self.restore(&self.other()).await,
            Act::Restore => match refusal(&self.delete().await) {
                None => self.restore(&self.project).await,
                refused => return refused,
            },
        };
        refusal(&done)
    }

    async fn delete(&self) -> Answer {
        self.mia.delete(&format!("/projects/{}", self.project)).await
    }

    /// The project of the share.
    async fn share(&self) -> String {
        self.mia.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned()
    }

    async fn transfer(&self, to: Value) -> Answer {
        let project = match self.state {
            State::ShareSuspension => self.share().await,
            _ => self.project.clone(),
        };
        self.mia.post(&format!("/projects/{project}/transfer")).json(&json!({ "org": to })).await
    }

    async fn create(&self, name: &str) -> Answer {
        let org = begins_in_org(self.state, self.act).then_some(&self.org.name);
        self.mia.post("/projects").json(&json!({ "name": name, "org": org })).await
    }

    async fn restore(&self, name: &str) -> Answer {
        let query = if begins_in_org(self.state, self.act) { format!("?org={}", self.org.name) } else { String::new() };
        let deleted = self.mia.get(&format!("/deleted-projects{query}")).await.ok();
        let mut deleted = deleted["projects"].as_array().unwrap().iter();
        let id = deleted.find(|project| project["name"] == name).unwrap()["id"].as_str().unwrap();
        self.mia.post(&format!("/deleted-projects/{id}/restore")).json(&json!({})).await
    }

    async fn delete_org(&self) -> Option<String> {
        let list = self.boss.get(&format!("/projects?org={}", self.org.name)).await.ok();
        for project in list["projects"].as_array().unwrap() {
            let path = format!("/projects/{}", project["name"].as_str().unwrap());
            let refused = refusal(&self.boss.delete(&path).await);
            if refused.is_some() {
                return refused;
            }
        }
        refusal(&self.boss.delete(&self.org.path("")).await)
    }
}

fn refusal(answer: &Answer) -> Option<String> {
    if answer.status.is_success() {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    Some(body["error"]["code"].as_str().unwrap().to_owned())
}
