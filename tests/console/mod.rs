//! The console in a real browser: what it shows, what is done with it, and what its policy keeps out.
//!
//! It has to be built: `.ci/console`, or `npm run build` in the folder `console`.

mod pictures;
mod scene;

use std::path::Path;

use self::scene::Scene;
use crate::{
    browser::sign_in,
    world::{Site, World, browser::Browser, tools},
};

/// The folder of the built console.
const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../console/dist");

/// A world with the console, and a browser that is signed in as `login` and shows `path`.
async fn start(world: &World, login: &str, path: &str) -> Browser {
    let browser = world.browser().await;
    browser.open(&world.console_url(&format!("/sign-in?return_to={path}"))).await;
    sign_in(&browser, login).await;
    browser
}

async fn world() -> World {
    assert!(Path::new(DIST).join("index.html").exists(), "the console is not built; run .ci/console");
    World::builder().set("ADMIN__CONSOLE", DIST).start().await
}

/// Debian's Firefox.
const FIREFOX: &str = "/usr/bin/firefox-esr";

/// The folder of the scripts that drive browsers.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../console/browser");

impl Scene {
    /// Runs a script in Chromium.
    async fn run(&self, script: &str) {
        self.run_with(script, &[]).await;
    }

    /// Runs a script of `console/browser` on this scene with variables of its environment. It must succeed; what it prints is shown.
    #[expect(clippy::print_stdout, reason = "its figures are read by whoever runs it")]
    async fn run_with(&self, script: &str, variables: &[(&str, &str)]) {
        let mut command = tools::node_file(&Path::new(SCRIPTS).join(script));
        command.env("SVC_SCENE", self.description().await.to_string()).envs(variables.iter().copied());
        let output = command.output().await.unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
        let problems = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {problems}{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[tokio::test]
async fn a_file_that_is_chosen_becomes_a_site() {
    let world = world().await;
    let ada = world.user("ada").await;
    let browser = start(&world, "ada", "/new").await;
    browser.sees("Drop a folder or a file here").await;
    let choose = "const chosen = new DataTransfer();
        chosen.items.add(new File(['<h1>From the browser</h1>'], 'index.html'));
        const input = document.querySelector('input[type=file][multiple]');
        input.files = chosen.files;
        input.dispatchEvent(new Event('change', { bubbles: true }));";
    browser.run(choose).await;
    browser.sees("1 file").await;
    browser.fill("site", "dropped").await;
    browser.press("Publish").await;
    browser.sees("It is live").await;
    let project = ada.get("/projects/dropped").await.ok();
    browser.open(project["url"].as_str().unwrap()).await;
    browser.sees("From the browser").await;
    browser.close().await;
}

/// Looks for findings on the pages whose names match.
async fn audit(pages: &str) {
    Scene::start().await.run_with("audit.ts", &[("SVC_AUDIT_ONLY", pages)]).await;
}

// Three tests, so that they run beside each other: together they look at every page.

#[tokio::test]
async fn no_page_of_a_server_has_a_finding() {
    audit(r"^server\.").await;
}

#[tokio::test]
async fn no_page_of_a_site_or_an_organization_has_a_finding() {
    audit(r"^(sites|orgs)\.").await;
}

#[tokio::test]
async fn no_other_page_has_a_finding() {
    audit(r"^(?!server\.|sites\.|orgs\.)").await;
}

#[tokio::test]
async fn every_journey_is_walked_by_keyboard() {
    Scene::start().await.run("walk.ts").await;
}

#[tokio::test]
async fn people_see_each_others_changes_and_what_is_typed_is_kept() {
    Scene::start().await.run("together.ts").await;
}

/// Walks the journeys of these parts of `console/browser/people`, or of all but those after a minus.
async fn walk(scene: &Scene, parts: &str) {
    scene.run_with("people.ts", &[("SVC_PEOPLE_PARTS", parts)]).await;
}

#[tokio::test]
async fn people_publish_and_pay() {
    walk(&Scene::with_rate_limits().await, "-undoing,many").await;
}

#[tokio::test]
async fn people_undo_and_have_many_sites() {
    let scene = Scene::with_rate_limits().await;
    scene::many_sites(&scene).await;
    walk(&scene, "undoing,many").await;
}

#[tokio::test]
async fn people_get_through_in_firefox() {
    assert!(Path::new(FIREFOX).exists(), "{FIREFOX} is not there: install the package firefox-esr");
    Scene::with_rate_limits().await.run_with("people.ts", &[("SVC_BROWSER", "firefox")]).await;
}

#[tokio::test]
async fn names_that_attack_are_text_on_every_page() {
    let mut scene = Scene::start().await;
    scene::plant_attacks(&mut scene).await;
    scene.run("attacks.ts").await;
}

#[tokio::test]
async fn signing_out_leaves_nothing_on_the_page() {
    let world = world().await;
    world.user("ada").await.publish("engine", &Site::page("one")).await;
    let browser = start(&world, "ada", "/account").await;
    browser.sees("Sign out everywhere").await;
    // In the menu of the person.
    browser.run("document.querySelector('header [popovertarget]').click()").await;
    browser.press("Sign out").await;
    browser.sees("A folder becomes a site").await;
    browser.open(&world.console_url("/sites/engine")).await;
    browser.sees("Login name").await;
    browser.close().await;
}

#[tokio::test]
async fn strangers_find_the_guide_and_browsers_an_icon() {
    let world = world().await;
    let person = world.person();
    let front = person.step(&world.console_url("/")).await.assert_status(200);
    assert!(front.text().contains("href=\"/docs/guide/\""), "{}", front.text());
    let guide = person.step(&world.console_url("/docs/guide/")).await;
    // Where the guide was not built, the address leads to the API's documentation.
    if guide.status == 307 {
        assert!(guide.header("location").ends_with("/docs"), "{}", guide.header("location"));
    } else {
        guide.assert_status(200);
    }
    let icon = person.step(&world.console_url("/favicon.ico")).await.assert_status(200);
    assert_eq!(icon.header("content-type"), "image/svg+xml");
}

#[tokio::test]
async fn the_page_allows_nothing_inline_and_its_files_are_kept() {
    let world = world().await;
    let person = world.person();
    let page = person.step(&world.console_url("/sites/engine")).await.assert_status(200);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("require-trusted-types-for 'script'"), "{policy}");
    let html = page.text();
    let script = html.split('"').find(|part| part.starts_with("/_app/immutable/entry/boot.")).unwrap();
    let file = person.step(&world.console_url(script)).await.assert_status(200);
    assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable");
    person.step(&world.console_url("/_app/immutable/entry/none.js")).await.assert_status(404);
}
