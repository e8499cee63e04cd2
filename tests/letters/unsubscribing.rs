//! Unsubscribing: by the link, by the mail program itself, and back.

use reqwest::Method;

use super::{Post, create_token, subject};
use crate::world::mailbox::header;

#[tokio::test]
async fn a_recipient_unsubscribes_and_subscribes_again() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    let first = create_token(&ada, "one").await;
    let letters = post.letters(1).await;
    let listed = header(&letters[0], "list-unsubscribe")[0];
    let url = listed.strip_prefix('<').unwrap().strip_suffix('>').unwrap().to_owned();
    assert_eq!(header(&letters[0], "list-unsubscribe-post"), ["List-Unsubscribe=One-Click"]);
    assert!(letters[0]["parts"]["text/plain"].as_str().unwrap().contains(&url), "{letters:?}");
    assert!(letters[0]["parts"]["text/html"].as_str().unwrap().contains(&url.replace('&', "&#38;")), "{letters:?}");

    // A mail program that opens the link ahead of its reader changes nothing.
    let person = post.world.person();
    let page = person.visit(&url).await;
    page.assert_at(200, &url).assert_says("ada@localhost").assert_says("Letters about new tokens");
    assert_eq!(post.world.sql_number("SELECT count(*) FROM letter_refusals").await, 0);
    assert!(page.cookies_set().is_empty());
    let page = person.fill(&page, &[]).await;
    page.assert_at(200, &url).assert_says("You are unsubscribed").assert_says("gets no more letters about new tokens");

    // Of another kind there are letters still.
    create_token(&ada, "two").await;
    post.eventually("content ->> 'label' = 'two' AND state = 'unsubscribed' AND next_attempt_at IS NULL").await;
    ada.delete(&format!("/tokens/{first}")).await.ok();
    let letters = post.letters(2).await;
    assert!(letters.iter().any(|letter| subject(letter) == "A token of your account was revoked"));

    let page = person.fill(&person.visit(&url).await, &[]).await;
    page.assert_says("Letters about new tokens");
    create_token(&ada, "three").await;
    post.letters(3).await;
}

#[tokio::test]
async fn a_mail_program_unsubscribes_by_itself() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    create_token(&ada, "one").await;
    let letters = post.letters(1).await;
    let url = header(&letters[0], "list-unsubscribe")[0].trim_matches(['<', '>']).to_owned();
    // What waits meanwhile is not sent.
    post.mailbox.refuse(Some("recipient, for now"), "ada@localhost");
    create_token(&ada, "two").await;
    post.eventually("state = 'waiting' AND attempts = 1").await;
    // RFC 8058: without cookies, and from nowhere.
    let one_click = post.world.person().request(Method::POST, &url).form(&[("List-Unsubscribe", "One-Click")]);
    one_click.await.assert_status(200);
    post.eventually("content ->> 'label' = 'two' AND state = 'unsubscribed'").await;
    post.eventually("content ->> 'label' = 'one' AND state = 'sent'").await;
}

#[tokio::test]
async fn a_link_that_was_not_in_a_letter_does_nothing() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    create_token(&ada, "one").await;
    let letters = post.letters(1).await;
    let url = header(&letters[0], "list-unsubscribe")[0].trim_matches(['<', '>']).to_owned();
    let person = post.world.person();
    let page = post.world.console_url("/letters/unsubscribe");
    for forged in [
        url.replace("ada%40", "bob%40"),
        url.replace("token_created", "invoice"),
        url.replace("token_created", "token_revoked"),
        url[..url.len() - 1].to_owned(),
        page,
    ] {
        assert_ne!(forged, url);
        for method in [Method::GET, Method::POST] {
            person.request(method, &forged).await.assert_status(404);
        }
        let back = forged.replace("/letters/unsubscribe", "/letters/subscribe");
        person.request(Method::POST, &back).await.assert_status(404);
    }
    assert_eq!(post.world.sql_number("SELECT count(*) FROM letter_refusals").await, 0);
}
