//! The client of ACME authorities, against pebble with BIND as its DNS: every step of an order, and what else an
//! account can do.

use certs::{
    acme::{
        AcmeAuthority, AcmeError, AuthorityAccount, OrderProgress, ProblemKind, RevokeReason, key_and_request,
        with_next_key,
    },
    dns01::RecordWriter,
};
use config::acme::{AcmeDirectory, DnsChallengeConfig, ExternalAccount};
use db::certificates::challenges::ChallengeKind;
use tempfile::TempDir;

use crate::{
    BACKGROUND,
    world::{
        bind::Bind,
        eventually,
        pebble::{Faults, Pebble},
        ports,
    },
};

const ZONE: &str = "shop.example";

/// An authority, and the DNS that it asks.
struct Stage {
    pebble: Pebble,
    bind: Bind,
    authority: AcmeAuthority,
    _folder: TempDir,
}

impl Stage {
    async fn start(faults: Faults) -> Self {
        let folder = TempDir::new().unwrap();
        let bind = Bind::start(folder.path(), ZONE).await;
        let pebble = Pebble::prepare(folder.path(), faults.clone());
        let pebble = pebble.start(ports::free(), ports::free(), &bind.address()).await;
        let authority = authority(&pebble, faults.external_account);
        Self { pebble, bind, authority, _folder: folder }
    }

    /// Writes the records for an order by `dns-01`, and waits until the authority has seen them.
    async fn prove(&self, account: &AuthorityAccount, order: &str) {
        let dns = DnsChallengeConfig {
            rfc2136: serde_json::from_value(self.bind.rfc2136()).unwrap(),
            ..DnsChallengeConfig::default()
        };
        let writer = RecordWriter::from_config(&dns).unwrap().unwrap();
        let OrderProgress::Pending(authorizations) = account.order(order).await.unwrap() else {
            panic!("it is not pending")
        };
        for authorization in &authorizations {
            let offered = authorization.challenges.iter().find(|offered| offered.kind == ChallengeKind::Dns01).unwrap();
            let host = authorization.name.trim_start_matches("*.");
            writer.add(&format!("_acme-challenge.{host}"), &offered.record_value).await.unwrap();
        }
        for authorization in &authorizations {
            account.answer(order, &authorization.name, ChallengeKind::Dns01).await.unwrap();
        }
        eventually(BACKGROUND, "the names are proved", async || {
            matches!(account.order(order).await.unwrap(), OrderProgress::Ready)
        })
        .await;
    }

    /// Takes an order to its end. Returns the chain.
    async fn issue(&self, account: &AuthorityAccount, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let order = account.begin(&names, None).await.unwrap();
        self.prove(account, &order).await;
        let (_, request) = key_and_request(&names).unwrap();
        account.finalize(&order, &request).await.unwrap();
        eventually(BACKGROUND, "the certificate is made", async || {
            matches!(account.order(&order).await.unwrap(), OrderProgress::Valid)
        })
        .await;
        // As after a kill: what was done is not done again.
        account.finalize(&order, &request).await.unwrap();
        account.certificate(&order).await.unwrap()
    }
}

fn authority(pebble: &Pebble, external: Option<(String, String)>) -> AcmeAuthority {
    let directory = AcmeDirectory {
        directory_url: pebble.directory_url().parse().unwrap(),
        contact: Some("ops@example.com".to_owned()),
        ca_file: Some(pebble.ca_file()),
        external_account: external.map(|(key_id, hmac_key)| ExternalAccount { key_id, hmac_key }),
    };
    AcmeAuthority::new(&directory, "tlsserver").unwrap()
}

fn kind<T>(outcome: Result<T, AcmeError>) -> ProblemKind {
    match outcome.map(drop) {
        Err(AcmeError::Refused(problem)) => problem.kind,
        other => panic!("no refusal: {other:?}"),
    }
}

#[tokio::test]
async fn a_wildcard_and_its_parent_are_issued_though_half_the_nonces_are_refused() {
    let stage = Stage::start(Faults { bad_nonces: 50, ..Faults::default() }).await;
    let registered = stage.authority.register().await.unwrap();
    let account = stage.authority.account(&registered.credentials).await.unwrap();
    assert_eq!(account.url(), registered.url);
    let chain = stage.issue(&account, &[ZONE, "*.shop.example"]).await;
    assert!(chain.matches("BEGIN CERTIFICATE").count() >= 2, "{chain}");
    assert_eq!(account.renewal_info(&chain).await.unwrap(), None, "this pebble has no renewal information");
    account.revoke(&chain, Some(RevokeReason::Superseded)).await.unwrap();
    account.revoke(&chain, None).await.expect("it is revoked already");
}

#[tokio::test]
async fn an_accounts_key_is_changed_and_a_kill_in_between_loses_nothing() {
    let stage = Stage::start(Faults { bad_nonces: 20, ..Faults::default() }).await;
    let old = stage.authority.register().await.unwrap().credentials;
    let both = with_next_key(&old).unwrap();
    // Killed before the authority was told: the old key is good.
    let account = stage.authority.account(&both).await.unwrap();
    stage.issue(&account, &["a.shop.example"]).await;
    let new = stage.authority.finish_key_change(&both).await.unwrap();
    // Killed before the new one was stored alone: it is found to be the good one, and nothing is changed again.
    let account = stage.authority.account(&both).await.unwrap();
    stage.issue(&account, &["b.shop.example"]).await;
    assert_eq!(stage.authority.finish_key_change(&both).await.unwrap(), new);
    stage.authority.confirm(&new).await.unwrap();
    assert_eq!(kind(stage.authority.confirm(&old).await), ProblemKind::AccountGone);
    let account = stage.authority.account(&new).await.unwrap();
    account.deactivate().await.unwrap();
    assert_eq!(kind(stage.authority.confirm(&new).await), ProblemKind::AccountGone);
}

#[tokio::test]
async fn an_external_account_is_proved() {
    let known = ("kid-1".to_owned(), "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W".to_owned());
    let stage = Stage::start(Faults { external_account: Some(known.clone()), ..Faults::default() }).await;
    let registered = stage.authority.register().await.unwrap();
    let account = stage.authority.account(&registered.credentials).await.unwrap();
    stage.issue(&account, &["www.shop.example"]).await;
    let without = authority(&stage.pebble, None).register().await;
    assert_eq!(kind(without), ProblemKind::ExternalAccountRequired);
    let wrong = (known.0, known.1.replace('z', "y"));
    assert!(matches!(authority(&stage.pebble, Some(wrong)).register().await, Err(AcmeError::Refused(_))));
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_the_authoritys_words() {
    let mut stage = Stage::start(Faults::default()).await;
    let registered = stage.authority.register().await.unwrap();
    let account = stage.authority.account(&registered.credentials).await.unwrap();
    let names = ["wrong.shop.example".to_owned()];
    let order = account.begin(&names, None).await.unwrap();
    // No record stands there.
    account.answer(&order, &names[0], ChallengeKind::Dns01).await.unwrap();
    let mut problem = None;
    eventually(BACKGROUND, "the order fails", async || match account.order(&order).await.unwrap() {
        OrderProgress::Invalid(found) => {
            problem = Some(found);
            true
        }
        _ => false,
    })
    .await;
    let problem = problem.unwrap();
    assert!(problem.detail.contains("_acme-challenge.wrong.shop.example"), "{problem}");
    assert!(matches!(problem.kind, ProblemKind::Unauthorized | ProblemKind::Dns), "{problem:?}");
    let (_, request) = key_and_request(&names).unwrap();
    assert!(account.finalize(&order, &request).await.is_err());
    assert_eq!(kind(account.order(&format!("{order}x")).await), ProblemKind::OrderGone);

    stage.pebble.restart().await;
    assert_eq!(kind(stage.authority.confirm(&registered.credentials).await), ProblemKind::AccountGone);
    assert_eq!(kind(account.begin(&names, None).await), ProblemKind::AccountGone);
    stage.pebble.process.kill();
    let away = account.begin(&names, None).await.unwrap_err();
    assert!(matches!(away, AcmeError::Away(_)), "{away}");
}
