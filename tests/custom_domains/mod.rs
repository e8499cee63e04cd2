//! A site at a hostname of its owner's, as visitors meet it: over TLS, with the same files and rules as at its own address.

mod certificates;
mod challenges;
mod connections;
mod gates;

use crate::world::{Actor, Site, World, answer::Answer, request::Request};

const DOMAIN: &str = "www.shop.localhost";

/// `engine`, which ada has published at [`DOMAIN`] too.
async fn published(site: &Site) -> (World, Actor, String) {
    published_on(World::start().await, site).await
}

async fn published_on(world: World, site: &Site) -> (World, Actor, String) {
    world.certify(&[DOMAIN]).await;
    let ada = world.user("ada").await;
    ada.publish("engine", site).await;
    ada.attach("engine", DOMAIN).await;
    let url = world.domain_url(DOMAIN);
    (world, ada, url)
}

#[tokio::test]
async fn a_site_is_served_at_its_domain_as_at_its_own_address() {
    let site = Site::page("home")
        .file("about.html", "about")
        .file("404.html", "nothing here")
        .file("_redirects", "/old /about 301\n/far https://elsewhere.example/:splat 302\n")
        .file("_headers", "/about\n  X-Answer: 42\n");
    let (world, ada, url) = published(&site).await;
    let own = world.site_url("engine");
    let edge = world.edge();
    let both = async |path: &str, ask: fn(&World, &str) -> Request| {
        let [there, here] = [ask(&world, &format!("{own}{path}")).await, ask(&world, &format!("{url}{path}")).await];
        assert_eq!((there.status, there.text()), (here.status, here.text()), "{path}");
        for header in ["etag", "location", "content-type", "cache-control", "x-answer", "vary", "content-encoding"] {
            assert_eq!(there.find_header(header), here.find_header(header), "{path}: {header}");
        }
        here
    };
    let asks: [fn(&World, &str) -> Request; 4] = [
        |world, url| world.edge().get(url),
        |world, url| world.edge().get_http1(url),
        |world, url| world.edge().head(url),
        |world, url| world.edge().get(url).header("accept-encoding", "br"),
    ];
    for path in ["/", "/about", "/about.html", "/old", "/far", "/missing", "/_headers", "/%2e%2e/x", "/?a=b"] {
        for ask in asks {
            both(path, ask).await;
        }
    }
    let seen = both("/", |world, url| world.edge().get(url)).await.assert_body(200, "home");
    assert_eq!(seen.version, http::Version::HTTP_2);
    assert_eq!(edge.get_http1(&url).await.version, http::Version::HTTP_11);
    assert_eq!(seen.find_header("x-robots-tag"), None, "search engines are welcome");
    let etag = seen.header("etag").to_owned();
    edge.get(&url).header("if-none-match", &etag).await.assert_status(304);
    edge.get(&format!("{url}/missing")).await.assert_body(404, "nothing here");
    edge.get(&format!("{url}/old")).await.assert_redirect(301, "/about");
    // The host is read as everywhere: in any case, with the dot at its end.
    edge.get_http1(&url).header("host", "WWW.Shop.localhost.:8443").await.assert_body(200, "home");

    // What was deployed is there at once, and old assets are lent to tabs that are open.
    let old = Site::page("one").file("assets/a-5d41402abc4b.js", "old code");
    ada.deploy("engine", &old.file("x.html", "<script src=/assets/a-5d41402abc4b.js></script>")).await;
    ada.deploy("engine", &Site::page("two")).await;
    edge.get(&url).header("if-none-match", &etag).await.assert_body(200, "two");
    edge.get(&format!("{url}/assets/a-5d41402abc4b.js")).await.assert_body(200, "old code");
}

#[tokio::test]
async fn browsers_insist_on_tls_for_a_month() {
    let site =
        Site::page("home").file("_headers", "/own\n  Strict-Transport-Security: max-age=60\n").file("own", "own");
    let (world, ada, url) = published(&site).await;
    let policy = async |url: &str| {
        let answer = world.edge().get(url).await;
        answer.find_header("strict-transport-security").map(str::to_owned)
    };
    for path in ["/", "/missing"] {
        assert_eq!(policy(&format!("{url}{path}")).await.as_deref(), Some("max-age=2592000"), "{path}");
    }
    assert_eq!(policy(&format!("{url}/own")).await.as_deref(), Some("max-age=60"));
    assert_eq!(policy(&world.site_url("engine")).await.as_deref(), Some("max-age=31536000"));
    ada.detach("engine", DOMAIN).await;
    assert_eq!(policy(&url).await, None, "whoever has left is not held any longer");
}

#[tokio::test]
async fn plain_http_leads_to_https_where_a_site_is_and_nowhere_else() {
    let (world, ada, url) = published(&Site::page("home")).await;
    let plain = |path: &str| world.edge().get(&format!("http://{DOMAIN}{path}"));
    plain("/a/b?c=d").await.assert_redirect(308, &format!("{url}/a/b?c=d"));
    plain("//evil.example/").await.assert_redirect(308, &format!("{url}//evil.example/"));
    let assert_page = |answer: Answer| {
        assert_eq!((answer.status.as_u16(), answer.find_header("location")), (404, None), "{answer:?}");
    };
    for host in ["evil.example", "shop.localhost", "www.shop.localhost.evil.example", "x.www.shop.localhost", "evil"] {
        assert_page(world.edge().get(&format!("http://{host}/")).await);
        assert_page(plain("/").header("host", host).await);
    }
    ada.detach("engine", DOMAIN).await;
    assert_page(plain("/").await);
}

#[tokio::test]
async fn a_detached_domain_is_gone_at_once_from_every_edge() {
    let (world, ada, url) = published_on(World::builder().edges(3).start().await, &Site::page("home")).await;
    crate::world::eventually(crate::BACKGROUND, "admin has heard of every edge", async || {
        ada.attach("engine", "other.shop.localhost").await;
        let detached = ada.detach("engine", "other.shop.localhost").await;
        detached.header("x-svc-propagation").starts_with("3/3")
    })
    .await;
    for round in 0..5 {
        for edge in &world.edges {
            edge.get(&url).await.assert_body(200, "home");
            edge.get_http1(&url).await.assert_body(200, "home");
        }
        ada.detach("engine", DOMAIN).await;
        for edge in &world.edges {
            // Over the connections that stand: at others no certificate is presented any more.
            let gone = edge.navigate(&url).await.assert_status(404);
            assert!(!gone.text().contains("home") && gone.text().contains("svc domains add"), "{round}: {gone:?}");
            edge.get_http1(&url).await.assert_status(404);
        }
        world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
        ada.attach("engine", DOMAIN).await;
    }
    // To another project, without a moment in between at which both answer.
    ada.publish("other", &Site::page("the other")).await;
    ada.detach("engine", DOMAIN).await;
    ada.attach("other", DOMAIN).await;
    for edge in &world.edges {
        edge.get(&url).await.assert_body(200, "the other");
    }
    ada.delete("/projects/other").await.assert_status(200);
    for edge in &world.edges {
        edge.get(&url).await.assert_status(404);
    }
}
