//! Unsubscribing: by the link, by the mail program itself, and back; and the settings, which make the same choice.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Post, create_token, subject};
use crate::world::{Actor, mailbox::header};

/// Queues a letter to ada about a domain in trouble.
async fn trouble(post: &Post, number: u32) {
    let sql = format!(
        "INSERT INTO letters (id, event, recipient, kind, content, state, next_attempt_at, created_at)
         SELECT 'eml_' || lpad('{number}', 20, '0'), 'trouble/{number}', 'ada@localhost', 'domain_trouble',
                jsonb_build_object('kind', 'domain_trouble', 'domain', 'www.example.com', 'message', 'number {number}'),
                'waiting', now(), now()"
    );
    post.world.sql(&sql).await;
}

fn link(letter: &Value) -> String {
    header(letter, "list-unsubscribe")[0].strip_prefix('<').unwrap().strip_suffix('>').unwrap().to_owned()
}

#[tokio::test]
async fn a_recipient_unsubscribes_and_subscribes_again() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    trouble(&post, 1).await;
    let letters = post.letters(1).await;
    let url = link(&letters[0]);
    assert_eq!(header(&letters[0], "list-unsubscribe-post"), ["List-Unsubscribe=One-Click"]);
    assert!(letters[0]["parts"]["text/plain"].as_str().unwrap().contains(&url), "{letters:?}");
    assert!(letters[0]["parts"]["text/html"].as_str().unwrap().contains(&url.replace('&', "&#38;")), "{letters:?}");
    for part in ["text/plain", "text/html"] {
        let settings = post.world.console_url("/account#letters");
        assert!(letters[0]["parts"][part].as_str().unwrap().contains(&settings), "{letters:?}");
    }

    // A mail program that opens the link ahead of its reader changes nothing.
    let person = post.world.person();
    let page = person.visit(&url).await;
    page.assert_at(200, &url).assert_says("ada@localhost").assert_says("Letters about domains in trouble");
    assert_eq!(post.world.sql_number("SELECT count(*) FROM letter_refusals").await, 0);
    assert!(page.cookies_set().is_empty());
    let page = person.fill(&page, &[]).await;
    let said = "gets no more letters about domains in trouble";
    page.assert_at(200, &url).assert_says("You are unsubscribed").assert_says(said);

    // Of another kind there are letters still.
    trouble(&post, 2).await;
    post.eventually("event = 'trouble/2' AND state = 'unsubscribed' AND next_attempt_at IS NULL").await;
    create_token(&ada, "one").await;
    let letters = post.letters(2).await;
    assert!(letters.iter().any(|letter| subject(letter) == "A new token for your account"));

    let page = person.fill(&person.visit(&url).await, &[]).await;
    page.assert_says("Letters about domains in trouble");
    trouble(&post, 3).await;
    post.letters(3).await;
}

#[tokio::test]
async fn a_mail_program_unsubscribes_by_itself() {
    let post = Post::start().await;
    trouble(&post, 1).await;
    let letters = post.letters(1).await;
    let url = link(&letters[0]);
    // What waits meanwhile is not sent.
    post.mailbox.refuse(Some("recipient, for now"), "ada@localhost");
    trouble(&post, 2).await;
    post.eventually("state = 'waiting' AND attempts = 1").await;
    // RFC 8058: without cookies, and from nowhere.
    let one_click = post.world.person().request(Method::POST, &url).form(&[("List-Unsubscribe", "One-Click")]);
    one_click.await.assert_status(200);
    post.eventually("event = 'trouble/2' AND state = 'unsubscribed'").await;
    post.eventually("event = 'trouble/1' AND state = 'sent'").await;
}

#[tokio::test]
async fn a_link_that_was_not_in_a_letter_does_nothing() {
    let post = Post::start().await;
    trouble(&post, 1).await;
    let letters = post.letters(1).await;
    let url = link(&letters[0]);
    let person = post.world.person();
    let page = post.world.console_url("/letters/unsubscribe");
    for forged in [
        url.replace("ada%40", "bob%40"),
        url.replace("domain_trouble", "invoice"),
        url.replace("domain_trouble", "token_created"),
        url.replace("domain_trouble", "deployment_failed"),
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

async fn kind(actor: &Actor, kind: &str) -> Value {
    let settings = actor.get("/notifications").await.ok();
    let kinds = settings["kinds"].as_array().unwrap();
    kinds.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("{settings}")).clone()
}

#[tokio::test]
async fn a_person_chooses_their_letters() {
    let post = Post::start().await;
    let (ada, eve) = (post.world.user("ada").await, post.world.user("eve").await);
    let set =
        |kind: &str, enabled: bool| ada.put(&format!("/notifications/{kind}")).json(&json!({ "enabled": enabled }));
    assert_eq!(ada.get("/notifications").await.ok()["email"], "ada@localhost");
    let said =
        json!({ "kind": "domain_trouble", "about": "about domains in trouble", "enabled": true, "required": false });
    assert_eq!(kind(&ada, "domain_trouble").await, said);
    assert_eq!(kind(&ada, "token_created").await["required"], true);

    // What waits is not sent, and what comes later is not either.
    post.mailbox.refuse(Some("recipient, for now"), "ada@localhost");
    trouble(&post, 1).await;
    post.eventually("state = 'waiting' AND attempts = 1").await;
    assert_eq!(set("domain_trouble", false).await.ok()["enabled"], false);
    set("domain_trouble", false).await.ok();
    post.mailbox.refuse(None, "");
    post.eventually("event = 'trouble/1' AND state = 'unsubscribed'").await;
    trouble(&post, 2).await;
    post.eventually("event = 'trouble/2' AND state = 'unsubscribed'").await;
    assert_eq!(kind(&ada, "domain_trouble").await["enabled"], false);
    assert_eq!(kind(&eve, "domain_trouble").await["enabled"], true);

    // The link in a letter and the settings make the same choice.
    assert_eq!(set("domain_trouble", true).await.ok()["enabled"], true);
    trouble(&post, 3).await;
    let url = link(&post.letters(1).await[0]);
    post.world.person().request(Method::POST, &url).form(&[("List-Unsubscribe", "One-Click")]).await.assert_status(200);
    assert_eq!(kind(&ada, "domain_trouble").await["enabled"], false);

    // What is owed is sent.
    for owed in ["token_created", "token_revoked", "domain_moved", "invoice", "payment_failed"] {
        let message = set(owed, false).await.assert_error(400, "invalid_request");
        assert!(message.contains("always sent"), "{message}");
        assert_eq!(set(owed, true).await.ok()["required"], true);
    }
    for unknown in ["spam", "changes_lost"] {
        set(unknown, false).await.assert_error(404, "not_found");
    }
    ada.put("/notifications/domain_trouble").json(&json!({})).await.assert_error(400, "invalid_request");

    let log = ada.get("/activity").await.ok();
    let entries = log["entries"].as_array().unwrap().iter();
    let changes: Vec<_> = entries.filter(|entry| entry["action"] == "letters.change").map(|e| &e["detail"]).collect();
    let change = |enabled: bool| json!({ "kind": "domain_trouble", "enabled": enabled });
    assert_eq!(changes, [&change(true), &change(false)]);

    post.world.sql("UPDATE users SET email = NULL WHERE vcs_login = 'ada'").await;
    assert_eq!(ada.get("/notifications").await.ok()["email"], Value::Null);
    set("domain_trouble", true).await.assert_error(400, "invalid_request");
}
