//! Tokens that are made and revoked.

use domain::role::Role;
use serde_json::json;

use super::{Post, create_token, subject};
use crate::world::mailbox::header;

#[tokio::test]
async fn whoever_a_token_acts_for_is_told_of_it() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    let label = "<b>laptop</b> & more";
    let id = create_token(&ada, label).await;
    let letters = post.letters(1).await;
    assert_eq!(
        (header(&letters[0], "to"), subject(&letters[0])),
        (vec!["ada@localhost"], "A new token for your account")
    );
    assert_eq!(header(&letters[0], "auto-submitted"), ["auto-generated"]);
    assert!(header(&letters[0], "message-id")[0].starts_with("<eml_"));
    let text = letters[0]["parts"]["text/plain"].as_str().unwrap();
    let html = letters[0]["parts"]["text/html"].as_str().unwrap();
    assert!(text.contains(label) && text.contains("AI gateway") && text.contains("svc tokens"), "{text}");
    assert!(html.contains("&#60;b&#62;laptop&#60;/b&#62; &#38; more") && !html.contains(label), "{html}");

    ada.delete(&format!("/tokens/{id}")).await.ok();
    ada.delete(&format!("/tokens/{id}")).await.assert_error(404, "not_found");
    let letters = post.letters(2).await;
    let revoked = letters.iter().find(|letter| subject(letter) == "A token of your account was revoked").unwrap();
    assert!(revoked["parts"]["text/plain"].as_str().unwrap().contains(label), "{revoked}");
}

#[tokio::test]
async fn an_organization_s_owners_are_told_of_its_tokens() {
    let post = Post::start().await;
    let staff = post.world.staffed_org("acme").await;
    let token = staff.admin.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy", "label": "ci" })).await.created();
    // Beside an invitation: the second to the same address is not sent.
    let letters = post.letters(2).await;
    let made = letters.iter().find(|letter| subject(letter) == "A new token for the organization acme").unwrap();
    assert_eq!(header(made, "to"), [format!("{}@localhost", staff.owner.login().await)]);
    assert!(made["parts"]["text/plain"].as_str().unwrap().contains("svc tokens --org acme"), "{made}");
    staff.admin.delete(&format!("/orgs/acme/tokens/{}", token["id"].as_str().unwrap())).await.ok();
    let letters = post.letters(3).await;
    assert!(letters.iter().any(|letter| subject(letter) == "A token of the organization acme was revoked"));
}

#[tokio::test]
async fn nobody_s_mailbox_is_filled() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    post.mailbox.refuse(Some("sender"), "");
    for number in 0..52 {
        create_token(&ada, &number.to_string()).await;
    }
    assert_eq!(post.world.sql_number("SELECT count(*) FROM letters").await, 50);
    // Letters about money are bounded by nothing but money.
    assert_eq!(post.world.sql_number("SELECT count(*) FROM tokens WHERE kind = 'ai'").await, 52);
}

#[tokio::test]
async fn others_silence_no_letters_about_ones_own_account() {
    let post = Post::start().await;
    let (ada, mallory) = (post.world.user("ada").await, post.world.user("mallory").await);
    post.mailbox.refuse(Some("sender"), "");
    // Nobody asks ada whether she wants to own what mallory has made.
    mallory.create_org("noise").await.admit(&ada, Role::Owner).await;
    for number in 0..51 {
        let token = json!({ "kind": "ai", "label": number.to_string() });
        mallory.post("/orgs/noise/tokens").json(&token).await.created();
    }
    let of_ada = async || post.world.sql_number("SELECT count(*) FROM letters WHERE recipient = 'ada@localhost'").await;
    assert_eq!(of_ada().await, 50);
    create_token(&ada, "own").await;
    assert_eq!(of_ada().await, 51);
    let org = ada.create_org("acme").await;
    org.create_token("deploy").await;
    assert_eq!(of_ada().await, 52);
}
