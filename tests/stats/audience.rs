//! Who asked: people, programs that say what they are, and programs that pretend to be people.

use std::{collections::BTreeMap, process::Command};

use super::*;
use crate::world::process::run;

/// What is stored of one kind, by key, wherever it is by now.
pub async fn counted(world: &World, kind: &str) -> BTreeMap<String, u64> {
    let sql = format!(
        "SELECT coalesce(json_object_agg(key, requests)::text, '{{}}')
         FROM (SELECT key, sum(requests)::bigint AS requests
               FROM (SELECT unnest(kinds) AS kind, unnest(keys) AS key, unnest(requests) AS requests FROM traffic_recent
                     UNION ALL SELECT kind, key, requests FROM traffic_hour_entries) AS entries
               WHERE kind = '{kind}' GROUP BY key) AS summed"
    );
    serde_json::from_str(&world.sql_text(&sql).await).unwrap()
}

/// The sum in this place of an hour's sums: 1 requests, 2 bytes, 10 views of pages, 11 bytes to people.
pub async fn sum(world: &World, place: usize, column: &str) -> i64 {
    let sql = format!(
        "SELECT (coalesce((SELECT sum(sums[{place}]) FROM traffic_recent), 0)
                 + coalesce((SELECT sum({column}) FROM traffic_hours), 0))::bigint"
    );
    world.sql_number(&sql).await
}

/// A site with a page that has parts, and one that has none.
pub fn site() -> Site {
    let home =
        "<!doctype html><link rel=stylesheet href=/style.css><script src=/app.js></script><a href=/plain>plain</a>";
    Site::page(home)
        .file("plain.html", "<h1>plain page</h1>")
        .file("style.css", "a { color: red }")
        .file("app.js", "document.title = 'ran'")
        .file("feed.xml", "<rss/>")
        .file("private/secret.html", "<h1>secret</h1>")
        .file("robots.txt", "User-agent: curl\nDisallow: /private/\n")
}

const HOST: &str = "engine.svc.localhost";

impl Visited {
    /// Runs `curl` at the first edge.
    fn curl(&self, path: &str) {
        let (port, url) = (self.world.public_port(), &self.url);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--cacert"]).arg(self.world.ca());
        run(curl.arg("--resolve").arg(format!("{HOST}:{port}:127.0.0.1")).arg(format!("{url}{path}")));
    }

    /// Runs `wget` at the first edge, over plain HTTP: it looks up the names that it asks for over TLS.
    fn wget(&self, path: &str) {
        let url = format!("http://127.0.0.1:{}{path}", self.world.edge().http_port);
        let mut wget = Command::new("wget");
        run(wget.args(["--quiet", "--output-document=/dev/null", "--header", &format!("Host: {HOST}")]).arg(url));
    }

    /// Waits until so many requests are somebody's.
    async fn classes_with(&self, requests: u64, within: Duration) -> BTreeMap<String, u64> {
        let mut classes = BTreeMap::new();
        let is_there = holds_within(within, async || {
            classes = counted(&self.world, "agent").await;
            classes.values().sum::<u64>() >= requests
        });
        assert!(is_there.await, "{requests} requests are not told apart: {classes:?}");
        classes
    }
}

#[tokio::test]
async fn people_are_told_from_programs_by_what_they_do() {
    let visited = Visited::start(&site()).await;
    // A person.
    let person = visited.world.browser().await;
    person.pretend("X11; Linux x86_64").await;
    person.open(&visited.url).await;
    person.press("plain").await;
    person.sees("plain page").await;
    let mut views = BTreeMap::new();
    // The browser asks for an icon as well: the number of requests does not say that the second page is among them.
    let are_there = holds_within(SEEN_WITHIN, async || {
        views = counted(&visited.world, "view").await;
        views.len() >= 2
    });
    assert!(are_there.await, "{views:?}");
    let classes = visited.classes_with(4, SEEN_WITHIN).await;
    assert_eq!(classes.keys().collect::<Vec<_>>(), ["person\t\tbehaviour"], "{classes:?}");
    let view = |path: &str| format!("{path}\t\tXX\t{HOST}");
    assert_eq!(views, BTreeMap::from([(view("/"), 1), (view("/plain"), 1)]));
    person.close().await;
    let people = classes["person\t\tbehaviour"];

    // A browser without a person, which says it is another, and loads pages only.
    let pretender = visited.world.browser().await;
    pretender.pretend("Windows NT 10.0; Win64; x64").await;
    pretender.block(&["*.css", "*.js", "*.ico"]).await;
    pretender.open(&visited.url).await;
    pretender.close().await;
    // One that does not hide it.
    let headless = visited.world.browser().await;
    headless.open(&visited.url).await;
    headless.close().await;
    let seen_within = SEEN_WITHIN + Duration::from_secs(12);
    let classes = visited.classes_with(people + 1 + 3, seen_within).await;
    eventually(seen_within, "the pretender is judged", async || {
        counted(&visited.world, "agent").await.get("automation\t\tbehaviour") == Some(&1)
    })
    .await;
    assert_eq!(classes.get("person\t\tbehaviour"), Some(&people));
    assert_eq!(classes.get("person\t\tfields"), None, "{classes:?}");
    assert_eq!(counted(&visited.world, "view").await, views, "nobody else saw a page");
    assert_eq!(sum(&visited.world, 10, "pageviews").await, 2);
}

#[tokio::test]
async fn programs_that_say_what_they_are_are_counted_as_that() {
    let visited = Visited::start_with(&site(), |builder| builder.set("EDGE__HTTP_MODE", "serve")).await;
    visited.curl("/");
    visited.curl("/private/secret");
    visited.curl("/style.css");
    let edge = visited.world.edge();
    let ask = async |path: &str, agent: &str| {
        edge.get(&format!("{}{path}", visited.url)).header("user-agent", agent).await.assert_status(200);
    };
    visited.wget("/plain");
    ask("/feed.xml", "Feedly/1.0 (+http://www.feedly.com/fetcher.html; 12 subscribers; like FeedFetcher-Google)").await;
    ask("/", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)").await;
    // The first says nothing; the second says what no such browser says.
    edge.get(&visited.url).await.assert_status(200);
    ask("/plain", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0").await;
    let classes = visited.classes_with(8, SEEN_WITHIN).await;
    let of = |beginning: &str| -> u64 {
        classes.iter().filter(|(key, _)| key.starts_with(beginning)).map(|(_, requests)| requests).sum()
    };
    assert_eq!(of("other_bot\tcurl\tname"), 3, "{classes:?}");
    assert_eq!(of("other_bot\tWget\tname") + of("other_bot\twget\tname"), 1, "{classes:?}");
    assert_eq!(of("preview\t"), 1, "{classes:?}");
    assert_eq!(of("ai_training\tGPTBot\tname"), 1, "{classes:?}");
    assert_eq!(of("automation\t\tfields"), 2, "{classes:?}");
    assert_eq!(of("person"), 0, "{classes:?}");
    assert_eq!(counted(&visited.world, "agent_disallowed").await, BTreeMap::from([("curl".into(), 1)]));
    let pages = counted(&visited.world, "agent_page").await;
    assert_eq!((pages.get("curl"), pages.get("GPTBot"), pages.get("")), (Some(&2), Some(&1), Some(&2)), "{pages:?}");
    assert_eq!(sum(&visited.world, 11, "people_bytes").await, 0);
    assert_eq!(sum(&visited.world, 1, "requests").await, 8);
}

/// A browser from before browsers said what a request is for.
const OLD_BROWSER: &str = "Mozilla/5.0 (Windows NT 6.1; Win64; x64; rv:78.0) Gecko/20100101 Firefox/78.0";

#[tokio::test]
async fn views_know_where_they_came_from() {
    let site = Site::page("<p>home").file("about.html", "<p>about").file("_redirects", "/old /about 301\n");
    let visited = Visited::start(&site).await;
    let edge = visited.world.edge();
    let etag = edge.head(&visited.url).await.header("etag").to_owned();
    let view = |path: &str| {
        let navigation = edge.navigate(&format!("{}{path}", visited.url));
        navigation.header("user-agent", OLD_BROWSER).header("accept-language", "en")
    };
    for (path, referer) in [
        ("/", "https://news.example/deep/path?q=1"),
        ("/about?x=1", &*visited.url),
        ("/any/where", ""),
        ("/?utm_source=chatgpt.com", ""),
    ] {
        let view = view(path);
        let view = if referer.is_empty() { view } else { view.header("referer", referer) };
        view.await.assert_status(200);
    }
    view("/").header("if-none-match", &etag).await.assert_status(304);
    // None of these is a view.
    view("/old").await.assert_status(301);
    view("/").header("range", "bytes=0-1").await.assert_status(206);
    let expected =
        [("/", "news.example", 1), ("/about", "", 1), ("/any/where", "", 1), ("/", "chatgpt.com", 1), ("/", "", 1)];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(path, referrer, views)| (format!("{path}\t{referrer}\tXX\t{HOST}"), views))
        .collect();
    let mut views = BTreeMap::new();
    let is_there = holds_within(SEEN_WITHIN, async || {
        views = counted(&visited.world, "view").await;
        views == expected
    });
    assert!(is_there.await, "{views:?}");
    assert_eq!(sum(&visited.world, 10, "pageviews").await, 5);
    let classes = visited.classes_with(8, SEEN_WITHIN).await;
    // The first asked for the head, and said nothing.
    assert_eq!(classes.get("person\t\tfields"), Some(&7), "{classes:?}");
}

#[tokio::test]
async fn errors_know_which_page_led_there() {
    let visited = Visited::start(&Site::page("home").file("404.html", "<p>nothing here")).await;
    let edge = visited.world.edge();
    let missing = || edge.get(&format!("{}/gone?x=1", visited.url));
    missing().header("referer", format!("{}/from?y=2", visited.url)).await.assert_status(404);
    missing().header("referer", "https://news.example/path").await.assert_status(404);
    missing().await.assert_status(404);
    let expected = ["404\t/gone\t/from", "404\t/gone\tnews.example", "404\t/gone\t"].map(|key| (key.to_owned(), 1));
    let expected = BTreeMap::from(expected);
    eventually(SEEN_WITHIN, "the errors are seen", async || counted(&visited.world, "error").await == expected).await;
}
