//! Invitations by mail.

use std::time::Instant;

use serde_json::json;

use super::accept;
use crate::world::{
    World,
    mailbox::{Mailbox, header},
    org::token_of,
    ports,
};

#[tokio::test]
async fn an_invitation_comes_by_mail() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Mailbox::start(folder.path()).await;
    let world = World::builder()
        .set("MAIL__URL", mailbox.url())
        .set("MAIL__FROM", "Hosting <hosting@example.com>")
        .start()
        .await;
    let org = world.acme().await;
    let name = "<b>Ünïcode</b> & Co: the organization of a name that is longer than a header's line";
    let rename = org.owner.request(reqwest::Method::PATCH, "/orgs/acme").json(&json!({ "display_name": name }));
    rename.await.ok();
    let invite = org.invite("admin").await;
    assert_eq!(invite["email_sent"], true);
    let letters = mailbox.letters().await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(header(letter, "to"), ["somebody@example.com"]);
    assert_eq!(header(letter, "from"), ["Hosting <hosting@example.com>"]);
    assert_eq!(header(letter, "subject"), ["An invitation to an organization on svc"]);
    assert_eq!(header(letter, "auto-submitted"), ["auto-generated"]);
    for once in ["date", "message-id"] {
        assert_eq!(header(letter, once).len(), 1, "{once}");
    }
    let url = invite["invite_url"].as_str().unwrap();
    let text = letter["parts"]["text/plain"].as_str().unwrap();
    assert!(text.contains(url) && text.contains("as an admin") && text.contains(name), "{text}");
    let html = letter["parts"]["text/html"].as_str().unwrap();
    assert!(
        html.contains(&format!("href=\"{url}\"")) && html.contains("&#60;b&#62;Ünïcode&#60;/b&#62; &#38; Co"),
        "{html}"
    );
    accept(&world.user("eve").await, url.rsplit('/').next().unwrap()).await.ok();
    // Only what is sent counts: a revoked or refused invite sends nothing more.
    org.owner.post("/orgs/acme/invites").json(&json!({ "email": "x", "role": "member" })).await.assert_status(400);
    assert_eq!(mailbox.letters().await.len(), 1);
}

#[tokio::test]
async fn a_mail_server_that_does_not_take_the_letter_is_told_of() {
    // Nobody listens; one listens and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [ports::free(), silent.local_addr().unwrap().port()] {
        let world = World::builder().set("MAIL__URL", format!("smtp://127.0.0.1:{port}")).start().await;
        let org = world.acme().await;
        let before = Instant::now();
        let invite = org.invite("member").await;
        assert_eq!(invite["email_sent"], false);
        assert!(before.elapsed().as_secs() < 20, "the request waited too long");
        // The link itself is good.
        accept(&world.user("eve").await, &token_of(&invite)).await.ok();
    }
}
