//! The tokens that people granted at the code host: stored sealed, renewed in time, never shown.

use std::future::IntoFuture as _;

use super::scene::Scene;
use crate::stubs::codehost::CodeHost;

#[tokio::test]
async fn a_token_that_ends_is_renewed_once_by_many_at_once() {
    let scene = Scene::start().await;
    scene.host.install(7, "acme", "Organization", &["mona"]);
    scene.host.expire_tokens();
    let mona = scene.sign_in("mona").await;
    mona.get("/vcs").await.ok();
    assert_eq!(scene.host.refreshed(), 0, "it is good for hours");
    for round in 1..=2 {
        scene.world.sql("UPDATE code_host_grants SET expires_at = now() - interval '1 second'").await;
        let calls = (0..12).map(|_| mona.get("/vcs").into_future());
        for answer in futures_util::future::join_all(calls).await {
            answer.ok();
        }
        assert_eq!(scene.host.refreshed(), round, "a refresh token works once");
    }
}

#[tokio::test]
async fn who_took_the_grant_back_is_asked_to_sign_in_again() {
    let scene = Scene::start().await;
    scene.host.install(7, "acme", "Organization", &["mona"]);
    scene.host.expire_tokens();
    let mona = scene.sign_in("mona").await;
    scene.host.revoke_everything();
    let message = mona.get("/vcs").await.assert_error(502, "code_host_error");
    assert!(message.contains("svc login"), "{message}");
    scene.world.sql("UPDATE code_host_grants SET expires_at = now()").await;
    let message = mona.get("/vcs").await.assert_error(502, "code_host_error");
    assert!(message.contains("svc login"), "{message}");
    // Signing in again mends it, for the tokens of ours that there are already too.
    scene.sign_in("mona").await;
    mona.get("/vcs").await.ok();
}

#[tokio::test]
async fn tokens_are_sealed_and_stand_in_no_log() {
    let scene = Scene::start().await;
    scene.host.install(7, "acme", "Organization", &["mona"]);
    scene.host.expire_tokens();
    let mona = scene.sign_in("mona").await;
    mona.get("/vcs").await.ok();
    scene.world.sql("UPDATE code_host_grants SET expires_at = now()").await;
    mona.get("/vcs").await.ok();
    scene.host.revoke_everything();
    mona.get("/vcs").await.assert_status(502);
    let log = scene.world.admin.log() + &scene.world.edge().process.log();
    for prefix in CodeHost::TOKEN_PREFIXES {
        assert!(!log.contains(prefix), "a token in the log");
        let readable =
            format!("SELECT count(*) FROM code_host_grants WHERE position('{prefix}'::bytea IN sealed_tokens) > 0");
        assert_eq!(scene.world.sql_number(&readable).await, 0);
    }
    assert_eq!(scene.world.sql_number("SELECT count(*) FROM code_host_grants").await, 1);
}
