//! Admin's answers at the console's host: its page, its files, and nothing in the place of a file that is not there.

use std::sync::Arc;

use reqwest::Method;
use rustls::version::TLS13;
use tempfile::TempDir;

use super::{CONSOLE, console};
use crate::world::{
    World,
    socket::{connect_tls, converse, statuses, tls},
};

const SCRIPT: &str = "/_app/immutable/entry/app.0a1b2c.js";

/// A build of the console with one script.
fn build() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("_app/immutable/entry")).unwrap();
    for (name, text) in [
        ("index.html", "<p>console"),
        (&SCRIPT[1..], "script()"),
        ("_app/version.json", "{}"),
        ("favicon.svg", "<svg/>"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[tokio::test]
async fn every_address_of_the_console_is_its_page_and_no_file_is() {
    let folder = build();
    let world = World::builder().set("ADMIN__CONSOLE", folder.path().display()).start().await;
    for address in ["/sites/engine/deployments/none", "/new", "/account", "/orgs/a/b/c", "/docs", "/sites/a.js"] {
        for method in [Method::GET, Method::HEAD] {
            let page = world.edge().request(method.clone(), &console(address)).await;
            let body = if method == Method::HEAD { "" } else { "<p>console" };
            let page = page.assert_body(200, body);
            assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
            assert_eq!((page.header("cache-control"), page.header("content-length")), ("no-cache", "10"));
            assert!(page.header("content-security-policy").starts_with("default-src 'none';"));
            let again = world.edge().get(&console(address)).header("if-none-match", page.header("etag"));
            again.await.assert_body(304, "");
        }
    }
    for missing in ["/_app/immutable/entry/app.none.js", "/_app/immutable/entry/", "/_app/none"] {
        assert_eq!(world.edge().get(&console(missing)).await.status, 404, "{missing}");
    }
    let missing = world.edge().get(&console("/_app/immutable/entry/app.none.js")).await.assert_status(404);
    assert_eq!((missing.header("cache-control"), missing.header("x-content-type-options")), ("no-store", "nosniff"));
    for unknown in ["/nowhere", "/index.html", "/favicon.svg", "/app.js"] {
        assert_ne!(world.edge().get(&console(unknown)).await.assert_status(404).text(), "<p>console", "{unknown}");
    }
    let version = world.edge().get(&console("/_app/version.json")).await.assert_body(200, "{}");
    assert_eq!(version.header("cache-control"), "no-cache");
    world.edge().post(&console(SCRIPT)).await.assert_status(405);
    world.edge().get(&console(SCRIPT)).await.assert_body(200, "script()");
}

#[tokio::test]
async fn no_spelling_of_a_path_climbs_among_the_files() {
    let folder = build();
    let world = World::builder().set("ADMIN__CONSOLE", folder.path().display()).start().await;
    for path in [
        "/_app/immutable/entry/../../../index.html",
        "/_app/immutable/%2e%2e/version.json",
        "/_app/immutable/..%2fversion.json",
        "/_app/immutable/../version.json",
        "/_app//version.json",
    ] {
        let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
        let mut stream = connect_tls(world.public_port(), CONSOLE, config).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {CONSOLE}\r\nconnection: close\r\n\r\n");
        let answer = converse(&mut stream, request.as_bytes()).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(matches!(statuses(&answer)[..], [400 | 404]), "{path}: {text}");
    }
}
