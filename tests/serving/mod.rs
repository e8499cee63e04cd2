//! "Serving a site" of decisions.md, over real HTTPS with both versions of HTTP.

mod caching;
mod encodings;
mod hosts;
mod methods;
mod paths;
mod ranges;
mod rules;
mod sizes;

use reqwest::Version;

use crate::world::{Edge, Site, World, answer::Answer};

/// A world with one site, `engine`.
async fn world_with(site: Site) -> (World, String) {
    let world = World::start().await;
    let url = world.user("ada").await.publish("engine", &site).await.url;
    (world, url)
}

fn docs() -> Site {
    Site::new()
        .file("index.html", "home")
        .file("about.html", "about")
        .file("guide/index.html", "guide")
        .file("both.html", "both page")
        .file("both/index.html", "both folder")
        .file("notes.txt", "notes")
        .file("with space.html", "space")
        .file("ünï.html", "unicode")
        .file("404.html", "root not found")
        .file("guide/404.html", "guide not found")
        .file("guide/deep/page.html", "deep")
}

/// Each request over HTTP/2 and HTTP/1.1; the answers are the same.
async fn both_versions(edge: &Edge, url: &str) -> Answer {
    let new = edge.get(url).await;
    assert_eq!(new.version, Version::HTTP_2);
    let old = edge.get_http1(url).await;
    assert_eq!(old.version, Version::HTTP_11);
    assert_eq!((new.status, &new.body), (old.status, &old.body), "{url}");
    assert_eq!(new.find_header("location"), old.find_header("location"));
    assert_eq!(new.find_header("etag"), old.find_header("etag"));
    new
}
