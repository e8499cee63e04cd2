//! Which file a path leads to: clean URLs, 404 pages, single-page sites.

use super::{both_versions, docs, world_with};
use crate::world::Site;

#[tokio::test]
async fn clean_urls() {
    let (world, url) = world_with(docs()).await;
    for (path, body) in [
        ("/", "home"),
        ("/about", "about"),
        ("/guide/", "guide"),
        ("/both", "both page"),
        ("/both/", "both folder"),
        ("/notes.txt", "notes"),
        ("/guide/deep/page", "deep"),
        ("/with%20space", "space"),
        ("/%C3%BCn%C3%AF", "unicode"),
        ("/about?x=1", "about"),
    ] {
        both_versions(world.edge(), &format!("{url}{path}")).await.assert_body(200, body);
    }
}

#[tokio::test]
async fn unclean_urls_redirect_to_clean_ones() {
    let (world, url) = world_with(docs()).await;
    for (path, target) in [
        ("/about.html", "/about"),
        ("/about/", "/about"),
        ("/guide", "/guide/"),
        ("/guide?x=1&y=%20", "/guide/?x=1&y=%20"),
        ("/guide/index", "/guide/"),
        ("/index", "/"),
        ("/index/", "/"),
        ("//about", "/about"),
        ("/guide//deep///page", "/guide/deep/page"),
        ("/index.html", "/"),
        ("/guide/index.html", "/guide/"),
        ("/guide/deep/page.html", "/guide/deep/page"),
        ("/about.html?x=1&y=%20", "/about?x=1&y=%20"),
    ] {
        both_versions(world.edge(), &format!("{url}{path}")).await.assert_redirect(308, target);
    }
}

#[tokio::test]
async fn a_redirect_never_leaves_the_site() {
    let (world, url) =
        world_with(Site::page("home").file("evil.example/index.html", "x").file("evil.example.html", "y")).await;
    for path in [
        "//evil.example",
        "///evil.example/",
        "//evil.example/index.html",
        "//evil.example.html",
        "/%2Fevil.example/index.html",
        "/%5Cevil.example.html",
    ] {
        let answer = world.edge().get(&format!("{url}{path}")).await;
        if let Some(location) = answer.find_header("location") {
            assert!(location.starts_with('/') && !location.starts_with("//") && !location.contains('\\'), "{location}");
        }
    }
}

#[tokio::test]
async fn the_nearest_404_page_answers() {
    let (world, url) = world_with(docs()).await;
    for (path, body) in [
        ("/nothing", "root not found"),
        ("/nothing/at/all.png", "root not found"),
        ("/guide/nothing", "guide not found"),
        ("/guide/deep/nothing", "guide not found"),
        ("/guide/deep/", "guide not found"),
    ] {
        let answer = both_versions(world.edge(), &format!("{url}{path}")).await.assert_body(404, body);
        assert!(answer.header("content-type").starts_with("text/html"));
    }
}

#[tokio::test]
async fn a_single_page_app_answers_whoever_takes_a_page() {
    let site = Site::page("app").file("assets/app.js", "1");
    let (world, url) = world_with(site).await;
    let edge = world.edge();
    for path in
        ["/settings", "/users/42", "/settings/", "/v1.2", "/user/john.doe", "/file/src%2Fapp.ts", "/caf%E9", "/a%5Cb"]
    {
        edge.navigate(&format!("{url}{path}")).await.assert_body(200, "app");
        let preview = edge.get(&format!("{url}{path}")).header("accept", "*/*").await.assert_body(200, "app");
        assert!(preview.header("vary").to_ascii_lowercase().contains("accept"));
        for dest in ["empty", "script", "style", "image"] {
            let part = edge.get(&format!("{url}{path}")).header("accept", "*/*").header("sec-fetch-dest", dest);
            assert!(!part.await.assert_status(404).text().contains("app"), "{dest} of {path}");
        }
        for dest in ["document", "iframe", "frame", "embed", "object"] {
            let page = edge.get(&format!("{url}{path}")).header("accept", "*/*").header("sec-fetch-dest", dest);
            page.await.assert_body(200, "app");
        }
    }
    // Nor who says that it takes no HTML.
    for accept in [
        "text/html;q=0",
        "text/html; q=0.000, */*",
        "text/htmlx",
        "application/json",
        "image/*",
        "application/json, TEXT/HTML ; level=1 ; Q=0",
    ] {
        let answer = edge.get(&format!("{url}/settings")).header("accept", accept).await;
        assert_eq!((answer.status, answer.text().contains("app")), (404.try_into().unwrap(), false), "{accept}");
    }
    for accept in ["text/html;q=0.1", "Text/HTML", "application/json, text/html;level=1"] {
        edge.get(&format!("{url}/settings")).header("accept", accept).await.assert_body(200, "app");
    }
    // A missing asset is never HTML with 200, whatever asks for it.
    for path in ["/assets/gone.js", "/@me/data.json", "/reports/2024.pdf", "/wp-login.php"] {
        for accept in ["*/*", "text/html,*/*;q=0.8"] {
            let missing = edge.get(&format!("{url}{path}")).header("accept", accept).await.assert_status(404);
            assert!(!missing.text().contains("app"), "{path} for {accept}");
        }
    }
}

#[tokio::test]
async fn a_200_page_is_the_fallback_beside_404_pages() {
    let site =
        Site::page("home").file("200.html", "app").file("404.html", "not found").file("guide/404.html", "no guide");
    let (world, url) = world_with(site).await;
    for (path, missing) in [("/settings", "not found"), ("/users/42/", "not found"), ("/guide/x", "no guide")] {
        world.edge().navigate(&format!("{url}{path}")).await.assert_body(200, "app");
        let fetched =
            world.edge().get(&format!("{url}{path}")).header("accept", "*/*").header("sec-fetch-dest", "empty");
        fetched.await.assert_body(404, missing);
    }
    world.edge().navigate(&url).await.assert_body(200, "home");
    world.edge().navigate(&format!("{url}/gone.js")).await.assert_body(404, "not found");
    // Without it the site's 404 pages answer.
    let (world, url) = world_with(Site::page("home").file("404.html", "not found")).await;
    for path in ["/settings", "/caf%E9", "/a%2Fb", "/%zz", "/%00", "/..%2f..%2fetc/passwd", "/%2e%2e/x"] {
        world.edge().navigate(&format!("{url}{path}")).await.assert_body(404, "not found");
    }
}

#[tokio::test]
async fn the_same_name_in_another_form_of_unicode_is_the_same_file() {
    let (world, url) =
        world_with(Site::page("home").file("cafe\u{301}.txt", "decomposed").file("\u{e9}t\u{e9}/index.html", "summer"))
            .await;
    for path in ["/caf%C3%A9.txt", "/cafe%CC%81.txt"] {
        world.edge().get(&format!("{url}{path}")).await.assert_body(200, "decomposed");
    }
    world.edge().get(&format!("{url}/e%CC%81te%CC%81")).await.assert_redirect(308, "/e%CC%81te%CC%81/");
    world.edge().get(&format!("{url}/e%CC%81te%CC%81/")).await.assert_body(200, "summer");
}

#[tokio::test]
async fn without_any_fallback_a_plain_404() {
    let (world, url) = world_with(Site::new().file("only.txt", "x")).await;
    for path in ["/", "/nothing", "/only"] {
        world.edge().navigate(&format!("{url}{path}")).await.assert_status(404);
    }
}
