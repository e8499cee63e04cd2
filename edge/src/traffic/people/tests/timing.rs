//! The time that counting takes of an answer.

use std::{hint::black_box, time::Instant};

use http::{HeaderMap, HeaderName, Method, Uri, header, uri::PathAndQuery};

use super::*;
use crate::traffic::{Claim, Memo};

/// What Chromium calls itself.
const CHROMIUM: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const ROUNDS: u32 = 1_000_000;

/// Prints the time that an answer takes to be counted, by who asked.
#[test]
#[ignore = "a figure"]
#[expect(clippy::print_stdout, reason = "it is what the test is for")]
fn time_of_counting() {
    let scene = Scene::new();
    let kind = ClientKind { class: VisitorClass::AiTraining, agent: agents::find("GPTBot"), evidence: Evidence::Name };
    scene.page(1, "/");
    scene.part(1);
    let style = Visit::of(scene.visitor(1), "/style.css", Purpose::Part, Served::Part);
    for (what, visit) in [
        ("an agent's page", Visit::of(Who::Known(kind), "/", PAGE, WITH_PARTS)),
        ("a person's page", Visit::of(scene.visitor(1), "/", PAGE, WITH_PARTS)),
        ("a person's file", style),
    ] {
        let country = scene.traffic.country(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (host, path): (Arc<str>, PathAndQuery) = (OWN.into(), visit.uri.parse().unwrap());
        let started = Instant::now();
        for _ in 0..ROUNDS {
            let client = Client { who: visit.who, purpose: visit.purpose, referer: None };
            let (site, host, path) = (scene.site.clone(), host.clone(), Some(path.clone()));
            let mut body = SiteBody::empty();
            body.serve(visit.served);
            let requested = Requested { site, host, country, path, client };
            drop(scene.traffic.follow(requested, Response::new(body), |_, host| host == OWN));
        }
        println!("{what}: {:?}", started.elapsed() / ROUNDS);
    }
    let value = HeaderValue::from_static;
    let browser = HeaderMap::from_iter([
        (header::USER_AGENT, value(CHROMIUM)),
        (header::ACCEPT, value("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")),
        (header::ACCEPT_LANGUAGE, value("en")),
        (HeaderName::from_static("sec-fetch-dest"), value("document")),
        (HeaderName::from_static("sec-fetch-mode"), value("navigate")),
        (HeaderName::from_static("sec-fetch-site"), value("none")),
    ]);
    let program = HeaderMap::from_iter([(header::USER_AGENT, value("curl/8.5.0")), (header::ACCEPT, value("*/*"))]);
    for (what, headers) in [("a browser", browser), ("a program", program)] {
        let (memo, method, uri, host) = (Memo::default(), Method::GET, Uri::from_static("/"), OWN);
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let started = Instant::now();
        for _ in 0..ROUNDS {
            let claim = Claim { method: &method, uri: &uri, host, headers: &headers, address, tls: true };
            black_box(scene.traffic.client(&claim, &memo, &scene.site.project).agent());
        }
        println!("to tell {what}: {:?}", started.elapsed() / ROUNDS);
    }
}
