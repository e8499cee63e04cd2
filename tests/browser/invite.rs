//! An invite's link, opened as whoever got the mail opens it.

use super::{SESSION, assert_cookies, sign_in};
use crate::world::{Site, World};

#[tokio::test]
async fn who_is_invited_signs_in_and_joins() {
    let world = World::start().await;
    let org = world.acme().await;
    org.owner.create_project_in(&org, "handbook").await;
    org.owner.deploy("handbook", &Site::page("handbook")).await;
    let link = org.invite("admin").await["invite_url"].as_str().unwrap().to_owned();
    let browser = world.browser().await;
    browser.open(&link).await;
    browser.sees("Join acme").await;
    browser.sees("owner invites you to join the organization acme as an admin").await;
    browser.picture("invite-signed-out").await;
    assert_cookies(&browser.cookies().await, &[]);
    browser.press("Sign in to join").await;
    browser.sees("Sign in").await;
    browser.picture("invite-sign-in").await;
    sign_in(&browser, "bob").await;
    // Back at the invite, and nothing has happened yet: joining takes a press.
    browser.arrives(&link, "You are signed in as bob").await;
    browser.picture("invite-signed-in").await;
    assert_eq!(org.roles().await.len(), 1);
    // Somebody else sits here: back at the invite, as whoever they are.
    browser.press("Use another account").await;
    browser.sees("Operator's secret").await;
    sign_in(&browser, "eve").await;
    browser.arrives(&link, "You are signed in as eve").await;
    browser.press("Join acme").await;
    browser.sees("You are an admin of acme now").await;
    browser.picture("invite-joined").await;
    assert_cookies(&browser.cookies().await, &[SESSION]);
    assert!(org.roles().await.contains(&("eve".to_owned(), "admin".to_owned())));
    // On to where the org's projects are.
    browser.press("To the console").await;
    browser.arrives(&world.console_url("/"), "handbook").await;
    browser.picture("invite-home").await;

    // The link again, by whoever joined and by somebody else.
    browser.open(&link).await;
    browser.sees("This invite is over").await;
    browser.sees("Ask whoever sent it for a new one").await;
    browser.picture("invite-over").await;
    browser.press("To the console").await;
    browser.arrives(&world.console_url("/"), "handbook").await;
    let other = world.browser().await;
    other.open(&link).await;
    other.sees("This invite is over").await;
    assert_eq!(org.roles().await.len(), 2);
    browser.close().await;
    other.close().await;
}
