//! What an operator sees of mail: `admin mail test`, and metrics.

use super::{Post, create_token, subject};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{
        World, eventually,
        mailbox::{Mailbox, Strict, header},
        ports,
    },
};

/// The exit code of `admin mail test`, and what it prints.
async fn test_mail(world: &World, address: &str) -> (Option<i32>, String) {
    let output = world.operate(&["mail", "test", address]).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[tokio::test]
async fn an_operator_tries_the_mail_server_out() {
    let mut post = Post::start().await;
    let (code, said) = test_mail(&post.world, "ops@example.com").await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("took the letter to ops@example.com"), "{said}");
    let letters = post.letters(1).await;
    assert_eq!(
        (subject(&letters[0]), header(&letters[0], "to")),
        ("A letter from svc, to try out its mail", vec!["ops@example.com"])
    );

    for (step, words) in [
        ("sender", "does not accept the sender: 553 5.1.8 This sender is not yours"),
        ("recipient", "does not accept the recipient: 550 5.1.1 Nobody of that name"),
        ("recipient, for now", "does not accept the recipient: 450 4.2.1 Try again later"),
        ("letter", "does not accept the letter: 554 5.7.1 This looks like spam"),
    ] {
        post.mailbox.refuse(Some(step), "");
        let (code, said) = test_mail(&post.world, "ops@example.com").await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = test_mail(&post.world, "not an address").await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ada@example.com"), "{said}");

    post.world.set("MAIL__URL", format!("smtp://127.0.0.1:{}", ports::free()));
    let (code, said) = test_mail(&post.world, "ops@example.com").await;
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("there is no connection to the mail server") && said.contains("nothing listens there"),
        "{said}"
    );
    assert_eq!(post.mailbox.letters().await.len(), 1);
}

#[tokio::test]
async fn an_operator_is_told_that_there_is_no_mail_server() {
    let world = World::start().await;
    let (code, said) = test_mail(&world, "ops@example.com").await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("set mail.url"), "{said}");
}

#[tokio::test]
async fn metrics_tell_what_waits() {
    let (folder, port) = (tempfile::tempdir().unwrap(), ports::free());
    let mailbox = Mailbox::strict(folder.path(), Strict { refuses: Some("sender"), ..Strict::default() }).await;
    let world = World::builder()
        .set("MAIL__URL", mailbox.url())
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{port}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    create_token(&ada, "one").await;
    world.sql("UPDATE letters SET created_at = created_at - interval '1 hour'").await;
    eventually(BACKGROUND, "it is seen to wait", async || Page::of(port).await.sum("svc_letters_waiting") > 0.5).await;
    assert!(Page::of(port).await.sum("svc_letters_oldest_waiting_seconds") >= 3_600.0);
    mailbox.refuse(Some("recipient"), "");
    eventually(BACKGROUND, "it is given up", async || Page::of(port).await.sum("svc_letters_given_up_total") > 0.5)
        .await;
    mailbox.refuse(None, "");
    create_token(&ada, "two").await;
    eventually(BACKGROUND, "one is sent", async || Page::of(port).await.sum("svc_letters_sent_total") > 0.5).await;
    assert!(!Page::of(port).await.text.contains("ada@"));
}
