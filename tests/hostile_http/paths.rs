//! Paths that would leave the site.

use super::{SITE, connect, world_with_sites};
use crate::world::socket::{converse, statuses};

#[tokio::test]
async fn no_spelling_of_a_path_leaves_the_site() {
    let world = world_with_sites().await;
    for path in [
        "/../victim/index.html",
        "/..%2fvictim",
        "/%2e%2e%2f%2e%2e%2fmanifest",
        "/%2e%2e/",
        "/a/../../b",
        "/..\\..\\x",
        "/%5c..%5c",
        "/./",
        "/.%2e/",
        "/%252e%252e%252f",
        "//etc/passwd",
        "/..;/x",
        "/%c0%ae%c0%ae/",
        "/data.txt/..",
        "/.git/config",
        "/data.txt%00.html",
        "/data.txt/",
        "/%2Fdata.txt",
        "/data.txt%2F",
        "/;/data.txt",
        "/data.txt;x",
    ] {
        let mut stream = connect(&world, SITE, "http/1.1").await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {SITE}\r\nconnection: close\r\n\r\n");
        let answer = converse(&mut stream, request.as_bytes()).await;
        let found = statuses(&answer);
        let text = String::from_utf8_lossy(&answer);
        assert_eq!(found.len(), 1, "{path}: {text}");
        assert!((300..500).contains(&found[0]) || text.ends_with("home") || text.ends_with("data"), "{path}: {text}");
        for leaked in ["the victim", "root:", "\"sha256\"", "created_at"] {
            assert!(!text.contains(leaked), "{path}: {text}");
        }
    }
}
