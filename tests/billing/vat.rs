//! `PUT /billing/profile`, `PUT /orgs/:name/billing/profile`, and the job that checks VAT numbers again.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    BACKGROUND,
    stubs::vies::{Says, Vies},
    world::{Actor, Builder, World, answer::Answer, eventually},
};

const GERMAN: &str = "DE123456789";
const DUTCH: &str = "NL123456789B01";
const SELLER: &str = "NL999999999B99";
const ACME: Says = Says::Valid("ACME GMBH", "HAUPTSTRASSE 1\n10115 BERLIN");

/// A registry, and a world that asks it in the name of [`SELLER`].
async fn start() -> (Vies, World) {
    let vies = Vies::start().await;
    let seller = json!({
        "name": "Svc BV", "address": ["Keizersgracht 1"], "postcode": "1016 AA", "city": "Amsterdam",
        "vat_number": SELLER,
    });
    let world = asking(&vies).set("BILLING__SELLER", seller).start().await;
    (vies, world)
}

fn asking(vies: &Vies) -> Builder {
    World::builder().set("BILLING__VIES_URL", &vies.url)
}

async fn save(actor: &Actor, body: &Value) -> Answer {
    actor.put("/billing/profile").json(body).await
}

/// Details with a VAT number.
fn with_number(country: &str, number: &str) -> Value {
    json!({ "name": "Acme GmbH", "country": country, "vat_number": number })
}

/// A column of the one profile in the world.
async fn column(world: &World, name: &str) -> String {
    world.sql_text(&format!("SELECT coalesce(({name})::text, 'null') FROM billing_profiles")).await
}

async fn profiles(world: &World) -> i64 {
    world.sql_number("SELECT count(*) FROM billing_profiles").await
}

/// Makes every number due, and returns once each was checked.
async fn check_again(world: &World) {
    world.sql("UPDATE billing_profiles SET vat_next_check = 'epoch' WHERE vat_number IS NOT NULL").await;
    let running = "SELECT count(*) FROM job_leases WHERE job = 'check VAT numbers' AND leased_until IS NOT NULL";
    let due = "SELECT count(*) FROM billing_profiles WHERE vat_next_check = 'epoch'";
    eventually(BACKGROUND, "the numbers are taken", async || world.sql_number(due).await == 0).await;
    eventually(BACKGROUND, "the job has ended", async || world.sql_number(running).await == 0).await;
}

#[tokio::test]
async fn details_are_stored_and_replaced_as_a_whole() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    let address = json!({ "lines": ["Keizersgracht 1", "2nd floor"], "postcode": "1016 AA", "city": "Amsterdam" });
    let whole = json!({ "name": " Ada Lovelace ", "country": "NL", "address": address });
    let stored = save(&ada, &whole).await.ok();
    let expected = json!({
        "name": "Ada Lovelace", "country": "NL", "vat_number": null, "vat_valid": null, "address": address,
    });
    assert_eq!(stored, expected);
    let stored = save(&ada, &json!({ "name": "Ada", "country": "US", "vat_number": null, "address": null })).await.ok();
    let expected = json!({ "name": "Ada", "country": "US", "vat_number": null, "vat_valid": null, "address": null });
    assert_eq!(stored, expected);
    assert_eq!((profiles(&world).await, vies.asked()), (1, vec![]));
    let bob = world.user("bob").await;
    save(&bob, &whole).await.ok();
    assert_eq!(profiles(&world).await, 2, "everybody has details of their own");
}

#[tokio::test]
async fn a_number_that_somebody_has_is_stored_with_the_proof() {
    let (vies, world) = start().await;
    vies.set(GERMAN, ACME);
    let ada = world.user("ada").await;
    let stored = save(&ada, &with_number("DE", "de 123 456.789")).await.ok();
    assert_eq!((&stored["vat_number"], &stored["vat_valid"]), (&json!(GERMAN), &json!(true)));
    let asked = vies.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].number.as_str(), asked[0].requester.as_deref()), (GERMAN, Some(SELLER)));
    for (name, value) in [
        ("vat_consultation", "WAPI123456789"),
        ("vat_name", "ACME GMBH"),
        ("vat_address", "HAUPTSTRASSE 1, 10115 BERLIN"),
        ("vat_checked_at > now() - interval '1 minute'", "true"),
        ("vat_next_check BETWEEN now() + interval '26 days' AND now() + interval '28 days'", "true"),
    ] {
        assert_eq!(column(&world, name).await, value, "{name}");
    }
    // An answer of the same day is believed, whatever else changes; and a registry that fails meanwhile does no harm.
    vies.set(GERMAN, Says::UserError("SERVICE_UNAVAILABLE"));
    let renamed = json!({ "name": "Acme AG", "country": "DE", "vat_number": GERMAN });
    let stored = save(&ada, &renamed).await.ok();
    assert_eq!((&stored["name"], &stored["vat_valid"]), (&json!("Acme AG"), &json!(true)));
    assert_eq!((vies.asked().len(), column(&world, "vat_consultation").await.as_str()), (1, "WAPI123456789"));
    // Later it is asked again; while it does not answer, what it said last stays.
    world.sql("UPDATE billing_profiles SET vat_checked_at = now() - interval '25 hours'").await;
    assert_eq!(save(&ada, &with_number("DE", GERMAN)).await.ok()["vat_valid"], true);
    assert_eq!(vies.asked().len(), 2);
    // Without the number, nothing of it is kept.
    let stored = save(&ada, &json!({ "name": "Acme AG", "country": "DE" })).await.ok();
    assert_eq!((&stored["vat_number"], &stored["vat_valid"]), (&Value::Null, &Value::Null));
    for name in ["vat_number", "vat_status", "vat_consultation", "vat_name", "vat_next_check"] {
        assert_eq!(column(&world, name).await, "null", "{name}");
    }
}

#[tokio::test]
async fn states_with_a_prefix_of_their_own_are_asked_about_by_it() {
    let vies = Vies::start().await;
    let world = asking(&vies).start().await;
    vies.set_all(Says::Valid("---", "---"));
    let ada = world.user("ada").await;
    for (country, written, number) in [
        ("GR", "GR 123456789", "EL123456789"),
        ("XI", "XI123456789", "XI123456789"),
        ("MC", "FR12345678901", "FR12345678901"),
    ] {
        let stored = save(&ada, &with_number(country, written)).await.ok();
        assert_eq!((&stored["vat_number"], &stored["vat_valid"]), (&json!(number), &json!(true)));
        let last = vies.asked().pop().unwrap();
        assert_eq!((last.number.as_str(), last.requester), (number, None), "there is no seller to ask for");
        assert_eq!(
            (column(&world, "vat_name").await, column(&world, "vat_consultation").await),
            ("null".into(), "null".into())
        );
    }
}

#[tokio::test]
async fn an_unknown_number_is_refused_and_nothing_is_stored() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    for says in [
        Says::Unknown,
        Says::UserError("INVALID_INPUT"),
        Says::Wrapped(200, "INVALID_INPUT"),
        Says::Wrapped(400, "INVALID_INPUT"),
    ] {
        vies.set(GERMAN, says);
        let message = save(&ada, &with_number("DE", GERMAN)).await.assert_error(400, "vat_number_not_found");
        assert!(message.contains(GERMAN) && message.contains("vat_number"), "{message}");
    }
    assert_eq!(profiles(&world).await, 0);
    // Nor does it take the place of details that are there.
    vies.set(GERMAN, ACME);
    save(&ada, &with_number("DE", GERMAN)).await.ok();
    save(&ada, &with_number("NL", DUTCH)).await.assert_error(400, "vat_number_not_found");
    assert_eq!(column(&world, "vat_number").await, GERMAN);
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_503_and_nothing_is_stored() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    for says in [
        Says::UserError("SERVICE_UNAVAILABLE"),
        Says::UserError("GLOBAL_MAX_CONCURRENT_REQ"),
        Says::UserError("GLOBAL_MAX_CONCURRENT_REQ_TIME"),
        Says::UserError("IP_BLOCKED"),
        Says::UserError("SOMETHING_NEW"),
        Says::Wrapped(200, "GLOBAL_MAX_CONCURRENT_REQ"),
        Says::Wrapped(500, "SERVICE_UNAVAILABLE"),
        Says::Raw(200, ""),
        Says::Raw(200, "<html>Maintenance</html>"),
        Says::Raw(200, "{}"),
        Says::Raw(200, r#"{"actionSucceed": false}"#),
        Says::Raw(302, r#"{"valid": false}"#),
        Says::Raw(429, r#"{"valid": false}"#),
        Says::Raw(500, r#"{"valid": false}"#),
        Says::Huge,
    ] {
        vies.set(GERMAN, says);
        let answer = save(&ada, &with_number("DE", GERMAN)).await;
        assert_eq!(answer.header("retry-after"), "60", "{says:?}");
        let message = answer.assert_error(503, "vat_registry_unavailable");
        assert!(message.contains("vat_number"), "{message}");
    }
    assert_eq!(profiles(&world).await, 0);
    // Without the number, everything is as ever.
    save(&ada, &json!({ "name": "Acme GmbH", "country": "DE" })).await.ok();
}

#[tokio::test]
async fn a_silent_and_an_absent_registry_are_given_up() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    vies.set(GERMAN, Says::Silence);
    save(&ada, &with_number("DE", GERMAN)).await.assert_error(503, "vat_registry_unavailable");
    drop(vies);
    save(&ada, &with_number("DE", GERMAN)).await.assert_error(503, "vat_registry_unavailable");
    assert_eq!(profiles(&world).await, 0);
}

/// Has the registry asked about many numbers at a time, which it is slow about. Each time it is for another account of hers.
fn flood(mallory: &Actor, orgs: &[&str]) -> JoinSet<StatusCode> {
    let mut asking = JoinSet::new();
    for number in 0..40 {
        let (mallory, body) = (mallory.clone(), with_number("DE", &format!("DE1000000{number:02}")));
        let path = match orgs.get(number % (orgs.len() + 1)) {
            Some(org) => format!("/orgs/{org}/billing/profile"),
            None => "/billing/profile".to_owned(),
        };
        asking.spawn(async move { mallory.put(&path).json(&body).await.status });
    }
    asking
}

#[tokio::test]
async fn one_person_with_many_numbers_keeps_nobody_from_theirs() {
    let (vies, world) = start().await;
    vies.set_all(Says::Silence);
    vies.set(GERMAN, ACME);
    let (ada, mallory) = (world.user("ada").await, world.user("mallory").await);
    let orgs = ["one", "two", "three"];
    for org in orgs {
        mallory.create_org(org).await;
    }
    let hers = || vies.asked().iter().filter(|asked| asked.number.starts_with("DE1000000")).count();
    let mut asking = flood(&mallory, &orgs);
    eventually(BACKGROUND, "the registry is asked about her numbers", async || hers() == 2).await;
    assert_eq!(save(&ada, &with_number("DE", GERMAN)).await.ok()["vat_valid"], true);
    // A job that checks numbers again has its own turns.
    check_again(&world).await;
    assert_eq!(hers(), 2, "two of hers at a time, whichever account they are for");
    // What is too much is refused without waiting: by the hour, or at a time.
    let mut refused = Vec::new();
    while refused.len() < 34 {
        refused.push(asking.join_next().await.unwrap().unwrap().as_u16());
    }
    assert!(refused.iter().all(|status| [429, 503].contains(status)), "{refused:?}");
    assert_eq!(refused.iter().filter(|status| **status == 429).count(), 20, "{refused:?}");
    save(&mallory, &with_number("DE", GERMAN)).await.assert_error(429, "rate_limit_exceeded");
    save(&mallory, &json!({ "name": "Mallory", "country": "DE" })).await.ok();
    asking.abort_all();
}

#[tokio::test]
async fn a_state_that_does_not_answer_leaves_the_number_pending_until_it_does() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    for (number, says) in [
        ("DE111111111", Says::UserError("MS_UNAVAILABLE")),
        ("DE222222222", Says::UserError("MS_MAX_CONCURRENT_REQ")),
        ("DE333333333", Says::UserError("TIMEOUT")),
        (GERMAN, Says::Wrapped(200, "MS_UNAVAILABLE")),
    ] {
        vies.set(number, says);
        let stored = save(&ada, &with_number("DE", number)).await.ok();
        assert_eq!((&stored["vat_number"], &stored["vat_valid"]), (&json!(number), &Value::Null), "{says:?}");
    }
    assert_eq!(column(&world, "vat_status").await, "pending");
    assert_eq!(column(&world, "vat_next_check < now() + interval '1 minute'").await, "true");
    // Silence is no answer, however often.
    check_again(&world).await;
    check_again(&world).await;
    assert_eq!(
        (column(&world, "vat_status").await, column(&world, "vat_failures").await),
        ("pending".into(), "3".into())
    );
    vies.set(GERMAN, ACME);
    check_again(&world).await;
    assert_eq!(
        (column(&world, "vat_status").await, column(&world, "vat_failures").await),
        ("valid".into(), "0".into())
    );
    assert_eq!(column(&world, "vat_consultation").await, "WAPI123456789");
    assert_eq!(world.sql_number("SELECT count(*) FROM letters").await, 0, "nobody waits for good news");
}

#[tokio::test]
async fn a_busy_registry_is_asked_once_more_and_a_refused_seller_is_left_out() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    vies.set_next(GERMAN, &[Says::UserError("MS_MAX_CONCURRENT_REQ"), ACME]);
    assert_eq!(save(&ada, &with_number("DE", GERMAN)).await.ok()["vat_valid"], true);
    assert_eq!(vies.asked().len(), 2);
    vies.accept_requester("BE0123456789");
    vies.set("DE111111111", ACME);
    assert_eq!(save(&ada, &with_number("DE", "DE111111111")).await.ok()["vat_valid"], true);
    let requesters: Vec<_> = vies.asked().into_iter().skip(2).map(|asked| asked.requester).collect();
    assert_eq!(requesters, [Some(SELLER.to_owned()), None]);
    assert_eq!(column(&world, "vat_consultation").await, "null", "nobody in particular has asked");
}

#[tokio::test]
async fn what_is_wrong_with_details_is_said() {
    let (vies, world) = start().await;
    let ada = world.user("ada").await;
    let lines =
        |lines: Value| json!({ "name": "A", "country": "NL", "address": { "lines": lines, "city": "Amsterdam" } });
    for (body, wanted) in [
        (json!({ "country": "NL" }), "`name` is missing"),
        (json!({ "name": "A" }), "`country` is missing"),
        (json!({ "name": " ", "country": "NL" }), "`name`: must be one line of 1 to 100 characters"),
        (json!({ "name": "a\nb", "country": "NL" }), "`name`: must be one line"),
        (json!({ "name": "A", "country": "nl" }), "country must be a two-letter code of ISO 3166, such as NL"),
        (json!({ "name": "A", "country": "EL" }), "country must be a two-letter code"),
        (with_number("NL", "123"), "vat_number must begin with the prefix of an EU member state"),
        (with_number("CH", "CHE123456789"), "vat_number must begin with the prefix"),
        (with_number("NL", "NL12345"), "vat_number must have the form of NL numbers, such as NL123456789B01"),
        (with_number("FR", GERMAN), "`vat_number` begins with DE, but numbers of `country` FR begin with FR"),
        (with_number("GR", GERMAN), "numbers of `country` GR begin with EL"),
        (with_number("US", GERMAN), "`country` US has no EU VAT numbers"),
        (with_number("GB", "XI123456789"), "`country` GB has no EU VAT numbers"),
        (lines(json!([])), "lines must be 1 to 3 lines of text"),
        (lines(json!(["a", "b", "c", "d"])), "lines must be 1 to 3 lines of text"),
        (lines(json!([""])), "must be one line of 1 to 100 characters"),
        (json!({ "name": "A", "country": "NL", "address": { "lines": ["a"] } }), "`city` is missing"),
    ] {
        let message = save(&ada, &body).await.assert_error(400, "invalid_request");
        assert!(message.contains(wanted), "{body}: {message}");
    }
    assert_eq!((profiles(&world).await, vies.asked()), (0, vec![]), "the registry is asked last");
}

#[tokio::test]
async fn an_orgs_details_are_its_owners_matter() {
    let (vies, world) = start().await;
    vies.set(GERMAN, ACME);
    let staff = world.staffed_org("acme").await;
    let outsider = world.user("outsider").await;
    let put =
        async |actor: &Actor| actor.put(&staff.org.path("/billing/profile")).json(&with_number("DE", GERMAN)).await;
    put(&outsider).await.assert_error(404, "not_found");
    put(&staff.member).await.assert_error(403, "forbidden");
    put(&staff.admin).await.assert_error(403, "forbidden");
    put(&world.nobody()).await.assert_error(401, "unauthorized");
    assert_eq!((profiles(&world).await, vies.asked()), (0, vec![]), "who may not, asks nobody");
    let stored = put(&staff.owner).await.ok();
    assert_eq!((&stored["name"], &stored["vat_valid"]), (&json!("Acme GmbH"), &json!(true)));
    let log = staff.owner.get(&staff.org.path("/audit")).await.ok();
    assert_eq!(log["entries"][0]["action"], "billing.profile");
    assert_eq!(log["entries"][0]["detail"], json!({ "country": "DE", "vat_number": GERMAN, "vat_status": "valid" }));
    // A person's own details are another matter.
    save(&staff.owner, &json!({ "name": "Ada", "country": "NL" })).await.ok();
    assert_eq!(profiles(&world).await, 2);
}

#[tokio::test]
async fn a_number_that_became_invalid_is_marked_and_its_owners_are_told_once() {
    let (vies, world) = start().await;
    vies.set(GERMAN, ACME);
    let org = world.acme().await;
    let path = org.path("/billing/profile");
    assert_eq!(org.owner.put(&path).json(&with_number("DE", GERMAN)).await.ok()["vat_valid"], true);
    world.sql("UPDATE users SET email = 'owner@example.com'").await;
    vies.set(GERMAN, Says::Unknown);
    check_again(&world).await;
    assert_eq!(
        (column(&world, "vat_status").await, column(&world, "vat_consultation").await),
        ("invalid".into(), "null".into())
    );
    check_again(&world).await;
    let letters = "SELECT count(*) FROM letters WHERE kind = 'vat_number_invalid' AND recipient = 'owner@example.com'
                   AND content->>'number' = 'DE123456789'";
    assert_eq!(world.sql_number(letters).await, 1);
    let log = org.owner.get(&org.path("/audit")).await.ok();
    let newest = &log["entries"][0];
    assert_eq!((&newest["action"], &newest["actor"]["kind"]), (&json!("billing.vat_status"), &json!("platform")));
    assert_eq!(newest["detail"], json!({ "vat_number": GERMAN, "from": "valid", "to": "invalid" }));
    // The same number again is refused, until somebody has it.
    org.owner.put(&path).json(&with_number("DE", GERMAN)).await.assert_error(400, "vat_number_not_found");
    vies.set(GERMAN, ACME);
    assert_eq!(org.owner.put(&path).json(&with_number("DE", GERMAN)).await.ok()["vat_valid"], true);
    assert_eq!(world.sql_number("SELECT count(*) FROM letters").await, 1);
}

#[tokio::test]
async fn a_confirmation_lapses_after_two_months_of_silence_and_no_earlier() {
    let (vies, world) = start().await;
    vies.set(GERMAN, ACME);
    let ada = world.user("ada").await;
    save(&ada, &with_number("DE", GERMAN)).await.ok();
    vies.set(GERMAN, Says::Raw(500, ""));
    for (days, status) in [(59, "valid"), (61, "pending")] {
        world.sql(&format!("UPDATE billing_profiles SET vat_checked_at = now() - interval '{days} days'")).await;
        check_again(&world).await;
        assert_eq!(column(&world, "vat_status").await, status, "{days} days");
    }
    assert_eq!(column(&world, "vat_consultation").await, "WAPI123456789", "the last answer is still proved");
    assert_eq!(world.sql_number("SELECT count(*) FROM letters").await, 0);
}

#[tokio::test]
async fn the_number_of_a_deleted_org_is_checked_no_more() {
    let (vies, world) = start().await;
    vies.set(GERMAN, ACME);
    let org = world.acme().await;
    org.owner.put(&org.path("/billing/profile")).json(&with_number("DE", GERMAN)).await.ok();
    org.owner.delete(&org.path("")).await.ok();
    check_again(&world).await;
    assert_eq!(
        (column(&world, "vat_next_check").await, column(&world, "vat_status").await),
        ("null".into(), "valid".into())
    );
}

#[tokio::test]
async fn numbers_are_checked_before_their_accounts_are_charged() {
    let (vies, mut world) = start().await;
    vies.set_all(ACME);
    for (login, digit) in [("soon", 1), ("later", 2), ("ending", 3), ("silent", 4)] {
        let person = world.user(login).await;
        save(&person, &with_number("DE", &format!("DE{}", digit.to_string().repeat(9)))).await.ok();
    }
    world
        .sql(
            "UPDATE billing_profiles SET vat_checked_at = now() - interval '3 days';
             UPDATE billing_profiles SET vat_failures = 1, vat_next_check = now() + interval '1 hour'
                 WHERE vat_number = 'DE444444444';
             INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end,
                                        cancel_at_period_end, next_attempt_at, created_at)
                 SELECT 'sub_' || substr(id, 5), id, 'pro', 'active', now(), now(), at, vcs_login = 'ending', at, now()
                 FROM users, LATERAL (SELECT now() + CASE vcs_login WHEN 'later' THEN interval '3 days'
                                                                     ELSE interval '20 hours' END AS at) AS charge",
        )
        .await;
    world.restart_admin_later().await;
    let checked = "SELECT count(*) FROM billing_profiles WHERE vat_checked_at > now() - interval '1 hour'";
    eventually(BACKGROUND, "a number is checked", async || world.sql_number(checked).await > 0).await;
    // All are made due by one statement: the others would be under way, or checked.
    let due = "SELECT count(*) FROM billing_profiles WHERE vat_next_check < now() + interval '30 minutes'";
    assert_eq!((world.sql_number(due).await, world.sql_number(checked).await), (0, 1));
    assert_eq!(vies.asked().pop().unwrap().number, "DE111111111");
}
