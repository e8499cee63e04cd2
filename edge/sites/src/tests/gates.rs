//! The gate before a site.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::access::SitePassword;
use http::Request;
use http_types::reserved::FORM_PATH;
use limits::GUESSES_PER_MINUTE;
use secrets::passwords;

use super::*;

fn gated() -> World {
    let mut world = World::new(Folder::of(&["index.html", "404.html", "x"]));
    let password = SitePassword::try_from("open sesame".to_owned()).unwrap();
    world.site.gate = SiteGate::Password(passwords::hash(&password).unwrap().into());
    world
}

fn form() -> Builder {
    Request::post(FORM_PATH).header("content-type", "application/x-www-form-urlencoded")
}

fn basic(target: &str, password: &str) -> Builder {
    let credentials = STANDARD.encode(format!("anyone:{password}"));
    Request::get(target).header("authorization", format!("Basic {credentials}"))
}

fn with_cookie(target: &str, answer: &Answer) -> Builder {
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    Request::get(target).header("cookie", cookie)
}

#[tokio::test]
async fn strangers_see_the_form_and_nothing_else() {
    let world = gated();
    for target in ["/", "/x", "/missing", "/%zz", "/index.html", FORM_PATH] {
        let page = world.navigate(target).await;
        assert_eq!(page.brief(), (401, "our page"), "{target}");
        assert!(page.body.contains("<form method=\"post\" action=\"/.svc/gate\">"), "{target}");
        assert_eq!(page.header("www-authenticate"), "", "browsers would ask in a dialogue of their own");
        assert_eq!(page.header("cache-control"), "private, no-store");
        let script = world.get(target).await;
        assert_eq!((script.brief(), script.body.as_str()), ((401, "our page"), page.body.as_str()), "{target}");
        assert!(script.header("www-authenticate").starts_with("Basic "));
    }
    let page = world.navigate("/a\"b?c='d'&e").await;
    assert!(page.body.contains("name=\"return\" value=\"/a&#34;b?c=&#39;d&#39;&#38;e\""), "{}", page.body);
    let put = world.send(Request::put("/x")).await;
    assert_eq!(put.status, 401);
}

#[tokio::test]
async fn the_password_opens_the_site_until_it_changes() {
    let mut world = gated();
    let welcome = world.send_with(form(), "return=%2Fx%3Fa%3D1&password=open+sesame").await;
    assert_eq!((welcome.status.as_u16(), welcome.header("location")), (303, "/x?a=1"));
    assert_eq!(welcome.header("cache-control"), "private, no-store");
    for (target, expected) in
        [("/x", (200, "<x>")), ("/missing", (404, "<404.html>")), ("/index.html", (308, "/")), (FORM_PATH, (303, "/"))]
    {
        let inside = world.send(with_cookie(target, &welcome)).await;
        assert_eq!(inside.brief(), expected, "{target}");
        assert_eq!(inside.header("cache-control"), "private, no-store", "{target}");
    }
    let unchanged = world.send(with_cookie("/x", &welcome).header("if-none-match", "*")).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.header("cache-control")), (304, "private, no-store"));
    world.site.access_version += 1;
    assert_eq!(world.send(with_cookie("/x", &welcome)).await.status, 401);
}

#[tokio::test]
async fn a_wrong_form_is_refused() {
    let world = gated();
    let wrong = world.send_with(form(), "return=/x&password=open").await;
    assert_eq!((wrong.status.as_u16(), wrong.header("set-cookie")), (401, ""));
    assert!(wrong.body.contains("That is not the password") && wrong.body.contains("value=\"/x\""));
    assert_eq!(world.send_with(form(), "").await.status, 401);
    assert_eq!(world.send_with(form(), &"x".repeat(5000)).await.status, 413);
    assert_eq!(world.send_with(Request::post(FORM_PATH), "password=open+sesame").await.status, 415);
    let elsewhere = world.send_with(form(), "return=https://evil.example/&password=open+sesame").await;
    assert_eq!((elsewhere.status.as_u16(), elsewhere.header("location")), (303, "/"));
    let slashes = world.send_with(form(), "return=//evil.example/&password=open+sesame").await;
    assert_eq!(slashes.header("location"), "/");
}

#[tokio::test]
async fn scripts_send_the_password_with_each_request() {
    let mut world = gated();
    let inside = world.send(basic("/x", "open sesame")).await;
    assert_eq!(inside.brief(), (200, "<x>"));
    assert_eq!((inside.header("set-cookie"), inside.header("cache-control")), ("", "private, no-store"));
    let wrong = world.send(basic("/x", "open").header("accept", "text/html")).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.header("www-authenticate").starts_with("Basic "));
    // Right passwords are remembered and do not count as guesses.
    for _ in 0..2 * GUESSES_PER_MINUTE {
        assert_eq!(world.send(basic("/x", "open sesame")).await.status, 200);
    }
    world.site.access_version += 1;
    world.site.gate = SiteGate::Password("another hash".into());
    assert_eq!(world.send(basic("/x", "open sesame")).await.status, 401);
    let other_scheme = Request::get("/x").header("authorization", "Bearer open sesame");
    assert_eq!(world.send(other_scheme).await.status, 401);
}

#[tokio::test]
async fn guesses_are_limited() {
    let mut world = gated();
    world.site.gate = SiteGate::Password("a hash that nothing matches, and that costs nothing".into());
    for _ in 0..GUESSES_PER_MINUTE {
        assert_eq!(world.send_with(form(), "password=guess").await.status, 401);
    }
    for answer in [world.send_with(form(), "password=guess").await, world.send(basic("/x", "guess")).await] {
        assert_eq!(answer.status, 429);
        assert!((1..=60).contains(&answer.header("retry-after").parse().unwrap()));
        assert_eq!(answer.header("cache-control"), "private, no-store");
    }
    world.visit.client = [192, 0, 2, 2].into();
    assert_eq!(world.send_with(form(), "password=guess").await.status, 401);
}

#[tokio::test]
async fn gated_sites_are_for_https_only_and_fail_closed() {
    let mut world = gated();
    world.visit.tls = false;
    let plain = world.send(basic("/x?a=1", "open sesame")).await;
    assert_eq!((plain.status.as_u16(), plain.header("location")), (308, "https://site.svc.test:8443/x?a=1"));
    world.visit.public_port = None;
    assert_eq!(world.get("//x").await.header("location"), "https://site.svc.test//x");
    world.visit.tls = true;
    world.site.gate = SiteGate::Org(OrgId::new(now()));
    assert_eq!(world.send(basic("/x", "open sesame")).await.brief(), (401, "our page"));
}

#[tokio::test]
async fn a_password_is_hashed_when_there_is_memory_for_it() {
    let world = gated();
    let all = world.budget.common_account().try_take(world.budget.limits().total).unwrap();
    let refused = world.send(basic("/x", "open sesame")).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, "5"));
    drop(all);
    assert_eq!(world.send(basic("/x", "open sesame")).await.brief(), (200, "<x>"));
    assert_eq!(world.budget.used(), 0);
}

#[tokio::test]
async fn a_browser_is_never_told_to_ask_in_its_own_dialogue() {
    let world = gated();
    let wrong =
        |request: Builder| request.header("authorization", format!("Basic {}", STANDARD.encode("anyone:wrong")));
    for (dest, mode, site) in [
        ("document", "navigate", "none"),
        ("document", "navigate", "cross-site"),
        ("iframe", "navigate", "cross-site"),
        ("empty", "cors", "same-origin"),
        ("empty", "no-cors", "cross-site"),
        ("script", "cors", "same-origin"),
        ("script", "no-cors", "cross-site"),
        ("image", "no-cors", "same-origin"),
        ("image", "no-cors", "same-site"),
        ("font", "cors", "cross-site"),
        ("video", "no-cors", "same-origin"),
        ("serviceworker", "same-origin", "same-origin"),
    ] {
        let ask = || {
            Request::get("/x")
                .header("sec-fetch-dest", dest)
                .header("sec-fetch-mode", mode)
                .header("sec-fetch-site", site)
        };
        for (request, has_form) in [(ask(), true), (ask().header("authorization", "Bearer x"), mode == "navigate")] {
            let answer = world.send(request).await;
            assert_eq!((answer.status.as_u16(), answer.header("www-authenticate")), (401, ""), "{dest} {mode} {site}");
            assert_eq!(answer.body.contains("<form"), has_form, "{dest} {mode} {site}");
        }
    }
    let remembered = wrong(Request::get("/x")).header("sec-fetch-mode", "navigate");
    let answer = world.send(remembered).await;
    assert!(answer.header("www-authenticate").is_empty() && answer.body.contains("<form"), "{}", answer.body);
    for request in [Request::get("/x"), Request::get("/x").header("accept", "*/*"), wrong(Request::get("/x"))] {
        assert!(world.send(request).await.header("www-authenticate").starts_with("Basic "), "a program");
    }
}

#[tokio::test]
async fn right_passwords_do_not_count_as_guesses() {
    let world = gated();
    let right = || world.send_with(form(), "password=open+sesame");
    for n in 0..2 * GUESSES_PER_MINUTE {
        assert_eq!(right().await.status, 303, "the {n}th visitor of a classroom");
    }
    assert_eq!(world.send_with(form(), "password=guess").await.status, 401);
    assert_eq!(right().await.status, 303);
}

/// A client guesses at the sites of many accounts, and waits only for itself.
#[tokio::test]
async fn a_client_that_guesses_at_many_accounts_sites_does_not_delay_others() {
    let mut world = gated();
    let victim = world.visit.clone();
    world.visit.client = [192, 0, 2, 66].into();
    let guess = async |site: &Site, visit: &Visit, password: &str| {
        let (head, body) = basic("/x", password).body(Full::new(Bytes::new())).unwrap().into_parts();
        world.sites.respond(&head, body, visit, site).await.status()
    };
    let sites: Vec<_> = (0..12)
        .map(|n| Site {
            project: ProjectId::new(now()),
            owner: format!("usr_00000000000000000a{n:02}").parse::<domain::UserId>().unwrap().into(),
            ..world.site.clone()
        })
        .collect();
    let guessed = AtomicUsize::new(0);
    let attack = futures_util::future::join_all(sites.iter().map(async |site| {
        guess(site, &world.visit, "wrong").await;
        guessed.fetch_add(1, Ordering::SeqCst);
    }));
    let visit = async {
        // After the attack: each of its guesses has begun to wait when this one begins.
        tokio::task::yield_now().await;
        let status = guess(&world.site, &victim, "open sesame").await;
        (status, guessed.load(Ordering::SeqCst))
    };
    let (_, (status, before)) = tokio::join!(attack, visit);
    assert_eq!(status, StatusCode::OK);
    // In line behind the others it would come last. On a busy machine some of theirs are computed meanwhile.
    assert!(before < sites.len() - 2, "{before} guesses of another client came first");
}
