//! Signing in by the code host's web flow.

use reqwest::Method;

use super::{SESSION, github, leave_for_github, login, say};
use crate::{
    stubs::codehost::{CLIENT_ID, Step, web::CLIENT_SECRET},
    world::{
        World,
        person::{Page, Person},
    },
};

/// Where the code host would lead the person who says yes, without going there.
async fn callback(person: &Person, question: &Page) -> String {
    let forms = crate::world::form::Form::all(&question.answer.text());
    let fields = forms[0].filled(&[], "1");
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let target = question.url.join(&forms[0].action).unwrap();
    person.request(Method::POST, target.as_str()).form(&fields).await.assert_status(303).header("location").to_owned()
}

#[tokio::test]
async fn github_signs_a_person_in() {
    let (host, world) = github().await;
    host.sign_in(42, "ada", None);
    let person = world.person();
    person.visit(&world.console_url("/sign-in")).await.assert_says("Continue with GitHub");
    let question = leave_for_github(&world, &person, "/").await;
    question.assert_says("Authorize svc").assert_says("prompt=<");
    let (_, cookie) = &question.cookies_set()[0];
    assert!(
        cookie.starts_with("__Host-svc-sign-in=") && cookie.contains("; Secure; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    let home = say(&person, &question, true).await;
    home.assert_at(200, &world.console_url("/")).assert_says("Hello, ada").assert_says("ada@github.example");
    let set: Vec<_> = home.cookies_set().into_iter().map(|(_, cookie)| cookie).collect();
    assert!(set.iter().any(|cookie| cookie.starts_with(SESSION)), "{set:?}");
    assert_eq!(login(&person).await.as_deref(), Some("ada"));
    assert_eq!(world.sql_number("SELECT count(*) FROM sign_ins").await, 0);
    // The device page, and with it the operator's secret, is the local kind's alone.
    let form = person.request(Method::POST, &world.console_url("/sign-in")).header("origin", world.console_url(""));
    form.form(&[("login", "mallory"), ("secret", CLIENT_SECRET)]).await.assert_status(404);
    let switching = person.visit(&world.console_url("/sign-in/code-host?switch=1")).await;
    switching.assert_says("prompt=select_account");
}

#[tokio::test]
async fn without_an_application_everything_but_signing_in_works() {
    let world = World::builder().set("CODE_HOST__KIND", "github").set("CODE_HOST__CLIENT_SECRET", "").start().await;
    world.nobody().get("/health").await.assert_status(200);
    let page = world.person().visit(&world.console_url("/sign-in")).await;
    assert_eq!(page.answer.status, 503);
    page.assert_says("Not set up yet").assert_says("code_host.client_id");
    let begun = world.person().visit(&world.console_url("/sign-in/code-host")).await;
    assert_eq!(begun.answer.status, 404);
    let message = world.nobody().post("/auth/device").await.assert_error(502, "code_host_error");
    assert!(message.contains("not set up") && message.contains("code_host.client_id"), "{message}");
    assert!(world.admin.log().contains("nobody can sign in"));
}

#[tokio::test]
async fn without_the_applications_secret_the_page_says_so() {
    let world = World::builder().set("CODE_HOST__KIND", "github").set("CODE_HOST__CLIENT_ID", CLIENT_ID);
    let world = world.set("CODE_HOST__CLIENT_SECRET", "").start().await;
    let page = world.person().visit(&world.console_url("/sign-in")).await;
    assert_eq!(page.answer.status, 503);
    page.assert_says("svc login");
}

#[tokio::test]
async fn whoever_says_no_at_github_is_not_signed_in() {
    let (_host, world) = github().await;
    let person = world.person();
    let question = leave_for_github(&world, &person, "/").await;
    let page = say(&person, &question, false).await;
    assert_eq!(page.answer.status, 403);
    page.assert_says("You said no at GitHub").assert_says("Try again");
    assert_eq!(login(&person).await, None);
    assert_eq!(world.sql_number("SELECT count(*) FROM sign_ins").await, 0);
}

#[tokio::test]
async fn a_return_from_github_counts_once_in_the_browser_that_left() {
    let (_host, world) = github().await;
    let (person, other) = (world.person(), world.person());
    // Login CSRF: a stranger's return, opened in this browser.
    let question = leave_for_github(&world, &other, "/").await;
    let theirs = callback(&other, &question).await;
    let tricked = person.visit(&theirs).await;
    assert_eq!(tricked.answer.status, 400);
    tricked.assert_says("Please sign in again");
    assert_eq!(login(&person).await, None);
    // Presented once, it is worth nothing to the stranger either.
    assert_eq!(other.visit(&theirs).await.answer.status, 400);
    // The same with a cookie of another sign-in.
    leave_for_github(&world, &person, "/").await;
    let question = leave_for_github(&world, &other, "/").await;
    assert_eq!(person.visit(&callback(&other, &question).await).await.answer.status, 400);

    // Used twice.
    let question = leave_for_github(&world, &person, "/").await;
    let back = callback(&person, &question).await;
    person.visit(&back).await.assert_says("Hello, octocat");
    assert_eq!(person.visit(&back).await.answer.status, 400);
    // Too late.
    let late = world.person();
    let question = leave_for_github(&world, &late, "/").await;
    let back = callback(&late, &question).await;
    world.sql("UPDATE sign_ins SET expires_at = now()").await;
    assert_eq!(late.visit(&back).await.answer.status, 400);
    // Another code, or another state.
    let question = leave_for_github(&world, &late, "/").await;
    let back: url::Url = callback(&late, &question).await.parse().unwrap();
    let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let forged = late.visit(&world.console_url(&format!("/sign-in/callback?code=made-up&state={state}"))).await;
    assert_eq!(forged.answer.status, 400);
    for query in ["", "?code=x", "?state=", "?state=%2F&code=x", &format!("?code=x&state={}", "A".repeat(43))] {
        let answer = late.visit(&world.console_url(&format!("/sign-in/callback{query}"))).await.answer;
        assert_eq!(answer.status, 400, "{query}");
    }
    assert_eq!(login(&late).await, None);
    // The code of one sign-in with the state of another: the verifier does not fit.
    let [one, two] = [leave_for_github(&world, &late, "/").await, leave_for_github(&world, &late, "/").await];
    let [one, two] =
        [callback(&late, &one).await, callback(&late, &two).await].map(|url| url.parse::<url::Url>().unwrap());
    let value = |url: &url::Url, name: &str| url.query_pairs().find(|(n, _)| n == name).unwrap().1.into_owned();
    let mixed = format!("/sign-in/callback?code={}&state={}", value(&one, "code"), value(&two, "state"));
    assert_eq!(late.visit(&world.console_url(&mixed)).await.answer.status, 400);
    assert_eq!(login(&late).await, None);
}

#[tokio::test]
async fn several_tabs_sign_in_at_once() {
    let (_host, world) = github().await;
    let person = world.person();
    let one = leave_for_github(&world, &person, "/one").await;
    let two = leave_for_github(&world, &person, "/two").await;
    let one = say(&person, &one, true).await;
    one.assert_at(404, &world.console_url("/one"));
    say(&person, &two, true).await.assert_at(404, &world.console_url("/two"));
    assert_eq!(login(&person).await.as_deref(), Some("octocat"));
    assert_eq!(world.sql_number("SELECT count(*) FROM sessions").await, 1);
}

#[tokio::test]
async fn github_in_trouble_is_said_kindly() {
    let (host, world) = github().await;
    let person = world.person();
    for step in [Step::Broken, Step::Garbage] {
        host.set(Step::Approved);
        let question = leave_for_github(&world, &person, "/").await;
        let back = callback(&person, &question).await;
        host.set(step);
        let page = person.visit(&back).await;
        assert_eq!(page.answer.status, 502);
        page.assert_says("The code host does not answer as it should");
    }
    assert_eq!(login(&person).await, None);
}
