//! Letters about money, while the mail server accepts none.

use std::time::Duration;

use db::letters;
use domain::{billing::Cents, token::TokenKind};
use mail::{
    kinds::LetterKind,
    notices::{Notice, notify},
};

use super::{Bench, DAY};

#[tokio::test]
async fn letters_about_money_wait_as_long_as_it_takes() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    let failed = Notice::PaymentFailed { plan: "Pro".into(), total: Cents(2_420), next_attempt: None };
    let token = Notice::TokenCreated { label: None, token_kind: TokenKind::Cli };
    let begun = bench.now();
    let mut conn = bench.app.db.acquire().await.unwrap();
    for (event, notice) in [("payment_failed/1", &failed), ("token_created/1", &token)] {
        notify(&mut conn, &account, event, notice, None, begun).await.unwrap();
    }
    drop(conn);
    let (db, kept) = (&bench.app.db, LetterKind::about_money());
    let give_up =
        async || letters::give_up_stale(db, bench.now(), bench.now() - DAY * 7, &kept, "age", 10).await.unwrap();
    bench.pass(DAY * 6);
    assert_eq!(give_up().await, 0);
    bench.pass(DAY * 2);
    assert_eq!(give_up().await, 1);
    bench.pass(DAY * 300);
    assert_eq!(give_up().await, 0);
    let waiting = letters::count_pending(db, &kept).await.unwrap();
    assert_eq!((waiting.count, waiting.oldest, waiting.oldest_kept), (1, Some(begun), Some(begun)));
    let now = bench.now();
    let due = letters::take_due(db, now, now + Duration::from_mins(1), 10).await.unwrap();
    assert_eq!((due.len(), &*due[0].kind), (1, "payment_failed"));
    bench.stop().await;
}
