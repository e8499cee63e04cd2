//! A code host with people, installations and repositories, and a world that signs in there.

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::{io::Write as _, path::Path, time::Duration};

use crate::{
    stubs::codehost::{
        CLIENT_ID, CodeHost, Step,
        app::{APP_ID, APP_KEY},
        webhook::{NOTHING, WEBHOOK_SECRET, Webhook},
    },
    world::{
        Actor, Builder, World,
        answer::{Answer, parse_secret},
        eventually,
    },
};

/// How long a push may take until it is seen.
const SOON: Duration = Duration::from_secs(20);

/// A code host and a world that signs in there.
pub(super) struct Scene {
    pub(super) host: CodeHost,
    pub(super) world: World,
    /// Where the app's key lies.
    _keys: tempfile::TempDir,
}

impl Scene {
    pub(super) async fn start() -> Self {
        Self::with(|world, _| world).await
    }

    /// A scene in which the app has its key.
    pub(super) async fn with_app() -> Self {
        Self::with(|world, keys| {
            let file = keys.join("app.pem");
            std::fs::write(&file, APP_KEY).unwrap();
            world.set("CODE_HOST__APP_ID", APP_ID).set("CODE_HOST__PRIVATE_KEY_FILE", file.display())
        })
        .await
    }

    pub(super) async fn with(set: impl FnOnce(Builder, &Path) -> Builder) -> Self {
        let host = CodeHost::start().await;
        let keys = tempfile::tempdir().unwrap();
        let world = World::builder()
            .set("CODE_HOST__KIND", "github")
            .set("CODE_HOST__WEB_URL", &host.url)
            .set("CODE_HOST__API_URL", &host.url)
            .set("CODE_HOST__CLIENT_ID", CLIENT_ID)
            .set("CODE_HOST__CLIENT_SECRET", "shh")
            .set("CODE_HOST__WEBHOOK_SECRET", WEBHOOK_SECRET)
            .set("LIMITS__AUTH_DEVICE_PER_10_MIN", 1_000)
            .set("LIMITS__AUTH_POLL_PER_10_MIN", 1_000)
            .plan(&json!({}));
        let world = set(world, keys.path()).start().await;
        Self { host, world, _keys: keys }
    }

    /// `mona`, whose installation 7 on `acme` reaches the repository 70, `acme/site`.
    pub(super) async fn with_repo() -> (Self, Actor) {
        Self::start().await.with_monas_repo().await
    }

    /// The same, with a project `site` that is linked to the repository.
    pub(super) async fn linked(self) -> (Self, Actor) {
        let (scene, mona) = self.with_monas_repo().await;
        mona.create_project("site").await;
        mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
        (scene, mona)
    }

    async fn with_monas_repo(self) -> (Self, Actor) {
        self.host.install(7, "acme", "Organization", &["mona"]);
        self.host.create_repo(7, 70, "acme/site");
        let mona = self.sign_in("mona").await;
        (self, mona)
    }

    /// Somebody who signed in at the code host.
    pub(super) async fn sign_in(&self, login: &str) -> Actor {
        let nobody = self.world.nobody();
        // One account a login.
        let id = login.bytes().fold(7, |id: u64, byte| id * 31 % 1_000_003 + u64::from(byte));
        self.host.sign_in(id, login, None);
        self.host.set(Step::Approved);
        let device = nobody.post("/auth/device").await.ok();
        let token = nobody.post("/auth/device/poll").json(&json!({ "device_code": device["device_code"] })).await.ok();
        nobody.with_token(&parse_secret(&token["token"]))
    }

    /// An org of `owner`'s to which the others belong.
    pub(super) async fn org(&self, owner: &Actor, name: &str, members: &[&str]) {
        owner.post("/orgs").json(&json!({ "name": name })).await.created();
        for login in members {
            let sql = format!(
                "INSERT INTO org_members (org_id, user_id, role, joined_at)
                 SELECT o.id, u.id, 'member', now() FROM orgs o, users u WHERE o.name = '{name}' AND u.vcs_login = '{login}'"
            );
            self.world.sql(&sql).await;
        }
    }

    pub(super) async fn deliver(&self, webhook: &Webhook) -> Answer {
        self.world
            .nobody()
            .post("/webhooks/github")
            .header("content-type", "application/json")
            .header("user-agent", "GitHub-Hookshot/044aadd")
            .header("x-github-event", webhook.event)
            .header("x-github-delivery", &webhook.delivery)
            .header("x-hub-signature-256", &webhook.signature)
            .body(webhook.body.clone())
            .await
    }

    /// Commits the files to `main` of `acme/site` and delivers the push. The commit.
    pub(super) async fn push(&self, files: &[(&str, &str)]) -> String {
        self.push_archive("main", repo_archive("acme-site-abc", files)).await
    }

    /// Commits the archive to a branch of `acme/site` that one project is linked to, and delivers the push. The commit.
    pub(super) async fn push_archive(&self, branch: &str, archive: Vec<u8>) -> String {
        let sha = self.host.commit(70, branch, archive);
        let push = Webhook::push((70, "acme/site"), &format!("refs/heads/{branch}"), NOTHING, &sha, 7);
        assert_eq!(self.deliver(&push).await.ok(), json!({ "ok": true, "deploys": 1 }));
        sha
    }

    /// Waits until the site's page says `text`.
    pub(super) async fn shows(&self, project: &str, text: &str) {
        let url = self.world.site_url(project);
        eventually(SOON, &format!("{project} shows {text}"), async || {
            let answer = self.world.edge().get(&url).await;
            answer.status == 200 && answer.text() == text
        })
        .await;
    }

    /// Waits until no push waits any more.
    pub(super) async fn settled(&self) {
        eventually(2 * crate::BACKGROUND, "every push has come to something", async || {
            self.world.sql_number("SELECT count(*) FROM repo_deploys").await == 0
        })
        .await;
    }

    /// Waits until the newest deployment of the project is there, and failed: the deployment.
    pub(super) async fn newest_failed(&self, actor: &Actor, project: &str) -> Value {
        self.settled().await;
        let detail = actor.project(project).await;
        let newest = detail["deployments"][0].clone();
        assert_eq!(newest["status"], "failed", "{detail}");
        newest
    }

    /// Pauses between attempts are over.
    pub(super) async fn hurry(&self) {
        self.world.sql("UPDATE repo_deploys SET next_attempt_at = now() WHERE leased_until IS NULL").await;
    }
}

pub(super) fn link(repo: &str) -> Value {
    json!({ "installation_id": 7, "repo": repo })
}

/// An archive as `git archive` makes it for the code host: a global header that names the commit, everything under one
/// folder.
pub(super) fn repo_archive(top: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let comment = b"52 comment=6dcb09b5b57875f334f61aebed695e2e4193db5e\n";
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::XGlobalHeader);
    header.set_size(comment.len() as u64);
    tar.append_data(&mut header, "pax_global_header", &comment[..]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    tar.append_data(&mut header, format!("{top}/"), &b""[..]).unwrap();
    for (path, body) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(body.len() as u64);
        header.set_mode(0o664);
        tar.append_data(&mut header, format!("{top}/{path}"), body.as_bytes()).unwrap();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&tar.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}
