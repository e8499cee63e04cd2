//! Counts stay within their bounds, and their sums stay exact.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use bytes::Buf as _;
use domain::{
    OrgId, PayingAccount, ProjectId, Site, SiteGate, SiteKind, Timestamp, UserId,
    traffic::{HOUR, HourTraffic, OTHER, TrafficCount, TrafficEntryKind, hour_start},
};
use http::{Response, StatusCode};
use http_types::{CacheUse, ChargedChunk, GateAnswer, SiteBody};

use super::{batch::split_batches, people::client::RequestClient, *};

/// A site of an account that has no other.
fn site(number: usize) -> Arc<Site> {
    site_of(format!("usr_{number:0>20}").parse::<UserId>().unwrap().into(), number)
}

/// A site of its own organization, created by a person who has created many.
fn greedy(number: usize) -> Arc<Site> {
    let org = OrgId::from_body(&format!("{number:0>20}")).unwrap();
    site_of(PayingAccount::new(org.into(), "usr_00000000000000greedy".parse().ok()), number)
}

fn site_of(owner: PayingAccount, number: usize) -> Arc<Site> {
    Arc::new(Site {
        project: ProjectId::from_body(&format!("{number:0>20}")).unwrap(),
        deployment: None,
        live: None,
        kind: SiteKind::Live,
        gate: SiteGate::Public,
        access_version: 1,
        expires_at: None,
        suspended: None,
        owner,
        bandwidth_used_up: None,
    })
}

fn traffic() -> &'static TrafficCounter {
    traffic_of(1)
}

fn traffic_of(threads: usize) -> &'static TrafficCounter {
    let clock = Clock::from_fn(now);
    TrafficCounter::new(threads, None, AgentRegistry::new(clock.clone()), clock).unwrap()
}

fn requested(traffic: &TrafficCounter, site: &Arc<Site>, uri: &str) -> CountedRequest {
    let country = traffic.country(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let (host, path) = ("engine.example".into(), Some(uri.parse().unwrap()));
    let client = RequestClient {
        who: ClientIdentity::Known(ClientKind::AUTOMATION),
        purpose: FetchPurpose::Other,
        referer: None,
    };
    CountedRequest { site: site.clone(), host, country, path, client }
}

fn follow(
    traffic: &'static TrafficCounter,
    requested: CountedRequest,
    answer: Response<SiteBody>,
) -> Option<CountedBody> {
    let receipt = traffic.follow(requested, &answer, |_, host| host == "engine.example")?;
    Some(receipt.into_counted(answer.into_body()))
}

fn answer(status: u16, mut body: SiteBody) -> Response<SiteBody> {
    body.mark_own_file();
    Response::builder().status(status).body(body).unwrap()
}

fn visit(traffic: &'static TrafficCounter, site: &Arc<Site>, uri: &str, status: u16) {
    assert!(follow(traffic, requested(traffic, site, uri), answer(status, SiteBody::empty())).is_none());
}

fn now() -> Timestamp {
    hour_start(Timestamp::from_unix_millis(1_800_000_000_000))
}

/// Returns everything counted, in the batches that go to Postgres.
fn batches(traffic: &TrafficCounter) -> Vec<Vec<HourTraffic>> {
    batches_of_hour(traffic, now())
}

fn batches_of_hour(traffic: &TrafficCounter, hour: Timestamp) -> Vec<Vec<HourTraffic>> {
    split_batches(traffic.collection(traffic.take(), hour).traffic).collect()
}

fn of_kind(batches: &[Vec<HourTraffic>], kind: TrafficEntryKind) -> Vec<(String, TrafficCount)> {
    let entries = batches.iter().flatten().flat_map(|part| &part.entries).filter(|entry| entry.kind == kind);
    let mut found: Vec<_> = entries.map(|entry| (entry.key.to_string(), entry.count)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn requests(number: u64) -> TrafficCount {
    TrafficCount { requests: number, bytes: 0 }
}

#[test]
fn paths_that_a_site_has_are_counted_apart_from_those_it_lacks() {
    let (traffic, site) = (traffic(), site(1));
    for (uri, status) in [("/a?b=c", 200), ("/a", 304), ("/old", 301), ("/none", 404), ("/", 405), ("/x", 503)] {
        visit(traffic, &site, uri, status);
    }
    let mut gate = answer(302, SiteBody::empty());
    gate.extensions_mut().insert(GateAnswer);
    drop(follow(traffic, requested(traffic, &site, "/gated"), gate));
    let batches = batches(traffic);
    assert_eq!(of_kind(&batches, TrafficEntryKind::Path), [("/a".into(), requests(2)), ("/old".into(), requests(1))]);
    let errors = [("404\t/none\t".into(), requests(1)), ("503\t/x\t".into(), requests(1))];
    assert_eq!(of_kind(&batches, TrafficEntryKind::Error), errors);
    assert_eq!(of_kind(&batches, TrafficEntryKind::Hostname), [("engine.example".into(), requests(7))]);
    assert_eq!(of_kind(&batches, TrafficEntryKind::Country), [("XX".into(), requests(7))]);
    assert_eq!(batches[0][0].sums.statuses, [1, 3, 2, 1, 0]);
}

#[test]
fn a_long_path_is_cut_between_characters() {
    let (traffic, site) = (traffic(), site(1));
    let long = format!("/{}", "ä".repeat(limits::COUNTED_PATH_BYTES));
    let encoded: String =
        long.bytes().map(|byte| if byte == b'/' { "/".into() } else { format!("%{byte:02X}") }).collect();
    for uri in [long.as_str(), &encoded, &format!("{encoded}/more")] {
        visit(traffic, &site, uri, 200);
    }
    let paths = of_kind(&batches(traffic), TrafficEntryKind::Path);
    assert_eq!(paths.len(), 2, "what differs beyond the cut is one: {paths:?}");
    assert!(paths.iter().all(|(path, _)| path.len() <= limits::COUNTED_PATH_BYTES && path.ends_with('…')));
}

#[tokio::test]
async fn a_body_counts_with_the_bytes_that_were_taken_of_it() {
    let (traffic, site) = (traffic(), site(1));
    let body = |len: usize| SiteBody::from(bytes::Bytes::from(vec![7; len])).with_cache_use(CacheUse::Hit);
    let follow = |len| follow(traffic, requested(traffic, &site, "/"), answer(200, body(len))).unwrap();
    let take = async |body: &mut CountedBody, most: usize| {
        std::future::poll_fn(|cx| body.poll_next(cx, most)).await.unwrap().unwrap().len()
    };
    let sums = || batches(traffic).first().map(|batch| batch[0].sums).unwrap_or_default();
    let counted = |sums: domain::traffic::TrafficSums| (sums.requests, sums.bytes, sums.cache_hits);
    // Whole, in one piece.
    let mut whole = follow(1_000);
    take(&mut whole, 5_000).await;
    assert_eq!(counted(sums()), (1, 1_000, 1));
    drop(whole);
    assert_eq!(counted(sums()), (0, 0, 0), "and not again");
    // In pieces: the first is counted immediately, the others with the end or after a number of bytes.
    let mut pieces = follow(1_000_000);
    take(&mut pieces, 10).await;
    assert_eq!(counted(sums()), (1, 10, 1));
    take(&mut pieces, 20).await;
    assert_eq!(counted(sums()), (0, 0, 0));
    take(&mut pieces, 300_000).await;
    assert_eq!(counted(sums()), (0, 300_020, 0));
    take(&mut pieces, 5).await;
    drop(pieces);
    assert_eq!(counted(sums()), (0, 5, 0), "cut off");
    // Not at all.
    drop(follow(1_000));
    assert_eq!(counted(sums()), (1, 0, 1));
    // By a connection, of which the client takes a part and resets the stream.
    let mut reset = follow(1_000);
    let bytes = std::future::poll_fn(|cx| reset.body_mut().poll_next(cx, 5_000)).await.unwrap().unwrap();
    let mut chunk = ChargedChunk::new(bytes, None, None).counted_by(Some(reset.counter()));
    drop(reset);
    assert_eq!(counted(sums()), (0, 0, 0), "it is on its way");
    chunk.advance(300);
    drop(chunk);
    assert_eq!(counted(sums()), (1, 300, 1));
    // Another response in its place.
    drop(follow(1_000).replace_with(StatusCode::SERVICE_UNAVAILABLE, SiteBody::empty()));
    let replaced = sums();
    assert_eq!((counted(replaced), replaced.statuses), ((1, 0, 0), [0, 0, 0, 1, 0]));
}

#[test]
fn made_up_paths_become_one_and_pages_stay() {
    let (traffic, site) = (traffic(), site(1));
    let made_up = 3 * limits::COUNTED_ERRORS as u64;
    for number in 0..made_up {
        visit(traffic, &site, &format!("/made-up/{number}"), 404);
    }
    visit(traffic, &site, "/page", 200);
    let batches = batches(traffic);
    assert_eq!(of_kind(&batches, TrafficEntryKind::Path), [("/page".into(), requests(1))]);
    let missing = of_kind(&batches, TrafficEntryKind::Error);
    assert_eq!(missing.len(), limits::COUNTED_ERRORS + 1);
    assert_eq!(missing[0], (OTHER.into(), requests(made_up - limits::COUNTED_ERRORS as u64)));
    assert_eq!(batches.iter().flatten().map(|part| part.sums.requests).sum::<u64>(), made_up + 1);
    assert!(
        batches
            .iter()
            .all(|batch| batch.iter().map(|part| part.entries.len()).sum::<usize>() <= limits::TRAFFIC_BATCH_KEYS)
    );
}

#[test]
fn keys_of_one_persons_organizations_leave_room_for_others() {
    let (traffic, modest) = (traffic(), site(99));
    let greedy: Vec<_> = (1..=20).map(greedy).collect();
    let path = "x".repeat(limits::COUNTED_PATH_BYTES - 20);
    for number in 0..limits::COUNTED_PATHS as u64 {
        for site in &greedy {
            visit(traffic, site, &format!("/{path}{number}"), 200);
        }
    }
    visit(traffic, &modest, "/page", 200);
    let batches = batches(traffic);
    let of = |site: &Site| -> Vec<HourTraffic> {
        batches.iter().flatten().filter(|part| part.project == site.project).cloned().collect()
    };
    assert_eq!(of_kind(&[of(&modest)], TrafficEntryKind::Path), [("/page".into(), requests(1))]);
    let mut weight = 0;
    for site in &greedy {
        let paths = of_kind(&[of(site)], TrafficEntryKind::Path);
        weight += paths.iter().map(|(path, _)| path.len()).sum::<usize>();
        assert_eq!(paths[0].0, OTHER);
        assert_eq!(paths.iter().map(|(_, count)| count.requests).sum::<u64>(), limits::COUNTED_PATHS as u64);
    }
    assert!(weight <= limits::COUNTED_BYTES / 100 * limits::PAYER_KEYS_PERCENT, "{weight} bytes");
}

#[test]
fn an_hour_has_as_many_keys_of_a_project_as_of_one_collection() {
    let (traffic, site) = (traffic(), site(1));
    let (most, mut sent) = (limits::COUNTED_PATHS, std::collections::BTreeSet::new());
    for collection in 0..4 {
        for number in 0..most / 2 {
            visit(traffic, &site, &format!("/{collection}/{number}"), 200);
        }
        visit(traffic, &site, "/0/0", 200);
        let batches = batches(traffic);
        let paths = of_kind(&batches, TrafficEntryKind::Path);
        let counted = paths.iter().map(|(_, count)| count.requests).sum::<u64>();
        assert_eq!(counted, most as u64 / 2 + 1, "each is counted, under whichever key");
        assert!(paths.iter().any(|(path, _)| path == "/0/0"), "what was sent before is no key more");
        sent.extend(paths.into_iter().map(|(path, _)| path).filter(|path| path != OTHER));
    }
    assert_eq!(sent.len(), most);
    visit(traffic, &site, "/later", 200);
    let paths = of_kind(&batches_of_hour(traffic, now() + HOUR), TrafficEntryKind::Path);
    assert_eq!(paths, [("/later".into(), requests(1))], "another hour has room");
}

#[test]
fn paths_that_one_page_answers_leave_room_for_the_sites_own() {
    let (traffic, site) = (traffic(), site(1));
    let visit_made_up = |path: &str| {
        let response = Response::builder().status(200).body(SiteBody::empty()).unwrap();
        assert!(follow(traffic, requested(traffic, &site, path), response).is_none());
    };
    for collection in 0..2 {
        for number in 0..limits::COUNTED_PATHS {
            visit_made_up(&format!("/{collection}/made-up/{number}"));
        }
        visit(traffic, &site, &format!("/{collection}/page"), 200);
        let paths = of_kind(&batches(traffic), TrafficEntryKind::Path);
        assert_eq!(paths.iter().map(|(_, count)| count.requests).sum::<u64>(), limits::COUNTED_PATHS as u64 + 1);
        assert_eq!(paths.iter().filter(|(path, _)| path == OTHER).count(), 1);
        assert!(paths.iter().any(|(path, _)| *path == format!("/{collection}/page")));
        let made_up = paths.iter().filter(|(path, _)| path.contains("made-up")).count();
        assert_eq!(made_up, if collection == 0 { limits::COUNTED_STAND_INS } else { 0 });
    }
}

#[test]
fn an_hour_has_as_many_keys_of_a_person_whatever_the_projects() {
    let (traffic, modest) = (traffic(), site(99));
    let greedy: Vec<_> = (1..=12).map(greedy).collect();
    let (mut sent, mut counted, mut visits) = (0, 0, 0);
    // Each collection has other projects, which would have room of their own.
    for some in greedy.chunks(3) {
        for site in some {
            for number in 0..limits::COUNTED_PATHS {
                visit(traffic, site, &format!("/{number}"), 200);
                visits += 1;
            }
        }
        let paths = of_kind(&batches(traffic), TrafficEntryKind::Path);
        sent += paths.iter().filter(|(path, _)| path != OTHER).count();
        counted += paths.iter().map(|(_, count)| count.requests).sum::<u64>();
    }
    assert_eq!((sent, counted), (limits::PAYER_PATHS, visits));
    visit(traffic, &modest, "/page", 200);
    assert_eq!(of_kind(&batches(traffic), TrafficEntryKind::Path), [("/page".into(), requests(1))]);
}

#[test]
fn projects_of_one_persons_organizations_leave_room_for_others() {
    let traffic = traffic();
    for number in 0..limits::COUNTED_PROJECTS + 1_000 {
        visit(traffic, &greedy(number), "/", 200);
    }
    let modest = site(limits::COUNTED_PROJECTS + 1_001);
    visit(traffic, &modest, "/", 200);
    let counted: Vec<_> = batches(traffic).into_iter().flatten().collect();
    assert_eq!(counted.len(), limits::PAYER_PROJECTS + 1);
    assert!(counted.iter().any(|part| part.project == modest.project));
}

#[test]
fn one_thread_of_many_has_room_for_every_project() {
    const PROJECTS: usize = 10_000;
    let traffic = traffic_of(64);
    for number in 0..PROJECTS {
        visit(traffic, &site(number), "/", 200);
    }
    assert_eq!(batches(traffic).iter().flatten().map(|part| part.sums.requests).sum::<u64>(), PROJECTS as u64);
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_000
}

#[test]
#[ignore = "a measurement, made by `bench/run --only statistics`"]
#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn memory_of_busy_projects() {
    const PROJECTS: usize = 10_000;
    const PAGES: usize = 100;
    let sites: Vec<_> = (0..PROJECTS).map(site).collect();
    let traffic = traffic_of(2);
    let before = resident();
    for page in 0..PAGES {
        for site in &sites {
            visit(traffic, site, &format!("/articles/{page}/a-title-of-a-few-words"), 200);
        }
    }
    let more = resident().saturating_sub(before);
    let bound = limits::COUNTED_BYTES / 1_000_000;
    println!("| {PROJECTS} | {} | {bound} | {more} |", PROJECTS * PAGES);
}
