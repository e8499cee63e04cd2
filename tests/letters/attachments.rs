//! The documents of an invoice, attached to the letter about it.

use serde_json::json;

use super::{Post, subject};
use crate::world::mailbox::header;

#[tokio::test]
async fn an_invoice_is_attached_once_it_is_rendered() {
    let post = Post::start().await;
    let ada = post.world.user("ada").await;
    let id = ada.get("/me").await.ok()["id"].as_str().unwrap().to_owned();
    let content = json!({
        "kind": "invoice", "number": "2026-000001", "total": 2420, "plan": "Pro", "is_credit_note": false,
    });
    let body = "0".repeat(20);
    post.world
        .sql(&format!(
            "INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, created_at)
                  VALUES ('sub_{body}', '{id}', 'pro', 'active', now(), now(), now() + interval '1 month', now());
             INSERT INTO payments (id, account, subscription_id, sequence, period, plan, net_cents, vat_cents, total_cents, terms,
                                   state, provider, created_at, settled_at)
                  VALUES ('pay_{body}', '{id}', 'sub_{body}', 'first', 0, 'pro', 2000, 420, 2420, '{{}}', 'paid', 'play', now(),
                          now());
             INSERT INTO invoices (id, account, kind, number, year, sequence, payment_id, status, issued_at, net_cents,
                                   vat_cents, total_cents, content)
                  VALUES ('ivc_{body}', '{id}', 'invoice', '2026-000001', 2026, 1, 'pay_{body}', 'paid', now(), 2000, 420,
                          2420, '{{}}');
             INSERT INTO letters (id, event, recipient, account, kind, content, invoice_id, state, next_attempt_at, created_at)
                  VALUES ('eml_{body}', 'invoice/ivc_{body} ada@localhost', 'ada@localhost', '{id}', 'invoice', '{content}',
                          'ivc_{body}', 'waiting', now(), now())"
        ))
        .await;
    post.eventually("state = 'waiting' AND attempts = 0 AND next_attempt_at > created_at").await;
    assert!(post.mailbox.letters().await.is_empty());
    post.world
        .sql(&format!(
            "INSERT INTO invoice_documents (invoice_id, pdf, cii, ubl, rendered_at)
                  VALUES ('ivc_{body}', '%PDF-1.7 …', '<cii/>', '<ubl>€</ubl>', now())"
        ))
        .await;
    post.pass_time().await;
    let letters = post.letters(1).await;
    assert_eq!(subject(&letters[0]), "Invoice 2026-000001: €24.20");
    assert!(letters[0]["parts"]["text/plain"].as_str().unwrap().contains("your Pro plan has arrived"), "{letters:?}");
    assert!(letters[0]["parts"]["text/html"].as_str().unwrap().contains("€24.20"), "{letters:?}");
    let files = json!([
        { "name": "2026-000001.pdf", "type": "application/pdf", "content": "%PDF-1.7 …" },
        { "name": "2026-000001.xml", "type": "application/xml", "content": "<ubl>€</ubl>" },
    ]);
    assert_eq!(letters[0]["files"], files);
    // It is about money: nobody unsubscribes from it.
    assert!(header(&letters[0], "list-unsubscribe").is_empty());
    assert!(!letters[0]["parts"]["text/plain"].as_str().unwrap().contains("unsubscribe"), "{letters:?}");
}
