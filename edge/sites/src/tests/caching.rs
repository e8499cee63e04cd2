//! Cache lifetimes, lent files, and files stored encoded.

use http::Request;

use super::*;

const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const REVALIDATE: &str = "public, max-age=0, must-revalidate";

#[tokio::test]
async fn only_a_files_own_address_is_immutable() {
    let folder = Folder::of(&["index.html", "embed-h4sh3d1.js", "404.html", "app/index.html"]).redirects(
        "/embed.js /embed-h4sh3d1.js 200\n/widgets/* /embed-h4sh3d1.js 200\n/old.js /embed-h4sh3d1.js 301\n",
    );
    let world = World::new(folder);
    for (target, status, expected) in [
        ("/embed-h4sh3d1.js", 200, IMMUTABLE),
        ("/embed.js", 200, REVALIDATE),
        ("/widgets/any-name.js", 200, REVALIDATE),
        ("/old.js", 301, REVALIDATE),
        ("/gone-h4sh3d1.js", 404, REVALIDATE),
        ("/", 200, REVALIDATE),
    ] {
        let answer = world.get(target).await;
        assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (status, expected), "{target}");
    }
    let tag = world.get("/embed.js").await.header("etag").to_owned();
    let again = world.send(Request::get("/embed.js").header("if-none-match", tag)).await;
    assert_eq!((again.status.as_u16(), again.header("cache-control")), (304, REVALIDATE));
}

#[tokio::test]
async fn a_site_says_how_long_its_files_are_kept_and_nothing_else() {
    let rules = "/_app/immutable/*\n  Cache-Control: public, immutable, max-age=31536000\n  X-Seen: yes\n\
                 /embed.js\n  Cache-Control: max-age=60\n/short/*\n  Cache-Control: no-store\n/bare/*\n  ! Cache-Control\n";
    let paths = ["index.html", "_app/immutable/a.js", "embed-h4sh3d1.js", "bare/x.js"];
    let redirects = "/embed.js /embed-h4sh3d1.js 200\n";
    let site = |with: &[&str]| World::new(Folder::of(&[&paths[..], with].concat()).headers(rules).redirects(redirects));
    let (missing, single) = (site(&["404.html"]), site(&[]));
    let said = "public, immutable, max-age=31536000";
    for (world, target, status, expected) in [
        (&missing, "/_app/immutable/a.js", 200, said),
        (&missing, "/_app/immutable/gone.js", 404, REVALIDATE),
        (&missing, "/short/gone", 404, REVALIDATE),
        (&missing, "/bare/gone", 404, REVALIDATE),
        (&missing, "/bare/x.js", 200, ""),
        (&missing, "/embed.js", 200, "max-age=60"),
        (&single, "/_app/immutable/gone", 200, REVALIDATE),
        (&single, "/short/route", 200, "no-store"),
    ] {
        let answer = world.navigate(target).await;
        assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (status, expected), "{target}");
    }
    let gone = missing.get("/_app/immutable/gone.js").await;
    assert_eq!(gone.header("x-seen"), "yes", "the rest of the rule counts");
    let part = missing.send(Request::get("/_app/immutable/a.js").header("range", "bytes=0-1")).await;
    assert_eq!((part.status.as_u16(), part.header("cache-control")), (206, said));
    let tag = part.header("etag").to_owned();
    let same = missing.send(Request::get("/_app/immutable/a.js").header("if-none-match", tag)).await;
    assert_eq!((same.status.as_u16(), same.header("cache-control")), (304, said));
}

#[tokio::test]
async fn names_that_were_judged_by_their_spelling_are_asked_for_again() {
    let mut world = World::new(Folder::of(&["index.html", "app-h4sh3d1.js"]).old());
    assert_eq!(world.get("/app-h4sh3d1.js").await.header("cache-control"), REVALIDATE);
    let older = world.publish(Folder::of(&["app-h4sh3d0.js"]).old());
    *world.shelf.recent.lock().unwrap() = vec![older];
    let lent = world.get("/app-h4sh3d0.js").await;
    assert_eq!((lent.status.as_u16(), lent.header("cache-control")), (200, REVALIDATE));
    world.site.deployment = Some(world.publish(Folder::of(&["index.html"])));
    assert_eq!(world.get("/app-h4sh3d0.js").await.status, 200);
}

#[tokio::test]
async fn only_what_pages_load_is_lent() {
    let world = World::new(Folder::of(&["index.html", "404.html"]));
    let loaded = ["app-h4sh3d1.js", "app-h4sh3d1.css", "logo-h4sh3d1.png"];
    let opened =
        ["report-h4sh3d1.pdf", "page-h4sh3d1.html", "data-h4sh3d1.json", "all-h4sh3d1.zip", "app-h4sh3d1.js.map"];
    let older = world.publish(Folder::of(&[&loaded[..], &opened].concat()));
    *world.shelf.recent.lock().unwrap() = vec![older];
    for path in loaded {
        let ask = |destination: &str| Request::get(format!("/{path}")).header("sec-fetch-dest", destination);
        assert_eq!(world.get(&format!("/{path}")).await.status, 200, "{path}");
        assert_eq!(world.send(ask("script")).await.status, 200, "{path}");
        assert_eq!(world.send(ask("empty")).await.status, 200, "{path}");
        for destination in ["document", "iframe", "object"] {
            assert_eq!(world.send(ask(destination)).await.status, 404, "{path} as {destination}");
        }
    }
    for path in opened {
        assert_eq!(world.get(&format!("/{path}")).await.status, 404, "{path}");
    }
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// A site of files that are stored encoded.
fn encoded() -> World {
    let gzip = gzip(&"hello ".repeat(20));
    let folder = Folder::of(&["index.html"])
        .with("g.wasm.br", "brotli bytes")
        .encoded("g.wasm.br", Encoding::Br)
        .with_bytes("logo.svgz", &gzip)
        .encoded("logo.svgz", Encoding::Gzip)
        .headers("/g.wasm.br\n  Content-Encoding: br\n  Content-Type: application/wasm\n");
    World::new(folder)
}

#[tokio::test]
async fn an_encoded_file_is_sent_as_it_is_stored() {
    let world = encoded();
    for accept in [Some("br, gzip"), Some("*"), Some("identity;q=0"), None] {
        let ask = Request::get("/g.wasm.br");
        let ask = if let Some(accept) = accept { ask.header("accept-encoding", accept) } else { ask };
        let answer = world.send(ask).await;
        assert_eq!((answer.header("content-encoding"), answer.body.as_str()), ("br", "brotli bytes"), "{accept:?}");
        assert_eq!(answer.headers.get_all("content-encoding").iter().count(), 1);
        assert_eq!(answer.header("content-type"), "application/wasm");
        assert_eq!(answer.header("vary"), "Accept-Encoding");
    }
    let part = world.send(Request::get("/g.wasm.br").header("range", "bytes=0-5")).await;
    assert_eq!((part.status.as_u16(), part.body.as_str()), (206, "brotli"));
    assert_eq!((part.header("content-encoding"), part.header("content-range")), ("br", "bytes 0-5/12"));
}

#[tokio::test]
async fn an_encoded_file_is_decoded_for_those_who_do_not_take_its_coding() {
    let world = encoded();
    let text = "hello ".repeat(20);
    for accept in ["br", "identity", "", "identity;q=1, *;q=0"] {
        let ask = |builder: Builder| builder.header("accept-encoding", accept);
        let answer = world.send(ask(Request::get("/logo.svgz"))).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, text.as_str()), "{accept}");
        for (name, expected) in [("content-encoding", ""), ("content-length", "120"), ("accept-ranges", "")] {
            assert_eq!(answer.header(name), expected, "{accept}: {name}");
        }
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        let head = world.send(ask(Request::head("/logo.svgz"))).await;
        assert_eq!((head.header("content-length"), head.body.as_str()), ("120", ""), "{accept}");
        let ranged = world.send(ask(Request::get("/logo.svgz")).header("range", "bytes=0-5")).await;
        assert_eq!((ranged.status.as_u16(), ranged.body.len()), (200, 120), "{accept}");
        let stored = world.send(Request::head("/logo.svgz").header("accept-encoding", "gzip")).await;
        assert_ne!(answer.header("etag"), stored.header("etag"));
        let again = world.send(ask(Request::get("/logo.svgz")).header("if-none-match", answer.header("etag"))).await;
        assert_eq!((again.status.as_u16(), again.header("etag")), (304, answer.header("etag")), "{accept}");
        let other = world.send(ask(Request::get("/logo.svgz")).header("if-none-match", stored.header("etag"))).await;
        assert_eq!(other.status, 200, "{accept}");
    }
    // A file that is not in its claimed encoding is not sent decoded.
    let broken = world.send(Request::get("/g.wasm.br").header("accept-encoding", "gzip")).await;
    assert_eq!((broken.brief(), broken.header("vary")), ((406, "our page"), "Accept-Encoding"));
}

/// Responses that nobody reads hold no turn for decoding, and their bodies are whole even when the cache has forgotten them.
#[tokio::test]
async fn readers_that_stall_do_not_keep_a_decoded_file_from_others() {
    let lines: Vec<_> = (0..400_000).map(|line| format!("line {line}\n")).collect();
    let text = lines.concat();
    let world = World::new(Folder::default().with_bytes("log.gz", &gzip(&text)).encoded("log.gz", Encoding::Gzip));
    let open = async || {
        let request =
            Request::get("/log.gz").header("accept-encoding", "identity").body(Full::new(Bytes::new())).unwrap();
        let (head, sent) = request.into_parts();
        world.sites.respond(&head, sent, &world.visit, &world.site).await
    };
    let mut stalled = Vec::new();
    for _ in 0..3 * limits::CONCURRENT_DECODES {
        let response = open().await;
        assert_eq!(
            (response.status(), response.headers()["content-length"].to_str().unwrap()),
            (StatusCode::OK, &*text.len().to_string())
        );
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        stalled.push((body, first.len()));
    }
    assert_eq!(read(open().await.into_body()).await.unwrap(), text);
    world.sites.packs.forget_bodies();
    for (body, taken) in stalled {
        assert_eq!(read(body).await.unwrap(), text[taken..]);
    }
}
