//! A site's script that leaves so many cookies for all of its domain (`Domain=`) that a browser's requests to every other site
//! there, and to the console, become too large. In Chromium, which keeps and sends cookies by its own rules.

use crate::{
    browser::sign_in,
    world::{Site, World},
};

/// The script of a hostile site: leaves so many cookies of so many bytes for the whole domain. Returns how many the browser
/// keeps. Run in the page rather than sent with it: the browser's own request for the site's icon would be the first victim,
/// and clear them.
fn bombs(count: usize, bytes: usize) -> String {
    format!(
        "for (let n = 0; n < {count}; n++) document.cookie = \
         `bomb${{n}}=${{'a'.repeat({bytes})}}; Domain=svc.localhost; Path=/; Secure; Max-Age=86400`; \
         return document.cookie.split(';').length"
    )
}

#[tokio::test]
async fn a_site_locks_nobody_out_of_the_console_or_of_other_sites() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("victim", &Site::page("<p>the victim's page")).await;
    let hostile = world.user("eve").await.publish("hostile", &Site::page("<p>hostile page")).await.url;
    let (victim, console) = (world.site_url("victim"), world.console_url("/"));
    let browser = world.browser().await;
    // From more than is accepted at all, by way of what the parser refuses, to what is only large.
    for (count, bytes) in [(170, 4_000), (60, 600), (9, 3_500), (40, 400)] {
        for (place, says) in [(&victim, "the victim's page"), (&console, "A folder becomes a site")] {
            browser.open(&hostile).await;
            browser.sees("hostile page").await;
            let kept = browser.run(&bombs(count, bytes)).await;
            assert!(kept.as_u64().is_some_and(|kept| kept >= count as u64), "{kept} of {count} cookies were kept");
            browser.open(place).await;
            if !browser.text().await.contains(says) {
                browser.sees("Too many cookies").await;
                browser.picture("too-many-cookies").await;
                let left = browser.cookies().await.iter().filter(|cookie| cookie.name.starts_with("bomb")).count();
                assert_eq!(left, 0, "{count} of {bytes}: the cookies were not cleared");
                browser.open(place).await;
            }
            browser.sees(says).await;
        }
    }
    // What is well afterwards: signing in.
    browser.open(&world.console_url("/sign-in")).await;
    sign_in(&browser, "ada").await;
    browser.sees("Hello, ada").await;
    browser.close().await;
}

#[tokio::test]
async fn a_site_cannot_clear_the_consoles_cookies() {
    let world = World::start().await;
    let rules = "/*\n  Clear-Site-Data: \"cookies\", \"storage\"\n";
    let site = Site::page("<p>hostile page").file("_headers", rules);
    let hostile = world.user("eve").await.publish("hostile", &site).await.url;
    let browser = world.browser().await;
    browser.open(&world.console_url("/sign-in")).await;
    sign_in(&browser, "ada").await;
    browser.sees("Hello, ada").await;
    browser.open(&hostile).await;
    browser.sees("hostile page").await;
    browser.open(&world.console_url("/")).await;
    browser.sees("Hello, ada").await;
    browser.close().await;
}
