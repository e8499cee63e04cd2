//! A world for photographs of the console and for the search for its findings: people, organizations, sites in every state, a
//! year of visitors, and bills.

use serde_json::{Value, json};

use super::DIST;
use crate::{
    BACKGROUND,
    stubs::provider::Provider,
    world::{Actor, Builder, OPERATOR_SECRET, Site, World, browser::presented_keys, eventually, org::token_of},
};

/// Rows that a year of traffic leaves, for the sites of the scene.
const TRAFFIC: &str = include_str!("traffic.sql");
/// Moves deployments, keys and the log apart in time, and writes what programs asked of models.
const HISTORY: &str = include_str!("history.sql");
/// A name with whatever could become markup or script.
pub(super) const ATTACK: &str = "<img src=x onerror=\"document.title='taken'\">";

/// A world with everything that a page of the console can show.
pub(super) struct Scene {
    pub world: World,
    pub ada: Actor,
    /// An invitation that nobody has accepted.
    invite: String,
    _provider: Provider,
    public_stats: String,
    deployment: String,
    share: String,
    /// The site and the organization whose pages are looked at.
    site: &'static str,
    org: &'static str,
}

impl Scene {
    pub(super) async fn start() -> Self {
        Self::of(World::builder()).await
    }

    /// A scene with the rate limits of an installation, where other tests have none.
    pub(super) async fn with_rate_limits() -> Self {
        Self::of(World::builder().set("LIMITS__API_PER_MIN", "600").set("LIMITS__API_ACCOUNT_PER_MIN", "3000")).await
    }

    async fn of(builder: Builder) -> Self {
        let provider = Provider::start().await;
        let authority = World::ca_folder().await;
        let builder = builder.play_money().set("ADMIN__CONSOLE", DIST);
        let builder = builder.set("GATEWAY__PROVIDER_URL", &provider.url).set("ACME__ISSUER", "local");
        // As `make up` does, whose domains under localhost lead to this machine.
        let builder = builder.set("ACME__LOCAL_DIR", authority.display()).set("LIMITS__PROBE_ALLOW_PRIVATE", "true");
        let world = builder.start().await;
        let ada = world.user("ada").await;
        let invite = organization(&world, &ada).await;
        let deployment = sites(&world, &ada).await;
        keys(&ada).await;
        buy(&world, &ada).await;
        let share = ada.post("/shares?ttl=3").upload(Site::page("Minutes of the board").tarball());
        let share = share.header("x-svc-share-password", "hunter22").await.created();
        ada.share(&Site::page("Draft"), 14).await;
        let public = json!({ "enabled": true });
        let public_stats = ada.put("/projects/field-notes/stats/public").json(&public).await.ok();
        world.sql(TRAFFIC).await;
        world.sql(&HISTORY.replace("$login", "ada")).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            public_stats: text(&public_stats["url"]),
            share: text(&share["url"]),
            world,
            ada,
            invite,
            deployment,
            site: "field-notes",
            org: "harbour",
            _provider: provider,
        }
    }

    /// Addresses and names of the scene, as the scripts in the browser read them.
    pub(super) async fn description(&self) -> Value {
        let device = self.world.nobody().post("/auth/device").await.ok();
        json!({
            "console": self.world.console_url(""),
            "api": self.world.console_url("").replacen("app.", "api.", 1),
            "ai": self.world.console_url("").replacen("app.", "ai.", 1),
            "keys": presented_keys(&self.world).await,
            "login": "ada",
            "secret": OPERATOR_SECRET,
            "site": self.world.site_url("field-notes"),
            "locked": self.world.site_url("launch-plan"),
            "members": self.world.site_url("handbook"),
            "missing": self.world.site_url("nothing-here"),
            "share": self.share,
            "invite": self.invite,
            "publicStats": self.public_stats,
            "device": device["verification_uri_complete"],
            "parameters": { "sites": { "name": self.site, "id": self.deployment }, "orgs": { "name": self.org } },
            "attack": ATTACK,
        })
    }
}

/// The organization `harbour`, its people, and an invitation that is open.
async fn organization(world: &World, ada: &Actor) -> String {
    let org = ada.create_org("harbour").await;
    let named = json!({ "display_name": "Harbour Works" });
    ada.request(reqwest::Method::PATCH, "/orgs/harbour").json(&named).await.ok();
    ada.create_org("tidal-lab").await;
    for (login, role) in [("grace", "admin"), ("edsger", "member"), ("barbara", "member")] {
        let person = world.user(login).await;
        let invite = org.invite(role).await;
        person.post(&format!("/invites/{}/accept", token_of(&invite))).await.ok();
    }
    for kind in
        [json!({ "kind": "deploy", "label": "GitHub Actions" }), json!({ "kind": "ai", "label": "Support desk" })]
    {
        ada.post("/orgs/harbour/tokens").json(&kind).await.created();
    }
    let invite = json!({ "email": "margaret@harbour.example", "role": "admin" });
    ada.post("/orgs/harbour/invites").json(&invite).await.created();
    let invite = json!({ "email": "linus@harbour.example", "role": "member" });
    let url = ada.post("/orgs/harbour/invites").json(&invite).await.created()["invite_url"].clone();
    url.as_str().unwrap().to_owned()
}

/// Sites in every state. Returns the id of the deployment that is live at `field-notes`.
async fn sites(world: &World, ada: &Actor) -> String {
    let mut site = Site::page("<h1>Field notes</h1>").file("404.html", "Gone").file("feed.xml", "<rss/>");
    for page in ["about", "archive", "reading", "notes/tides", "notes/lighthouses", "notes/salt-marsh"] {
        site = site.file(&format!("{page}/index.html"), format!("<h1>{page}</h1>").repeat(40));
    }
    site = site.file("assets/style.css", "p { margin: 0 }".repeat(200)).file("assets/cover.webp", vec![7; 48_000]);
    let icon = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1b7f6b"/>
        <path d="M2 10q2-3 4 0t4 0 4 0" fill="none" stroke="#fff" stroke-width="1.6"/></svg>"##;
    site = site.file("favicon.svg", icon);
    ada.create_project("field-notes").await;
    let mut live = String::new();
    for (turn, commit) in ["9f1c2ab04d", "4b77e0d9c1", "c02f5518ae", "e81d04f7b3"].into_iter().enumerate() {
        site = site.file(&format!("notes/{turn}/index.html"), format!("<h1>Note {turn}</h1>"));
        let upload = ada.upload("field-notes", &site).header("x-svc-git-sha", format!("{commit}{}", "0".repeat(30)));
        let deployed = upload.header("x-svc-cli-version", "svc 1.8.0").await.created();
        deployed["deployment_id"].as_str().unwrap().clone_into(&mut live);
    }
    for domain in ["notes.ada.localhost", "field-notes.localhost"] {
        ada.attach("field-notes", domain).await;
    }
    ada.attach("field-notes", "www.fieldnotes.example").await;
    eventually(BACKGROUND, "certificates stand", async || {
        world.sql_number("SELECT count(*) FROM certificate_orders WHERE state = 'live'").await == 2
    })
    .await;
    let variables = [
        ("API_URL", "https://api.harbour.example/v2", "runtime"),
        ("MAPS_TOKEN", "pk.7d1f0c2b9ae84b6d", "build"),
        ("FEATURE_TIDES", "on", "both"),
    ];
    for (key, value, scope) in variables {
        let body = json!({ "value": value, "scope": scope });
        ada.put(&format!("/projects/field-notes/env/{key}")).json(&body).await.ok();
    }
    for name in ["portfolio", "recipes", "launch-plan", "harbour-docs", "handbook", "tide-tables"] {
        let org = matches!(name, "harbour-docs" | "handbook" | "tide-tables").then_some("harbour");
        ada.post("/projects").json(&json!({ "name": name, "org": org })).await.created();
        ada.deploy(name, &Site::page(name)).await;
    }
    ada.create_project("spring-campaign").await;
    ada.put("/projects/launch-plan/password").json(&json!({ "password": "hunter22" })).await.ok();
    ada.put("/projects/handbook/access").json(&json!({ "mode": "org" })).await.ok();
    live
}

async fn keys(ada: &Actor) {
    for (kind, label) in [("cli", "Laptop"), ("cli", "Build server"), ("ai", "Notebook"), ("ai", "Search index")] {
        ada.post("/tokens").json(&json!({ "kind": kind, "label": label })).await.created();
    }
}

/// Ada pays for a plan with play money.
async fn buy(world: &World, ada: &Actor) {
    let details = json!({ "name": "Ada Lovelace", "country": "NL",
        "address": { "lines": ["Keizersgracht 1"], "postcode": "1015 AA", "city": "Amsterdam" } });
    ada.put("/billing/profile").json(&details).await.ok();
    let checkout = ada.post("/billing/checkout").json(&json!({ "plan": "pro" })).await.ok();
    let person = world.person();
    let page = person.visit(checkout["checkout_url"].as_str().unwrap()).await;
    person.press(&page, 0, &[], "pay").await;
    eventually(BACKGROUND, "the plan applies", async || ada.get("/billing").await.ok()["plan"] == "pro").await;
}

/// Gives grace 2,500 sites that are live, all of which serve the same files.
pub(super) async fn many_sites(scene: &Scene) {
    let sql = "INSERT INTO projects SELECT (jsonb_populate_record(p, jsonb_build_object(
                   'id', 'prj_' || lpad((10000000 + n)::text, 20, '0'), 'name', 'site-' || n,
                   'user_id', (SELECT id FROM users WHERE vcs_login = 'grace'), 'active_deployment_id', NULL))).*
               FROM projects p, generate_series(1, 2500) n WHERE p.name = 'portfolio';
               INSERT INTO deployments SELECT (jsonb_populate_record(d, jsonb_build_object(
                   'id', 'dep_' || lpad((10000000 + n)::text, 20, '0'),
                   'project_id', 'prj_' || lpad((10000000 + n)::text, 20, '0')))).*
               FROM deployments d, generate_series(1, 2500) n
               WHERE d.id = (SELECT active_deployment_id FROM projects WHERE name = 'portfolio');
               UPDATE projects SET active_deployment_id = 'dep_' || substr(id, 5) WHERE name LIKE 'site-%'";
    scene.world.sql(sql).await;
}

/// Gives everything a name that tries to become markup, as far as the API takes it. The scene's pages are those of what has these
/// names from then on.
pub(super) async fn plant_attacks(scene: &mut Scene) {
    let ada = &scene.ada;
    let site = Site::page("home").file(&format!("{ATTACK}/index.html"), "x").file("a&lt;b&gt;.html", "x");
    let site = site.file("${alert(1)}{{7*7}}.js", "1").file("javascript:alert(1).txt", "x");
    ada.create_project("attacked").await;
    ada.upload("attacked", &site).header("x-svc-git-sha", "<b>deadbeef</b>").await.created();
    let live =
        ada.upload("attacked", &site.file("more.html", ATTACK)).header("x-svc-cli-version", ATTACK).await.created();
    let body = json!({ "value": ATTACK, "scope": "both" });
    ada.put("/projects/attacked/env/SCRIPT").json(&body).await.ok();
    ada.post("/tokens").json(&json!({ "kind": "ai", "label": ATTACK })).await.created();
    ada.post("/orgs").json(&json!({ "name": "attackers", "display_name": ATTACK })).await.created();
    ada.post("/projects").json(&json!({ "name": "attackers-site", "org": "attackers" })).await.created();
    ada.post("/orgs/attackers/tokens").json(&json!({ "kind": "deploy", "label": ATTACK })).await.created();
    let details = json!({ "name": ATTACK, "country": "NL",
        "address": { "lines": [ATTACK], "postcode": "1015 AA", "city": "<b>Amsterdam</b>" } });
    ada.put("/billing/profile").json(&details).await.ok();
    // Names that come from elsewhere: the code host's logins, commits and messages of failures, and what visitors ask for.
    let sql = "UPDATE deployments SET failure = $attack$, created_by = $attack$, git_sha = '<b>0123</b>'
               WHERE project_id = (SELECT id FROM projects WHERE name = 'attacked') AND status <> 'live';
               UPDATE users SET vcs_login = '<b>grace</b>' WHERE vcs_login = 'grace';
               UPDATE traffic_days SET lists = (SELECT json_object_agg(kind, json_build_array(
                   json_build_array(CASE WHEN kind = 'agent' THEN E'ai_training\\t' || $attack$ || E'\\tname'
                                         WHEN kind = 'error' THEN E'404\\t/' || $attack$ || E'\\t'
                                         ELSE $attack$ END, 5, 5)))
                   FROM unnest(ARRAY['path', 'page', 'referrer', 'country', 'agent', 'error', 'hostname']) AS kind)
               WHERE project_id = (SELECT id FROM projects WHERE name = 'recipes')";
    scene.world.sql(&sql.replace("$attack$", &format!("'{}'", ATTACK.replace('\'', "''")))).await;
    let invite = json!({ "email": "x@localhost", "role": "member" });
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    scene.invite = text(&ada.post("/orgs/attackers/invites").json(&invite).await.created()["invite_url"]);
    let public = json!({ "enabled": true });
    scene.public_stats = text(&ada.put("/projects/recipes/stats/public").json(&public).await.ok()["url"]);
    scene.deployment = text(&live["deployment_id"]);
    (scene.site, scene.org) = ("attacked", "attackers");
}
