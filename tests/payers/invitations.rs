//! Letters to people who did not ask for any: invitations.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::count_on;
use crate::world::{
    Actor, World,
    mailbox::{Mailbox, header},
};

async fn start() -> (World, Mailbox, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Mailbox::start(folder.path()).await;
    let world = World::builder().plan(&json!({})).set("MAIL__URL", mailbox.url()).start().await;
    (world, mailbox, folder)
}

/// Invites somebody to an org. Returns the invite.
async fn invite(actor: &Actor, org: &str, email: &str) -> Value {
    let body = json!({ "email": email, "role": "member" });
    actor.post(&format!("/orgs/{org}/invites")).json(&body).await.created()
}

async fn is_sent(actor: &Actor, org: &str, email: &str) -> bool {
    invite(actor, org, email).await["email_sent"].as_bool().unwrap()
}

#[tokio::test]
async fn nobody_has_letters_heaped_on_an_address() {
    const VICTIM: &str = "v.ictim@example.com";
    let (world, mailbox, _folder) = start().await;
    let mallory = world.user("mallory").await;
    let org = mallory.create_org("one").await;
    let first = invite(&mallory, "one", VICTIM).await;
    assert_eq!(first["email_sent"], true);
    // Whatever became of the first, there is no second: not after a revocation, from another organization, or to another spelling.
    mallory.delete(&org.path(&format!("/invites/{}", first["id"].as_str().unwrap()))).await.ok();
    assert!(!is_sent(&mallory, "one", VICTIM).await);
    mallory.delete("/orgs/one").await.ok();
    mallory.create_org("two").await;
    for spelling in [VICTIM, "V.Ictim@Example.COM", "v.ictim+x@example.com", "victim@example.com"] {
        assert!(!is_sent(&mallory, "two", spelling).await, "{spelling}");
    }
    assert!(is_sent(&mallory, "two", "another@example.com").await);
    // Others may write to the address, three letters a day in all.
    for (login, wanted) in [("bob", true), ("carol", true), ("dave", false)] {
        let person = world.user(login).await;
        person.create_org(login).await;
        assert_eq!(is_sent(&person, login, VICTIM).await, wanted, "{login}");
        assert!(is_sent(&person, login, &format!("{login}@example.com")).await);
    }
    assert_eq!(mailbox.letters().await.len(), 7);

    // A person sends 50 a day, over all organizations.
    count_on(&world, "invite-mail-of-person", 49).await;
    assert!(is_sent(&mallory, "two", "x1@example.com").await);
    mallory.create_org("three").await;
    let invite = invite(&mallory, "three", "x2@example.com").await;
    assert_eq!(invite["email_sent"], false);
    // The link itself is good.
    let token = invite["invite_url"].as_str().unwrap().rsplit('/').next().unwrap();
    world.nobody().get(&format!("/invites/{token}")).await.ok();
}

#[tokio::test]
async fn a_letter_has_no_words_of_strangers_in_its_subject_and_no_links_of_theirs() {
    let (world, mailbox, _folder) = start().await;
    let mallory = world.user("mallory").await;
    let name = "Your Bank Security: verify now https://evil.example/login";
    mallory.post("/orgs").json(&json!({ "name": "your-bank", "display_name": name })).await.created();
    let sent = invite(&mallory, "your-bank", "victim@example.com").await;
    let letters = mailbox.letters().await;
    assert_eq!(header(&letters[0], "subject"), ["An invitation to an organization on svc"]);
    let whole = letters[0].to_string();
    assert!(!whole.contains("evil.example") && !whole.contains("verify now"), "{whole}");
    let text = letters[0]["parts"]["text/plain"].as_str().unwrap();
    assert!(
        text.contains("mallory") && text.contains("your-bank") && text.contains(sent["invite_url"].as_str().unwrap())
    );
}

#[tokio::test]
async fn a_recipient_wants_none_from_anybody() {
    let (world, mailbox, _folder) = start().await;
    let (mallory, bob) = (world.user("mallory").await, world.user("bob").await);
    mallory.create_org("one").await;
    bob.create_org("two").await;
    assert!(is_sent(&mallory, "one", "Victim@example.com").await);
    let letters = mailbox.letters().await;
    assert_eq!(header(&letters[0], "list-unsubscribe-post"), ["List-Unsubscribe=One-Click"]);
    let url = header(&letters[0], "list-unsubscribe")[0].trim_matches(['<', '>']).to_owned();
    assert!(letters[0]["parts"]["text/plain"].as_str().unwrap().contains(&url), "{letters:?}");
    // RFC 8058: without cookies, and from nowhere.
    let person = world.person();
    person.request(Method::POST, &url).form(&[("List-Unsubscribe", "One-Click")]).await.assert_status(200);
    for spelling in ["Victim@example.com", "victim@example.com", "vic.tim+bob@example.com"] {
        assert!(!is_sent(&bob, "two", spelling).await, "{spelling}");
    }
    let page = person.visit(&url).await;
    page.assert_says("You are unsubscribed").assert_says("Victim@example.com");
    person.fill(&page, &[]).await.assert_says("Letters with invitations");
    assert!(is_sent(&bob, "two", "victim@example.com").await);
}
