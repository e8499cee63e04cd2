//! Warnings of uploads: lines of rules, files that look private or forgotten, names whose content changes.

use crate::world::{Site, World};

#[tokio::test]
async fn warnings_name_the_lines_that_were_left_out() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = Site::page("x").file("_redirects", "/old /new 301\nnonsense\n/a /b 999\n").file("_headers", "x: y\n");
    ada.create_project("engine").await;
    let body = ada.deploy("engine", &site).await.body;
    let warnings: Vec<_> = body["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("_redirects") && w.contains('2')), "{warnings:?}");
    world.edge().get(&format!("{}/old", world.site_url("engine"))).await.assert_status(301);
}

#[tokio::test]
async fn warnings_name_what_was_perhaps_not_meant() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let url = world.site_url("engine");
    let site =
        Site::new().file("dist/index.html", "x").file(".env", "A=b").file("api/.env.local", "A=c").file(".npmrc", "x");
    let body = ada.upload("engine", &site).await.created();
    let warnings: Vec<_> = body["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let [index, environment, credentials] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(index.contains("`dist/index.html` is there: was `dist` meant?"), "{index}");
    assert!(environment.contains("`.env` and one more file are published"), "{environment}");
    assert!(credentials.contains("`.npmrc` is published"), "{credentials}");
    // An archive is explicit: what is in it is published.
    world.edge().get(&format!("{url}/.env")).await.assert_body(200, "A=b");

    let clean = ada.upload("engine", &Site::page("x").file(".env.example", "A=")).await.created();
    assert!(clean["warnings"].is_null(), "{clean}");
    for reserved in [".svc/gate", ".svc/enter/index.html"] {
        let refused = ada.upload("engine", &Site::page("y").file(reserved, "mine")).await;
        let message = refused.assert_error(400, "invalid_archive");
        assert!(message.contains("an address of the service"), "{message}");
    }
    world.edge().get(&url).await.assert_body(200, "x");
    ada.upload("engine", &Site::page("z").file(".svc/up.json", "{}")).await.created();
}

#[tokio::test]
async fn what_was_meant_for_rules_is_not_served() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let url = world.site_url("engine");
    let rules = "/a/*\n  Basic-Auth: ann:open-sesame\n";
    let paths = ["sub/_headers", "_headers.txt", "_Headers", "sub/_redirects", "_redirects.txt", "_headers~"];
    let site = paths.iter().fold(Site::page("x"), |site, path| site.file(path, rules));
    let body = ada.upload("engine", &site).await.created();
    let warnings = body["warnings"].to_string();
    for path in paths {
        let answer = world.edge().get(&format!("{url}/{path}")).await;
        // Where there is no file, the site's one page answers, but not for a name with an extension.
        if path.contains(".txt") {
            answer.assert_status(404)
        } else {
            answer.assert_body(200, "x")
        };
        assert!(warnings.contains(&format!("`{path}`")), "{path}: {warnings}");
    }
    assert!(warnings.contains("called `_headers`") && warnings.contains("called `_redirects`"), "{warnings}");
}

#[tokio::test]
async fn a_name_whose_content_changes_carries_no_hash() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let (url, name) = (world.site_url("engine"), "assets/index-BkX3d9aQ.js");
    let site = |code| Site::page(&format!("<script src={name}></script>")).file(name, code);
    for (code, caching, has_warning) in
        [("1", "immutable", false), ("1", "immutable", false), ("2", "must-revalidate", true)]
    {
        let body = ada.upload("engine", &site(code)).await.created();
        assert_eq!(body["warnings"].to_string().contains(name), has_warning, "{body}");
        let answer = world.edge().get(&format!("{url}/{name}")).await.assert_body(200, code);
        assert!(answer.header("cache-control").ends_with(caching), "{}", answer.header("cache-control"));
    }
}
