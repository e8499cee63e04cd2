//! `Last-Modified` and date conditions. A date is sent only where it tells two contents of an address apart.

use http::Request;

use super::*;

const HOUR_BEFORE: &str = "Fri, 15 Jan 2027 07:00:00 GMT";

#[tokio::test]
async fn only_an_address_whose_content_is_its_own_has_a_date() {
    let paths = ["index.html", "a.html", "b", "b.html", "de.html", "docs/index.html", "x.css"];
    let redirects = "/ /de.html 200 Language=de\n/q id=1 /a.html 200\n/alias /a.html 200\n/any/* /a.html 200\n\
                     /at /a.html 200 Country=at\n/gone /a.html 410\n/off /a.html 404\n";
    let world = World::new(Folder::of(&paths).redirects(redirects));
    for (target, language, has_date) in [
        ("/a", "", true),
        ("/x.css", "", true),
        ("/docs/", "", true),
        ("/", "en", true),
        // The same address, possibly with the same date.
        ("/", "de", false),
        ("/b", "", false),
        ("/q?id=1", "", false),
        ("/alias", "", false),
        ("/any/thing", "", false),
        ("/gone", "", false),
        ("/off", "", false),
        ("/a.html", "", false),
        ("/route", "", false),
    ] {
        let ask = || Request::get(target).header("accept-language", language);
        let first = world.send(ask()).await;
        assert_eq!(first.header("last-modified"), if has_date { PUBLISHED } else { "" }, "{target} {language}");
        let again = world.send(ask().header("if-modified-since", PUBLISHED)).await;
        let expected = if has_date { 304 } else { first.status.as_u16() };
        assert_eq!(again.status.as_u16(), expected, "{target} {language}");
        if first.status == 200 {
            let tag = first.header("etag");
            assert_eq!(world.send(ask().header("if-none-match", tag)).await.status, 304, "{target} {language}");
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_by_dates_follows_a_rollback() {
    let mut world = World::new(Folder::default().with("price.txt", "100").older("price.txt", 3_600));
    let before = world.site.deployment.clone();
    world.site.deployment = Some(world.publish(Folder::default().with("price.txt", "1 (mistake)")));
    let mistake = world.get("/price.txt").await.header("last-modified").to_owned();
    assert_eq!(mistake, PUBLISHED);
    world.site.deployment = before;
    let ask = |name: &str, date: &str| Request::get("/price.txt").header(name, date);
    assert_eq!(world.send(ask("if-modified-since", &mistake)).await.brief(), (200, "100"));
    assert_eq!(world.send(ask("if-modified-since", HOUR_BEFORE)).await.status, 304);
    for name in ["if-range", "if-unmodified-since"] {
        for (date, expected) in [(&*mistake, (200, "100")), (HOUR_BEFORE, (206, "00"))] {
            let part = world.send(ask(name, date).header("range", "bytes=1-")).await;
            assert_eq!(part.brief(), expected, "{name}: {date}");
        }
    }
}

#[tokio::test]
async fn a_date_that_is_still_to_come_is_not_said_yet() {
    let world = World::new(Folder::of(&["x.css"]));
    *world.time.lock().unwrap() = Timestamp::from_unix_millis(NOW - 1_000);
    let early = world.get("/x.css").await;
    assert_eq!((early.header("last-modified"), early.header("etag").is_empty()), ("", false));
    assert_eq!(world.send(Request::get("/x.css").header("if-modified-since", PUBLISHED)).await.status, 200);
    *world.time.lock().unwrap() = now();
    assert_eq!(world.get("/x.css").await.header("last-modified"), PUBLISHED);
}

#[tokio::test]
async fn a_date_does_not_tell_forms_apart() {
    let folder = Folder::of(&["app.js", "one.js"]).variant("app.js", Encoding::Br, "br");
    let world = World::new(folder);
    for (target, expected) in [("/app.js", 200), ("/one.js", 206)] {
        let ask = Request::get(target).header("range", "bytes=0-1").header("if-range", PUBLISHED);
        assert_eq!(world.send(ask).await.status.as_u16(), expected, "{target}");
    }
}
