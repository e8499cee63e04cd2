use domain::{EmailAddress, LetterId, OrgId, UserId, limits::GB};

use super::*;
use crate::letter::{LetterFooter, RenderedLetter};

/// 23 November 2026, 05:08.
fn now() -> Timestamp {
    Timestamp::from_unix_millis(1_795_410_480_000)
}

fn row(account: Account, org: Option<&str>) -> TakenLetter {
    let recipient: EmailAddress = "ada@example.com".parse().unwrap();
    TakenLetter {
        id: LetterId::new(now()),
        recipient: recipient.as_str().to_owned(),
        account: Some(account),
        org: org.map(|org| org.parse().unwrap()),
        kind: "invoice".to_owned(),
        content: serde_json::Value::Null,
        invoice: None,
        attempts: 0,
        created_at: now(),
    }
}

fn rendered(notice: &Notice, row: &TakenLetter) -> RenderedLetter {
    compose_notice(notice, &LetterContext::from_row(row)).render(LetterFooter::new("Sent by svc.")).unwrap()
}

fn all() -> Vec<Notice> {
    let (plan, month) = ("Pro".to_owned(), Month::from_timestamp(now()));
    let domain: Hostname = "www.example.com".parse().unwrap();
    let label = Some("laptop".to_owned());
    vec![
        Notice::Invoice {
            number: "2026-000001".to_owned(),
            total: Cents(2_420),
            plan: plan.clone(),
            is_credit_note: false,
        },
        Notice::Invoice {
            number: "CN-2026-000001".to_owned(),
            total: Cents(2_420),
            plan: plan.clone(),
            is_credit_note: true,
        },
        Notice::PaymentFailed { plan: plan.clone(), total: Cents(2_420), next_attempt: Some(now()) },
        Notice::PaymentFailed { plan: plan.clone(), total: Cents(2_420), next_attempt: None },
        Notice::ChargedBack { number: "2026-000001".to_owned(), total: Cents(2_420) },
        Notice::SubscriptionEnded { plan: plan.clone(), is_unpaid: true },
        Notice::SubscriptionEnded { plan: plan.clone(), is_unpaid: false },
        Notice::PayerLeft { plan: plan.clone(), until: None },
        Notice::VatNumberInvalid { number: "NL123456789B01".parse().unwrap() },
        Notice::BandwidthReached { percent: 80, plan: plan.clone(), month, limit_bytes: 100 * GB, is_shared: false },
        Notice::BandwidthReached { percent: 100, plan: plan.clone(), month, limit_bytes: 100 * GB, is_shared: false },
        Notice::CreditReached { percent: 80, plan: plan.clone(), month, limit: Cents(100), is_shared: false },
        Notice::CreditReached { percent: 100, plan, month, limit: Cents(100), is_shared: false },
        Notice::DeploymentFailed {
            project: "engine".parse().unwrap(),
            commit: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
            reason: "the archive has no files.".to_owned(),
        },
        Notice::DomainTrouble { domain: domain.clone(), message: "CAA forbids it.".to_owned() },
        Notice::DomainMoved { domain, project: "engine".parse().unwrap() },
        Notice::TokenCreated { label: label.clone(), token_kind: TokenKind::Ai },
        Notice::TokenRevoked { label, token_kind: TokenKind::Deploy },
        Notice::SweepStopped { reason: "Too many packs are unknown.".to_owned(), detail: "30 of 60".to_owned() },
        Notice::ChangesLost {
            first: 80,
            last: 82,
            newest: 79,
            noted_at: now(),
            subjects: vec!["tok_00000000000000000tok".to_owned()],
        },
    ]
}

#[test]
fn letters_say_what_happened_what_it_means_and_what_to_do() {
    let user = row(Account::User(UserId::new(now())), None);
    let wanted: &[&[&str]] = &[
        &["Invoice 2026-000001: €24.20", "your Pro plan has arrived", "attached as a PDF", "svc billing invoices"],
        &["Credit note CN-2026-000001: €24.20", "given back", "attached as a PDF", "svc billing invoices"],
        &["The payment for your Pro plan failed", "tried again on 23 November 2026 (UTC)", "€24.20", "svc billing"],
        &["The payment for your Pro plan failed", "the last attempt", "nothing is deleted", "svc billing checkout"],
        &["The payment of invoice 2026-000001 was taken back", "€24.20", "counts as unpaid", "svc billing checkout"],
        &["Your Pro plan has ended", "because its charges failed", "Nothing was deleted", "svc billing plans"],
        &["Your Pro plan has ended", "as it was cancelled", "Nothing was deleted", "svc billing plans"],
        &["Your Pro plan has ended", "is no longer an owner", "Nothing is deleted", "svc billing checkout"],
        &["The VAT number NL123456789B01 is no longer known", "no longer knows", "svc billing details --vat"],
        &["80% of the bandwidth of November 2026 is used", "Nothing changes yet", "100 GB", "svc billing plans"],
        &["100% of the bandwidth of November 2026 is used", "more slowly, until 1 December 2026 (UTC)", "100 GB"],
        &["80% of the AI credit of November 2026 is used", "Nothing changes yet", "€1.00", "svc billing plans"],
        &["100% of the AI credit of November 2026 is used", "refuses further completions until 1 December 2026 (UTC)"],
        &[
            "A push to engine was not deployed",
            "The archive has no files.",
            "0123456789abcdef",
            "serves what it served before",
        ],
        &["www.example.com needs your attention", "CAA forbids it.", "svc domains doctor www.example.com"],
        &[
            "www.example.com is no longer attached to engine",
            "is theirs",
            "svc domains add www.example.com --project engine",
        ],
        &["A new token for your account", "laptop", "23 November 2026, 05:08 (UTC)", "revoke this one: svc tokens"],
        &["A token of your account was revoked", "laptop", "stopped working immediately", "svc tokens"],
        &["The sweep of the store has stopped", "Too many packs", "30 of 60", "Nothing was moved", "admin store sweep"],
        &["The database has lost changes", "Changes 80 to 82", "tok_00000000000000000tok", "admin lost-changes"],
    ];
    let all = all();
    assert_eq!(all.len(), wanted.len());
    for (notice, wanted) in all.iter().zip(wanted) {
        let RenderedLetter { subject, text, html } = rendered(notice, &user);
        assert_eq!(subject, wanted[0], "{notice:?}");
        for part in &wanted[1..] {
            assert!(text.contains(part), "{part} is not in {text}");
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(!text.contains("--org") && !text.contains("the organization acme"), "{text}");
        if let Some(folder) = std::env::var_os("SVC_TEST_PICTURES") {
            let name = format!("{}-{}", notice.kind().as_str(), subject.replace(['/', ' '], "-"));
            std::fs::write(std::path::PathBuf::from(folder).join(format!("{name}.html")), html).unwrap();
        }
    }
}

#[test]
fn letters_of_an_organization_name_it() {
    let account = || Account::Org(OrgId::new(now()));
    for notice in all() {
        let RenderedLetter { text, .. } = rendered(&notice, &row(account(), Some("acme")));
        if matches!(
            notice,
            Notice::DeploymentFailed { .. }
                | Notice::DomainTrouble { .. }
                | Notice::DomainMoved { .. }
                | Notice::SweepStopped { .. }
                | Notice::ChangesLost { .. }
        ) {
            continue;
        }
        assert!(text.contains("--org acme"), "{text}");
        assert!(text.contains("the organization acme"), "{text}");
        // The organization may be deleted by the time the letter is composed.
        let RenderedLetter { text, .. } = rendered(&notice, &row(account(), None));
        assert!(!text.contains("--org") && text.contains("your organization"), "{text}");
    }
}

#[test]
fn what_people_have_chosen_stays_text() {
    let hostile = "</td><script>alert(1)</script> \"&";
    let label = Some(hostile.to_owned());
    let user = row(Account::User(UserId::new(now())), None);
    for notice in [
        Notice::TokenCreated { label: label.clone(), token_kind: TokenKind::Cli },
        Notice::TokenRevoked { label, token_kind: TokenKind::Cli },
        Notice::DomainTrouble { domain: "a.example".parse().unwrap(), message: hostile.to_owned() },
        Notice::DeploymentFailed {
            project: "engine".parse().unwrap(),
            commit: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
            reason: hostile.to_owned(),
        },
    ] {
        let RenderedLetter { subject, text, html } = rendered(&notice, &user);
        assert!(text.contains(hostile), "{text}");
        assert!(!html.contains("<script") && html.contains("&#60;script&#62;"), "{html}");
        assert!(!subject.contains("script"), "{subject}");
    }
}

#[test]
fn a_kept_notice_is_read_again() {
    for notice in all() {
        let kept = serde_json::to_value(&notice).unwrap();
        assert_eq!(kept["kind"], notice.kind().as_str());
        assert_eq!(serde_json::from_value::<Notice>(kept).unwrap(), notice);
    }
}
