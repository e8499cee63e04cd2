//! Requests as real browsers send them are classified as browsers; a field that no browser sends gives a program away.

use super::*;

const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const EDGE: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
                    Safari/537.36 Edg/142.0.0.0";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
     Version/26.1 Safari/605.1.15";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                      Version/26.1 Mobile/15E148 Safari/604.1";
const BRANDS: &str = "\"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\", \"Not_A Brand\";v=\"99\"";
const PAGES: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const ENGLISH: (&str, &str) = ("accept-language", "en-GB,en;q=0.9");

fn navigation(user_agent: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut fields = vec![
        ("user-agent", user_agent),
        ("accept", PAGES),
        ENGLISH,
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-user", "?1"),
        ("sec-fetch-dest", "document"),
        ("upgrade-insecure-requests", "1"),
    ];
    if user_agent.contains("Chrome/") {
        fields.push(("sec-ch-ua", BRANDS));
    }
    fields
}

/// Replaces the value of a field, or removes it.
fn with(
    mut fields: Vec<(&'static str, &'static str)>,
    name: &str,
    value: Option<&'static str>,
) -> Vec<(&'static str, &'static str)> {
    match value {
        Some(value) => fields.iter_mut().filter(|field| field.0 == name).for_each(|field| field.1 = value),
        None => fields.retain(|field| field.0 != name),
    }
    fields
}

#[test]
fn browsers_of_these_days_are_browsers() {
    for user_agent in [CHROME, EDGE, FIREFOX, SAFARI, IPHONE] {
        assert_eq!(judged(&navigation(user_agent)), ClientVerdict::Browser, "{user_agent}");
        let part = |mode, dest| {
            let fields = with(with(navigation(user_agent), "sec-fetch-mode", Some(mode)), "sec-fetch-dest", Some(dest));
            with(with(fields, "sec-fetch-user", None), "accept", Some("*/*"))
        };
        for (mode, dest) in [
            ("no-cors", "script"),
            ("no-cors", "image"),
            ("cors", "font"),
            ("cors", "empty"),
            ("same-origin", "worker"),
        ] {
            assert_eq!(judged(&part(mode, dest)), ClientVerdict::Browser, "{user_agent} {mode} {dest}");
        }
        // A form submission, and a navigation that a service worker passes on.
        assert_eq!(judged_of(&Method::POST, true, &navigation(user_agent)), ClientVerdict::Browser);
        assert_eq!(judged(&with(navigation(user_agent), "sec-fetch-dest", Some("empty"))), ClientVerdict::Browser);
    }
}

#[test]
fn over_plain_http_browsers_say_less() {
    for user_agent in [CHROME, FIREFOX, SAFARI] {
        let fields = [("user-agent", user_agent), ("accept", PAGES), ENGLISH];
        assert_eq!(judged_of(&Method::GET, false, &fields), ClientVerdict::Browser, "{user_agent}");
        assert_eq!(judged(&fields), ClientVerdict::Automation, "over TLS they say more: {user_agent}");
    }
}

#[test]
fn old_and_other_browsers_are_asked_for_nothing() {
    for user_agent in [
        "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/49.0.2623.112 Safari/537.36",
        "Mozilla/5.0 (Windows NT 6.1; rv:52.0) Gecko/20100101 Firefox/52.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/12.1.2 Mobile/15E148 \
         Safari/604.1",
        "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
        "Mozilla/5.0 (Linux; Android 12; SM-G975N; wv) AppleWebKit/537.36 (KHTML, like Gecko) \
         Version/4.0 Chrome/126.0.0.0 Mobile \
         Safari/537.36",
        "Mozilla/5.0 (Linux; U; Android 13) AppleWebKit/537.36 (KHTML, like Gecko) \
         Version/4.0 Chrome/123.0.0.0 UCBrowser/15.0 Mobile \
         Safari/537.36",
        "Opera/9.80 (J2ME/MIDP; Opera Mini/8.0.35626/19.886; U; ru)",
        "Lynx/2.8.9rel.1 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.6.5",
    ] {
        assert_eq!(
            judged(&[("user-agent", user_agent), ("accept", PAGES), ENGLISH]),
            ClientVerdict::Browser,
            "{user_agent}"
        );
    }
    // An icon, and the rest of a download.
    let icon = [("user-agent", SAFARI), ("accept", "*/*"), ENGLISH];
    assert_eq!(judged(&icon), ClientVerdict::Browser);
    assert_eq!(judged(&[("user-agent", CHROME), ("accept", "*/*"), ("range", "bytes=5-")]), ClientVerdict::Browser);
}

#[test]
fn fields_that_no_browser_sends_give_a_program_away() {
    let chrome = || navigation(CHROME);
    for (what, fields) in [
        ("no language", with(chrome(), "accept-language", None)),
        ("no purpose", chrome().into_iter().filter(|field| !field.0.starts_with("sec-fetch")).collect()),
        ("half a purpose", with(chrome(), "sec-fetch-mode", None)),
        ("a navigation to an image", with(chrome(), "sec-fetch-dest", Some("image"))),
        ("a document that is a part", with(chrome(), "sec-fetch-mode", Some("no-cors"))),
        ("a headless brand", with(chrome(), "sec-ch-ua", Some("\"HeadlessChrome\";v=\"142\", \"Chromium\";v=\"142\""))),
        ("another version", with(chrome(), "sec-ch-ua", Some("\"Chromium\";v=\"118\", \"Google Chrome\";v=\"118\""))),
        ("Firefox without a purpose", vec![("user-agent", FIREFOX), ("accept", "*/*"), ENGLISH]),
        ("Firefox with brands", with(chrome(), "user-agent", Some(FIREFOX))),
        ("Safari with brands", with(chrome(), "user-agent", Some(SAFARI))),
        ("nothing at all", Vec::new()),
    ] {
        assert_eq!(judged(&fields), ClientVerdict::Automation, "{what}");
    }
    assert_eq!(judged_of(&Method::HEAD, true, &chrome()), ClientVerdict::Automation);
}

#[test]
fn a_name_counts_whatever_the_fields_are() {
    let ClientVerdict::Agent { agent, evidence } = judged(&[("user-agent", "curl/8.10.1")]) else { panic!("no agent") };
    assert_eq!((agent.name, evidence), ("curl", ClassEvidence::Name));
}

#[test]
fn what_is_remembered_of_a_name_is_not_said_of_another() {
    let agents = AgentRegistry::new(Clock::system());
    for _ in 0..2 {
        for (user_agent, is_browser) in [(FIREFOX, true), ("curl/8.10.1", false), (SAFARI, true)] {
            let headers = headers(&navigation(user_agent));
            let judgement = agents.judge(&claim(&headers), &ClientFields::from_headers(&headers));
            assert_eq!(judgement == ClientVerdict::Browser, is_browser, "{user_agent}");
        }
    }
}

fn claim(headers: &HeaderMap) -> ClientClaim<'_> {
    static ROOT: std::sync::LazyLock<Uri> = std::sync::LazyLock::new(|| Uri::from_static("/"));
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    ClientClaim { method: &Method::GET, uri: &ROOT, host: "engine.example", headers, address, tls: true }
}
