//! Of a visitor nothing is stored or logged: no address, no user agent, no query, nothing of other sites but their hosts.

use super::{audience::site, *};
use crate::{BACKGROUND, metrics::Page, world::ports};

const ADDRESSES: [&str; 2] = ["198.51.100.77", "2001:db8:7a:7b::abcd"];
/// A name that no list knows, and one behind the name of a known agent.
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (Windows NT 6.1; Win64; x64; rv:78.0) Gecko/20100101 Firefox/78.0 zq81agent",
    "Mozilla/5.0 (compatible; GPTBot/1.2; zq81agent)",
    "zq81agent/1.0",
];
const MARKERS: [&str; 6] = ["198.51.100", "2001:db8", "zq81agent", "zq82query", "zq83path", "zq84user"];

#[tokio::test]
async fn visitors_leave_no_trace() {
    let (edge_metrics, admin_metrics) = (ports::free(), ports::free());
    let site = site().file("404.html", "<p>nothing here");
    let visited = Visited::start_with(&site, |builder| {
        builder
            .set("EDGE__TRUSTED_PROXIES", "127.0.0.1/32")
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_metrics}"))
            .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin_metrics}"))
    })
    .await;
    let edge = visited.world.edge();
    let mut requests = 0;
    for address in ADDRESSES {
        for agent in AGENTS {
            for path in ["/", "/plain", "/style.css", "/missing", "/private/secret"] {
                let url = format!("{}{path}?zq82query=1&utm_source=zq82query", visited.url);
                for referer in ["https://news.example/zq83path?zq83path", "https://zq84user:zq84user@news.example/", ""]
                {
                    let request = edge.navigate(&url).header("user-agent", agent).header("accept-language", "en");
                    let request = request.header("x-forwarded-for", address);
                    let request = if referer.is_empty() { request } else { request.header("referer", referer) };
                    request.await.assert_status(if path == "/missing" { 404 } else { 200 });
                    requests += 1;
                }
            }
        }
    }
    // What waits is judged, too.
    eventually(BACKGROUND, "all of it is counted", async || {
        let classes = super::audience::counted(&visited.world, "agent").await;
        classes.values().sum::<u64>() == requests
    })
    .await;
    let referrers = super::audience::counted(&visited.world, "error").await;
    assert!(referrers.contains_key("404\t/missing\tnews.example"), "{referrers:?}");
    for port in [edge_metrics, admin_metrics] {
        let page = Page::of(port).await;
        let marker = MARKERS.iter().find(|marker| page.text.contains(**marker));
        assert!(page.text.contains("svc_build_info") && marker.is_none(), "{marker:?}: {}", page.text);
    }
    visited.world.assert_no_trace(&MARKERS).await;
}
