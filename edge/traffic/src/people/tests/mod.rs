//! Visitors are classified by what they do, and every response is counted exactly once.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use domain::{
    Clock, ProjectId, SiteGate, SiteKind,
    traffic::{AgentKey, HourTraffic, TrafficEntryKind, agents, hour_start, sketch::VisitorSketch},
};
use http::{HeaderValue, Response};
use http_types::{ServedKind, SiteBody};

use super::{
    client::{ClientIdentity, FetchPurpose, RequestClient},
    *,
};
use crate::{AgentRegistry, CountedRequest, TrafficCounter};

const OWN: &str = "engine.example";
const PAGE: FetchPurpose = FetchPurpose::Page { has_copy: false };
const WITH_PARTS: ServedKind = ServedKind::Page { loads_parts: true };
const WITHOUT_PARTS: ServedKind = ServedKind::Page { loads_parts: false };

/// Traffic with a clock that the test controls.
struct Scene {
    traffic: &'static TrafficCounter,
    millis: &'static AtomicU64,
    site: Arc<Site>,
}

#[derive(Clone)]
struct Visit {
    who: ClientIdentity,
    uri: String,
    purpose: FetchPurpose,
    served: ServedKind,
    status: u16,
    referer: Option<&'static str>,
    is_disallowed: bool,
    bytes: usize,
}

impl Visit {
    fn of(who: ClientIdentity, uri: &str, purpose: FetchPurpose, served: ServedKind) -> Self {
        Self { who, uri: uri.into(), purpose, served, status: 200, referer: None, is_disallowed: false, bytes: 0 }
    }
}

impl Scene {
    /// Starts at noon, with the salt that all edges share.
    fn new() -> Self {
        let millis: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_800_014_400_000)));
        let now = || Timestamp::from_unix_millis(i64::try_from(millis.load(Ordering::Relaxed)).unwrap());
        let clock = Clock::from_fn(now);
        let traffic = TrafficCounter::new(1, None, AgentRegistry::new(clock.clone()), clock).unwrap();
        traffic.salts.share(now().as_datetime().date(), &[7; limits::SALT_BYTES]);
        let site = Site {
            project: ProjectId::from_body("00000000000000000001").unwrap(),
            deployment: None,
            live: None,
            kind: SiteKind::Live,
            gate: SiteGate::Public,
            access_version: 1,
            expires_at: None,
            suspended: None,
            owner: "usr_00000000000000000ada".parse::<domain::Account>().unwrap().into(),
            bandwidth_used_up: None,
        };
        let scene = Self { traffic, millis, site: Arc::new(site) };
        scene.collect();
        scene
    }

    fn pass(&self, time: Duration) {
        self.millis.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    fn visitor(&self, number: u32) -> ClientIdentity {
        let address = IpAddr::V4(Ipv4Addr::from_bits(number));
        ClientIdentity::Browser(self.traffic.salts.visitor(&self.site.project, address, b"Mozilla/5.0"))
    }

    fn visit(&self, visit: &Visit) {
        let Visit { who, uri, purpose, served, status, referer, is_disallowed, bytes } = visit.clone();
        let mut body = SiteBody::from(Bytes::from(vec![7; bytes]));
        body.set_served(served);
        if is_disallowed {
            body.disallow();
        }
        let client = RequestClient { who, purpose, referer: referer.map(HeaderValue::from_static) };
        let country = self.traffic.country(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (site, path) = (self.site.clone(), Some(uri.parse().unwrap()));
        let requested = CountedRequest { site, host: OWN.into(), country, path, client };
        let answer = Response::builder().status(status).body(body).unwrap();
        if let Some(receipt) = self.traffic.follow(requested, &answer, |_, host| host == OWN) {
            let mut body = receipt.into_counted(answer.into_body());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            while body.left() > 0 {
                assert!(body.poll_next(&mut cx, 1_000).is_ready());
            }
        }
    }

    fn page(&self, visitor: u32, uri: &str) {
        self.visit(&Visit::of(self.visitor(visitor), uri, PAGE, WITH_PARTS));
    }

    fn part(&self, visitor: u32) {
        self.visit(&Visit::of(self.visitor(visitor), "/style.css", FetchPurpose::Part, ServedKind::Part));
    }

    fn collect(&self) -> Counted {
        self.counted(self.traffic.take().collect())
    }

    fn collect_last(&self) -> Counted {
        self.counted(self.traffic.take_last().collect())
    }

    fn counted(&self, counts: Vec<crate::ShardCounts>) -> Counted {
        let hour = hour_start(self.traffic.clock.now());
        Counted(self.traffic.collection(counts, hour).traffic.pop())
    }
}

struct Counted(Option<HourTraffic>);

impl Counted {
    fn of(&self, kind: TrafficEntryKind) -> BTreeMap<&str, u64> {
        let entries = self.0.iter().flat_map(|part| &part.entries).filter(|entry| entry.kind == kind);
        entries.map(|entry| (&*entry.key, entry.count.requests)).collect()
    }

    fn classes(&self) -> Vec<(&str, u64)> {
        self.of(TrafficEntryKind::Agent).into_iter().collect()
    }

    fn views(&self) -> Vec<(&str, u64)> {
        self.of(TrafficEntryKind::View).into_iter().collect()
    }

    fn pageviews(&self) -> u64 {
        self.0.as_ref().map_or(0, |part| part.sums.pageviews)
    }

    fn visitors(&self) -> usize {
        self.0.as_ref().map_or(0, |part| part.visitors.len())
    }
}

const PERSON: &str = "person\t\tbehaviour";
const LIKELY: &str = "person\t\tfields";
const AUTOMATION: &str = "automation\t\tbehaviour";

#[test]
fn who_loads_a_part_of_a_page_is_a_person_for_the_rest_of_the_day() {
    let scene = Scene::new();
    scene.page(1, "/about?x=1");
    let waiting = scene.collect();
    assert_eq!((waiting.classes(), waiting.pageviews()), (vec![], 0));
    assert_eq!(waiting.0.as_ref().unwrap().sums.requests, 1, "the answer itself counts at once");
    scene.part(1);
    let judged = scene.collect();
    assert_eq!(judged.classes(), [(PERSON, 2)]);
    assert_eq!(judged.views(), [("/about\t\tXX\tengine.example", 1)]);
    assert_eq!((judged.pageviews(), judged.visitors()), (1, 1));
    scene.pass(Duration::from_hours(5));
    scene.page(1, "/");
    let later = scene.collect();
    assert_eq!((later.classes(), later.pageviews(), later.visitors()), (vec![(PERSON, 1)], 1, 0));
    // On the next day it is a new visitor.
    scene.pass(Duration::from_hours(12));
    scene.collect();
    scene.traffic.salts.share(scene.traffic.clock.now().as_datetime().date(), &[8; limits::SALT_BYTES]);
    scene.page(1, "/");
    assert_eq!(scene.collect().classes(), []);
    scene.part(1);
    assert_eq!(scene.collect().visitors(), 1);
}

#[test]
fn who_loads_no_part_in_time_is_a_program_until_it_does() {
    let scene = Scene::new();
    scene.page(1, "/a");
    scene.page(1, "/b");
    scene.visit(&Visit::of(scene.visitor(1), "/data.json", FetchPurpose::Other, ServedKind::Other));
    let moment = Duration::from_millis(1);
    scene.pass(limits::PARTS_WITHIN.saturating_sub(moment));
    assert_eq!(scene.collect().classes(), []);
    scene.pass(moment);
    let judged = scene.collect();
    assert_eq!(judged.classes(), [(AUTOMATION, 3)]);
    assert_eq!((judged.views(), judged.pageviews(), judged.visitors()), (vec![], 0, 0));
    assert_eq!(judged.of(TrafficEntryKind::AgentPage), BTreeMap::from([("", 2)]));
    scene.page(1, "/c");
    assert_eq!(scene.collect().classes(), [(AUTOMATION, 1)], "at once, now that it is known");
    scene.part(1);
    scene.page(1, "/d");
    let corrected = scene.collect();
    assert_eq!((corrected.classes(), corrected.pageviews(), corrected.visitors()), (vec![(PERSON, 2)], 1, 1));
}

#[test]
fn pages_of_which_nothing_need_be_loaded_are_judged_by_the_request() {
    let scene = Scene::new();
    let (one, other) = (scene.visitor(1), scene.visitor(2));
    scene.visit(&Visit::of(one, "/plain", PAGE, WITHOUT_PARTS));
    scene.visit(&Visit { status: 304, ..Visit::of(other, "/", FetchPurpose::Page { has_copy: true }, WITH_PARTS) });
    scene.visit(&Visit::of(one, "/plain", PAGE, WITHOUT_PARTS));
    let counted = scene.collect();
    assert_eq!((counted.classes(), counted.pageviews(), counted.visitors()), (vec![(LIKELY, 3)], 3, 2));
    // Not views: another status, another method or purpose, no page.
    scene.visit(&Visit { status: 206, ..Visit::of(one, "/", PAGE, WITHOUT_PARTS) });
    scene.visit(&Visit { status: 404, ..Visit::of(one, "/", PAGE, WITHOUT_PARTS) });
    scene.visit(&Visit::of(one, "/", FetchPurpose::Other, WITHOUT_PARTS));
    scene.visit(&Visit::of(one, "/data.json", PAGE, ServedKind::Other));
    let counted = scene.collect();
    assert_eq!((counted.classes(), counted.pageviews()), (vec![(LIKELY, 4)], 0));
}

#[test]
fn who_takes_many_pages_and_no_part_is_not_waited_for() {
    let scene = Scene::new();
    for page in 0..=limits::WAITING_PAGES {
        scene.page(1, &format!("/{page}"));
    }
    assert_eq!(scene.collect().classes(), [(AUTOMATION, limits::WAITING_PAGES as u64 + 1)]);
}

#[test]
fn a_part_of_a_page_is_one_of_the_same_site() {
    let scene = Scene::new();
    let style =
        |referer| Visit { referer, ..Visit::of(scene.visitor(1), "/s.css", FetchPurpose::MaybePart, ServedKind::Part) };
    scene.page(1, "/");
    for referer in [None, Some("https://other.example/"), Some("nonsense")] {
        scene.visit(&style(referer));
    }
    assert_eq!(scene.collect().classes(), []);
    scene.visit(&style(Some("https://engine.example/")));
    assert_eq!(scene.collect().classes(), [(PERSON, 5)]);
}

#[test]
fn nobody_is_waited_for_over_the_end_of_a_day_or_of_the_program() {
    let scene = Scene::new();
    let day = 24 * 60 * 60 * 1_000;
    let left = day - scene.millis.load(Ordering::Relaxed) % day;
    scene.pass(Duration::from_millis(left - 1_000));
    scene.page(1, "/");
    assert_eq!(scene.collect().classes(), []);
    scene.pass(Duration::from_millis(1_001));
    let last = scene.collect();
    assert_eq!((last.classes(), last.pageviews(), last.visitors()), (vec![(LIKELY, 1)], 1, 1));
    scene.page(2, "/");
    assert_eq!(scene.collect_last().classes(), [(LIKELY, 1)]);
}

#[test]
fn views_and_errors_know_what_led_there() {
    let scene = Scene::new();
    let view = |uri, referer| Visit { referer, ..Visit::of(scene.visitor(1), uri, PAGE, WITHOUT_PARTS) };
    for (uri, referer) in [
        ("/a", Some("https://News.Example:8443/item?secret=1")),
        ("/b", Some("https://engine.example/a")),
        ("/c", None),
        ("/d?utm_source=chatgpt.com", None),
        ("/e?utm_source=newsletter", None),
        ("/f?utm_source=chatgpt.com", Some("https://news.example/")),
    ] {
        scene.visit(&view(uri, referer));
    }
    for referer in [Some("https://engine.example/from?x=1"), Some("https://news.example/deep/path"), None] {
        scene.visit(&Visit { status: 404, ..view("/none?q=1", referer) });
    }
    let counted = scene.collect();
    let views: Vec<_> = counted.views().into_iter().map(|(key, _)| key.replace("\tXX\tengine.example", "")).collect();
    let expected = ["/a\tnews.example", "/b\t", "/c\t", "/d\tchatgpt.com", "/e\t", "/f\tnews.example"];
    assert_eq!(views, expected);
    let errors = ["404\t/none\t", "404\t/none\t/from", "404\t/none\tnews.example"].map(|key| (key, 1));
    assert_eq!(counted.of(TrafficEntryKind::Error), BTreeMap::from(errors));
}

#[test]
fn agents_are_counted_with_their_pages_and_what_is_disallowed_to_them() {
    let scene = Scene::new();
    let agent = agents::find("GPTBot");
    let kind = |evidence| ClientIdentity::Known(ClientKind { class: VisitorClass::AiTraining, agent, evidence });
    for (evidence, uri, served) in [
        (ClassEvidence::Name, "/", WITH_PARTS),
        (ClassEvidence::Network, "/about", WITHOUT_PARTS),
        (ClassEvidence::Network, "/style.css", ServedKind::Part),
    ] {
        scene.visit(&Visit { bytes: 100, ..Visit::of(kind(evidence), uri, PAGE, served) });
    }
    scene.visit(&Visit { is_disallowed: true, ..Visit::of(kind(ClassEvidence::Name), "/x", PAGE, ServedKind::Other) });
    let counted = scene.collect();
    let classes = [("ai_training\tGPTBot\tname", 2), ("ai_training\tGPTBot\tnetwork", 2)];
    assert_eq!(counted.classes(), classes);
    assert_eq!(counted.of(TrafficEntryKind::AgentPage), BTreeMap::from([("GPTBot", 2)]));
    assert_eq!(counted.of(TrafficEntryKind::AgentDisallowed), BTreeMap::from([("GPTBot", 1)]));
    let sums = counted.0.as_ref().unwrap().sums;
    assert_eq!((sums.bytes, sums.people_bytes, sums.pageviews), (300, 0, 0));
}

#[test]
fn every_answer_is_somebodys_once_whatever_visitors_do() {
    let scene = Scene::new();
    let (mut requests, mut bytes, mut random) = (0, 0, 1_u64);
    let (mut seen, mut seen_bytes) = (0, 0);
    let mut add = |counted: &Counted| {
        for entry in
            counted.0.iter().flat_map(|part| &part.entries).filter(|entry| entry.kind == TrafficEntryKind::Agent)
        {
            assert!(AgentKey::parse(&entry.key).is_some());
            seen += entry.count.requests;
            seen_bytes += entry.count.bytes;
        }
    };
    for step in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |shift: u32, of: u64| usize::try_from((random >> shift) % of).unwrap();
        let purposes = [
            PAGE,
            FetchPurpose::Page { has_copy: true },
            FetchPurpose::Part,
            FetchPurpose::MaybePart,
            FetchPurpose::Other,
        ];
        let served = [WITH_PARTS, WITH_PARTS, WITHOUT_PARTS, ServedKind::Part, ServedKind::Other][pick(20, 5)];
        let uri = format!("/{}", pick(30, 7));
        let visitor = scene.visitor(u32::try_from(pick(40, 300)).unwrap());
        let visit = Visit::of(visitor, &uri, purposes[pick(50, 5)], served);
        let len = pick(33, 3_000);
        scene.visit(&Visit { bytes: len, ..visit });
        (requests, bytes) = (requests + 1, bytes + len as u64);
        scene.pass(Duration::from_millis(37));
        if step % 50 == 0 {
            add(&scene.collect());
        }
    }
    add(&scene.collect_last());
    assert_eq!((seen, seen_bytes), (requests, bytes));
}

#[test]
fn a_flood_of_visitors_is_bounded_and_counted() {
    let scene = Scene::new();
    let long = "x".repeat(limits::COUNTED_PATH_BYTES - 1);
    let visitors = 2 * u32::try_from(limits::WAITING_VISITORS).unwrap();
    for visitor in 0..visitors {
        scene.page(visitor, &format!("/{long}"));
    }
    let stripes = scene.traffic.people.stripes.iter();
    let (weight, waiting) = stripes.fold((0, 0), |(weight, waiting), stripe| {
        let visitors = lock(stripe);
        let weights: usize = visitors.waiting.values().map(PendingVisitor::weight).sum();
        assert_eq!(visitors.weight, weights);
        assert!(visitors.known.len() <= limits::KNOWN_VISITORS / limits::VISITOR_STRIPES);
        (weight + weights, waiting + visitors.waiting.len())
    });
    assert!(weight <= limits::WAITING_BYTES && waiting <= limits::WAITING_VISITORS);
    let counted = scene.collect_last();
    let classes: u64 = counted.classes().iter().map(|(_, requests)| requests).sum();
    assert_eq!((classes, counted.pageviews()), (visitors.into(), visitors.into()));
    let mut sketch = VisitorSketch::default();
    sketch.extend(counted.0.as_ref().unwrap().visitors.iter().copied());
    let (estimate, truth) = (sketch.estimate(), u64::from(visitors));
    assert!(estimate.abs_diff(truth) < truth / 25, "{estimate} of {truth}");
}
