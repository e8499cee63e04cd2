//! `/orgs/:name/icon`.

use serde_json::{Value, json};

use crate::world::{World, answer::assert_keys};

/// The beginning of a PNG, and as much after it as is asked for.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    image.extend(width.to_be_bytes());
    image.extend(height.to_be_bytes());
    image.extend(
        b"\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0aIDATx\x9cc\0\x01\0\0\x05\0\x01\x0d\x0a\x2d\xb4\0\0\0\0IEND\xaeB`\x82",
    );
    image
}

fn jpeg() -> Vec<u8> {
    let mut image = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
    image.extend(b"\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0?\0\xd2\xcf\xff\xd9");
    image
}

fn gif() -> Vec<u8> {
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec()
}

fn webp() -> Vec<u8> {
    b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0".to_vec()
}

#[tokio::test]
async fn an_icon_is_what_its_bytes_are() {
    let world = World::start().await;
    let org = world.acme().await;
    let mut versions = std::collections::HashSet::new();
    for (image, content_type) in
        [(png(1, 1), "image/png"), (jpeg(), "image/jpeg"), (webp(), "image/webp"), (gif(), "image/gif")]
    {
        // Whatever the sender calls it.
        let put = org.owner.put("/orgs/acme/icon").header("content-type", "text/html").body(image.clone());
        let stored = put.await.ok();
        assert_keys(&stored, "ok icon_url");
        let url = stored["icon_url"].as_str().unwrap();
        assert!(url.starts_with("/orgs/acme/icon?v="), "{url}");
        assert!(versions.insert(url.to_owned()));
        assert_eq!(org.detail().await["icon_url"], url);
        assert_eq!(org.owner.get("/orgs").await.ok()["orgs"][0]["icon_url"], url);

        let shown = world.nobody().get(url).await.assert_body(200, &image);
        assert_eq!(shown.header("content-type"), content_type);
        assert_eq!(shown.header("x-content-type-options"), "nosniff");
        assert!(shown.header("content-security-policy").contains("sandbox"));
        assert_eq!(shown.header("cache-control"), "public, max-age=31536000, immutable");
        let etag = shown.header("etag").to_owned();
        let again = world.nobody().get(url).header("if-none-match", &etag).await.assert_status(304);
        assert_eq!((again.header("etag"), again.body.len()), (&*etag, 0));
        world.nobody().get(url).header("if-none-match", "\"other\"").await.assert_status(200);
        for moving in ["/orgs/acme/icon", "/orgs/acme/icon?v=0000000000000000"] {
            let shown = world.nobody().get(moving).await.assert_body(200, &image);
            assert_eq!(shown.header("cache-control"), "public, max-age=60");
        }
    }
    assert_eq!(org.owner.delete("/orgs/acme/icon").await.ok(), json!({ "ok": true }));
    org.owner.delete("/orgs/acme/icon").await.assert_error(404, "not_found");
    world.nobody().get("/orgs/acme/icon").await.assert_error(404, "not_found");
    assert_eq!(org.detail().await["icon_url"], Value::Null);
}

#[tokio::test]
async fn what_is_no_icon_is_refused() {
    let world = World::start().await;
    let org = world.acme().await;
    let put = |body: Vec<u8>| org.owner.put("/orgs/acme/icon").header("content-type", "image/png").body(body);
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'><script>alert(1)</script></svg>";
    let mut bmp = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
    bmp.resize(58, 0);
    for bad in [
        Vec::new(),
        b"GIF".to_vec(),
        svg.into(),
        format!("<?xml version='1.0'?>{svg}").into(),
        b"<!doctype html><script>1</script>".to_vec(),
        b"\x89PNG\r\n\x1a\n".to_vec(),
        bmp,
        png(0, 1),
        b"%PDF-1.7".to_vec(),
    ] {
        put(bad).await.assert_error(415, "unsupported_media_type");
    }
    world.nobody().get("/orgs/acme/icon").await.assert_error(404, "not_found");
    let mut largest = png(1, 1);
    largest.resize(512 * 1024, 0);
    put(largest.clone()).await.ok();
    largest.push(0);
    put(largest).await.assert_error(413, "payload_too_large");
    assert_eq!(world.nobody().get("/orgs/acme/icon").await.assert_status(200).body.len(), 512 * 1024);
    for unknown in ["unknown", "%00", "ACME"] {
        world.nobody().get(&format!("/orgs/{unknown}/icon")).await.assert_error(404, "not_found");
    }
}

/// Two frames, and a comment: most GIFs move.
fn animated_gif() -> Vec<u8> {
    let mut image =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0!\xfe\x02hi\0".to_vec();
    for _ in 0..2 {
        image.extend(b"!\xf9\x04\0\x0a\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0");
    }
    image.push(b';');
    image
}

#[tokio::test]
async fn an_icon_is_whole_and_can_be_shown() {
    let world = World::start().await;
    let org = world.acme().await;
    let put = |body: Vec<u8>| org.owner.put("/orgs/acme/icon").body(body);
    for image in [png(1, 1), jpeg(), webp(), gif(), animated_gif()] {
        // Cut off anywhere, it is none.
        for cut in [image.len() - 1, image.len() / 2, 12] {
            put(image[..cut].to_vec()).await.assert_error(415, "unsupported_media_type");
        }
        put(image.clone()).await.ok();
        world.nobody().get("/orgs/acme/icon").await.assert_body(200, &image);
    }
    put(png(4_096, 4_096)).await.ok();
    let kept = world.nobody().get("/orgs/acme/icon").await.assert_status(200).body;
    // A few bytes that would become gigabytes in the browser of whoever sees them.
    for (width, height) in [(4_097, 1), (1, 4_097), (0x7fff_ffff, 0x7fff_ffff)] {
        let message = put(png(width, height)).await.assert_error(413, "payload_too_large");
        assert!(message.contains("4096"), "{message}");
    }
    // What there was stays, and HEAD tells of it without it.
    let shown = world.nobody().get("/orgs/acme/icon").await.assert_body(200, &kept);
    let head = world.nobody().request(reqwest::Method::HEAD, "/orgs/acme/icon").await.assert_status(200);
    assert!(head.body.is_empty());
    for header in ["etag", "content-type", "content-length", "cache-control"] {
        assert_eq!(head.header(header), shown.header(header), "{header}");
    }
    let etag = shown.header("etag").to_owned();
    let known = world.nobody().request(reqwest::Method::HEAD, "/orgs/acme/icon").header("if-none-match", &etag);
    known.await.assert_status(304);
    // The same image again is the same version; another one is another.
    let version = |stored: &Value| stored["icon_url"].as_str().unwrap().to_owned();
    let (first, again) = (version(&put(gif()).await.ok()), version(&put(gif()).await.ok()));
    assert_eq!(first, again);
    assert_ne!(version(&put(animated_gif()).await.ok()), first);
    // The address of the first still leads to the icon, but for no longer than a moment.
    let old = world.nobody().get(&first).await.assert_body(200, animated_gif());
    assert_eq!(old.header("cache-control"), "public, max-age=60");
}

#[tokio::test]
async fn without_an_icon_a_picture_of_the_code_host_stands_in() {
    let world = World::start().await;
    let org = world.acme().await;
    org.owner.create_project_in(&org, "engine").await;
    let icon = async || world.nobody().get("/orgs/acme/icon").await;
    icon().await.assert_error(404, "not_found");
    // What the code host told when an installation was shared, and a repository linked.
    world
        .sql(
            "INSERT INTO installations (id, account, account_id, account_type, avatar_url, created_at) VALUES
                 (1, 'sharer', 1, 'Organization', 'https://avatars.example/sharer', now()),
                 (2, 'later', 2, 'User', 'https://avatars.example/later', now());
             INSERT INTO installation_shares (installation_id, org_id, shared_by, shared_at)
                 SELECT n, o.id, m.user_id, now() + n * interval '1 minute'
                 FROM orgs o JOIN org_members m ON m.org_id = o.id, generate_series(1, 2) n",
        )
        .await;
    icon().await.assert_redirect(302, "https://avatars.example/sharer");
    world
        .sql(
            "INSERT INTO repo_links (project_id, installation_id, org_id, repo_id, repo, owner_avatar_url, branch,
                                     directory, linked_by, linked_at)
             SELECT p.id, 2, p.org_id, 7, 'later/site', 'https://avatars.example/owner', 'main', '', m.user_id, now()
             FROM projects p JOIN org_members m ON m.org_id = p.org_id",
        )
        .await;
    let borrowed = icon().await.assert_redirect(302, "https://avatars.example/owner");
    assert_eq!(borrowed.header("cache-control"), "public, max-age=60");
    assert_eq!(org.detail().await["icon_url"], Value::Null, "it is not the org's own");
    // Its own comes first; without it the other is back.
    org.owner.put("/orgs/acme/icon").body(png(1, 1)).await.ok();
    icon().await.assert_status(200);
    org.owner.delete("/orgs/acme/icon").await.ok();
    icon().await.assert_redirect(302, "https://avatars.example/owner");
    world.sql("UPDATE repo_links SET owner_avatar_url = 'javascript:alert(1)'").await;
    icon().await.assert_error(404, "not_found");
    // Whoever leaves takes along what they shared.
    let heir = world.user("heir").await;
    org.admit(&heir, domain::role::Role::Owner).await;
    org.owner.delete("/orgs/acme/members/owner").await.ok();
    icon().await.assert_error(404, "not_found");
}
