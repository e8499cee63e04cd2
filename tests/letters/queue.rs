//! The queue between what happened and the mail server: nothing is lost, and what comes twice can be recognized.

use std::collections::HashSet;

use db::letters::{self, DailyBound, NewLetter};
use domain::{Account, Clock, EmailAddress, OrgId};
use futures_util::future::join_all;
use serde_json::json;

use super::{Post, create_token};
use crate::{
    BACKGROUND,
    world::{World, eventually, mailbox::header},
};

#[tokio::test]
async fn two_admins_send_each_letter_once() {
    const LETTERS: usize = 40;
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    let _other = post.world.start_another_admin();
    for number in 0..LETTERS {
        create_token(&ada, &number.to_string()).await;
    }
    post.letters(LETTERS).await;
    eventually(BACKGROUND, "all are marked", async || {
        post.world.sql_number("SELECT count(*) FROM letters WHERE state = 'sent' AND attempts = 1").await == 40
    })
    .await;
    let letters = post.letters(LETTERS).await;
    let ids: HashSet<_> = letters.iter().map(|letter| header(letter, "message-id")[0]).collect();
    assert_eq!(ids.len(), LETTERS);
}

#[tokio::test]
async fn a_letter_outlives_whoever_was_sending_it() {
    let mut post = Post::start().await;
    let ada = post.world.user("ada").await;
    // The server has the letter, and admin does not learn of it.
    post.mailbox.refuse(Some("to answer, having taken it"), "");
    create_token(&ada, "laptop").await;
    post.letters(1).await;
    post.world.admin.kill();
    post.mailbox.refuse(None, "");
    post.pass_time().await;
    post.world.restart_admin_later().await;
    let letters = post.letters(2).await;
    assert_eq!(header(&letters[0], "message-id"), header(&letters[1], "message-id"), "both are recognized as one");
    post.eventually("state = 'sent'").await;
}

#[tokio::test]
async fn a_recipient_who_is_refused_holds_nobody_up() {
    let post = Post::start().await;
    let (ada, bob) = (post.world.user("ada").await, post.world.user("bob").await);
    post.mailbox.refuse(Some("recipient"), "bob@localhost");
    create_token(&bob, "one").await;
    create_token(&ada, "two").await;
    let letters = post.letters(1).await;
    assert_eq!(header(&letters[0], "to"), ["ada@localhost"]);
    post.eventually("recipient = 'bob@localhost' AND state = 'given_up' AND attempts = 1").await;
    let error = post.world.sql_text("SELECT error FROM letters WHERE state = 'given_up'").await;
    assert_eq!(error, "the mail server does not accept the recipient: 550 5.1.1 Nobody of that name");
}

#[tokio::test]
async fn a_letter_that_is_refused_for_now_is_tried_again() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    post.mailbox.refuse(Some("recipient, for now"), "ada@localhost");
    create_token(&ada, "one").await;
    post.eventually("state = 'waiting' AND attempts = 1 AND next_attempt_at > created_at + interval '1 minute'").await;
    post.pass_time().await;
    post.eventually("state = 'waiting' AND attempts = 2 AND next_attempt_at > created_at + interval '2 minutes'").await;
    // The last attempt.
    post.world.sql("UPDATE letters SET attempts = 14, next_attempt_at = created_at").await;
    post.eventually("state = 'given_up' AND attempts = 15 AND error LIKE '%450 4.2.1 Try again later'").await;
    assert!(post.mailbox.letters().await.is_empty());

    create_token(&ada, "two").await;
    post.eventually("state = 'waiting' AND attempts = 1").await;
    post.mailbox.refuse(None, "");
    post.pass_time().await;
    post.letters(1).await;
    post.eventually("state = 'sent' AND attempts = 2 AND error IS NULL").await;
}

#[tokio::test]
async fn a_letter_about_money_is_tried_until_it_is_taken_or_refused_for_good() {
    let post = Post::start().await;
    let (ada, bob) = (post.world.user("ada").await, post.world.user("bob").await);
    post.mailbox.refuse(Some("recipient, for now"), "ada@localhost");
    create_token(&ada, "one").await;
    post.eventually("state = 'waiting' AND attempts = 1").await;
    let last = "UPDATE letters SET kind = 'payment_failed', attempts = 14, next_attempt_at = created_at";
    post.world.sql(last).await;
    post.eventually("state = 'waiting' AND attempts = 15 AND next_attempt_at > created_at + interval '20 hours'").await;
    post.mailbox.refuse(None, "");
    post.pass_time().await;
    post.letters(1).await;
    post.eventually("state = 'sent' AND attempts = 16").await;
    post.mailbox.refuse(Some("recipient"), "bob@localhost");
    create_token(&bob, "two").await;
    post.eventually("recipient = 'bob@localhost' AND state = 'given_up' AND attempts = 1").await;
}

#[tokio::test]
async fn a_server_that_takes_no_letters_counts_against_none() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    // As it is when mail.from is wrong: every letter would be refused.
    post.mailbox.refuse(Some("sender"), "");
    create_token(&ada, "one").await;
    eventually(BACKGROUND, "the outage is noticed", async || {
        post.world.admin.log().contains("no letters are sent until")
    })
    .await;
    assert!(post.world.admin.log().contains("553 5.1.8 This sender is not yours"), "{}", post.world.admin.log_tail());
    post.eventually("state = 'waiting' AND attempts = 0 AND error IS NULL").await;
    post.mailbox.refuse(None, "");
    post.letters(1).await;
}

#[tokio::test]
async fn without_a_mail_server_nothing_breaks() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for label in ["one", "two", "three"] {
        create_token(&ada, label).await;
    }
    // Two are too old to be of use by the time that there is a server, unless they are about money, as one of them is.
    world
        .sql(
            "UPDATE letters SET kind = 'payment_failed' WHERE content ->> 'label' = 'three';
             UPDATE letters SET created_at = created_at - interval '8 days' WHERE content ->> 'label' <> 'two'",
        )
        .await;
    eventually(BACKGROUND, "it is given up", async || {
        world.sql_number("SELECT count(*) FROM letters WHERE state = 'given_up'").await == 1
    })
    .await;
    assert_eq!(world.sql_number("SELECT count(*) FROM letters WHERE state = 'waiting' AND attempts = 0").await, 2);
    assert!(!world.admin.log().contains("a job failed"), "{}", world.admin.log_tail());
}

#[tokio::test]
async fn old_letters_are_deleted() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    for label in ["old", "waiting", "new"] {
        create_token(&ada, label).await;
    }
    world
        .sql(
            "UPDATE letters SET state = 'sent', next_attempt_at = NULL WHERE content ->> 'label' <> 'waiting';
             UPDATE letters SET created_at = created_at - interval '91 days' WHERE content ->> 'label' = 'old'",
        )
        .await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the old one is gone", async || world.sql_number("SELECT count(*) FROM letters").await == 2)
        .await;
    assert_eq!(world.sql_number("SELECT count(*) FROM letters WHERE content ->> 'label' = 'old'").await, 0);
}

#[tokio::test]
async fn letters_that_are_queued_together_are_counted_one_after_another() {
    let world = World::start().await;
    let db = sqlx::PgPool::connect(world.database.as_str()).await.unwrap();
    let (recipient, now): (EmailAddress, _) = ("ada@example.com".parse().unwrap(), Clock::system().now());
    // The recipient's own account, and two others.
    let accounts: [Account; 3] = std::array::from_fn(|_| OrgId::new(now).into());
    let queueing = (0..24).map(async |number: u32| {
        let letter = NewLetter {
            event: &format!("made/{number}"),
            recipient: &recipient,
            account: Some(&accounts[number as usize % 3]),
            kind: "token_created",
            content: &json!({}),
            invoice: None,
            most_a_day: Some(DailyBound { of_account: 5, of_others: (!number.is_multiple_of(3)).then_some(7) }),
        };
        let mut change = db.begin().await.unwrap();
        letters::queue(&mut change, &letter, now).await.unwrap();
        change.commit().await.unwrap();
    });
    join_all(queueing).await;
    let of_own = format!("SELECT count(*) FROM letters WHERE account = '{}'", accounts[0]);
    assert_eq!(world.sql_number(&of_own).await, 5);
    assert_eq!(world.sql_number("SELECT count(*) FROM letters").await, 5 + 7);
}
