//! The figures of certificates in bench/README.md. Nothing is asserted: `bench/run --only certificates` runs these against
//! optimised programs and puts the rows that they print into the tables.
//!
//! The authority, the name server and whoever asks share the machine with what is measured.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use db::certificates::{self, NewCertificate};
use domain::{Clock, certificates::CertificateSource};
use futures_util::{StreamExt as _, stream};
use rustls::{ClientConfig, client::Resumption, version::TLS13};
use secrets::MasterKey;
use serde_json::json;
use sqlx::PgPool;

use super::Stage;
use crate::world::{
    Actor, Builder, Site, World,
    authority::Authority,
    eventually, holds_within,
    pebble::Faults,
    process::Process,
    socket::{connect_tls, tls},
};

/// Domains that are attached one after the other.
const ADDED: usize = 100;
/// Domains that are attached at once, and requests for that under way.
const AT_ONCE: usize = 1_000;
const ATTACHING: usize = 16;
/// Domains that one person attaches: fewer than a minute has for them.
const OF_ONE: usize = 50;
/// Domains whose certificates are all to be replaced.
const REVOKED: usize = 500;
/// Certificates that are stored, and those of them that visitors ask for.
const KNOWN: usize = 100_000;
const USED: usize = 10_000;
/// Certificates stored where there are few.
const FEW: usize = 10;
/// Handshakes of a round, and those of them under way at a time.
const HANDSHAKES: usize = 10_000;
const HANDSHAKES_AT_ONCE: usize = 8;
/// Rounds with one certificate and with many, in turns.
const ROUNDS: usize = 5;
/// Starts of an edge.
const STARTS: usize = 5;
/// Certificates stored in one transaction.
const BATCH: usize = 1_000;
/// The longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_mins(15);

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e6)
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

/// Room for as many domains as are measured.
fn roomy(world: Builder) -> Builder {
    world.set("EDGE__THREADS", 2).set("POSTGRES__MAX_CONNECTIONS", 20).plan(&json!({}))
}

/// A stage with room for much, and a client that trusts its authority alone.
async fn stage() -> (Stage, Arc<ClientConfig>) {
    let stage = Stage::start(Faults::default(), roomy).await;
    let client = client(&stage).await;
    (stage, client)
}

async fn client(stage: &Stage) -> Arc<ClientConfig> {
    let root = stage.folder.path().join("root.pem");
    std::fs::write(&root, stage.pebble.root_pem().await).unwrap();
    Arc::new(tls(&root, &[&TLS13], &[]))
}

async fn is_served(stage: &Stage, host: &str, client: &Arc<ClientConfig>) -> bool {
    connect_tls(stage.world.public_port(), host, client.clone()).await.is_ok()
}

/// People with a site each, `engine-N` of the one with the number N, as many as it takes to attach this many domains in a minute.
async fn people(stage: &Stage, count: usize) -> Vec<Actor> {
    let mut people = Vec::new();
    for number in 0..count.div_ceil(OF_ONE) {
        let person = stage.world.user(&format!("owner-{number}")).await;
        person.publish(&format!("engine-{number}"), &Site::page("home")).await;
        people.push(person);
    }
    people
}

/// Attaches the domain of this number.
async fn attach(people: &[Actor], number: usize, name: &str) {
    let of = number / OF_ONE;
    people[of].attach(&format!("engine-{of}"), name).await;
}

/// Attaches this many domains, some at a time, and returns their names.
async fn attach_many(people: &[Actor], count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("www.many{number}.example")).collect();
    let attaching = stream::iter(names.iter().enumerate());
    attaching.for_each_concurrent(ATTACHING, async |(number, name)| attach(people, number, name).await).await;
    names
}

/// Waits until `sql` counts so many, and returns how many it counts in the end.
async fn wait_for_count(stage: &Stage, sql: &str, count: usize) -> usize {
    let counted = async || usize::try_from(stage.world.sql_number(sql).await).unwrap();
    holds_within(PATIENCE, async || counted().await >= count).await;
    counted().await
}

const LIVE: &str = "SELECT count(*) FROM certificate_orders WHERE state = 'live'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only certificates`"]
async fn added_one_after_the_other() {
    let (stage, client) = stage().await;
    let people = people(&stage, ADDED).await;
    let mut times = Vec::new();
    for number in 0..ADDED {
        let host = format!("www.shop{number}.example");
        let start = Instant::now();
        attach(&people, number, &host).await;
        eventually(PATIENCE, "the domain is served", async || is_served(&stage, &host, &client).await).await;
        times.push(start.elapsed());
    }
    times.sort();
    let [median, p95, slowest] = [ADDED / 2, ADDED * 95 / 100, ADDED - 1].map(|at| seconds(times[at]));
    print(&format!("| {ADDED} | {median} | {p95} | {slowest} |"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only certificates`"]
async fn attached_at_once() {
    let (stage, client) = stage().await;
    let people = people(&stage, AT_ONCE).await;
    let programs: [&Process; 2] = [&stage.world.admin, &stage.world.edge().process];
    let before = programs.map(|program| program.memory("VmRSS"));
    let start = Instant::now();
    let names = attach_many(&people, AT_ONCE).await;
    let live = wait_for_count(&stage, LIVE, AT_ONCE).await;
    let took = start.elapsed();
    let mut served = 0;
    for name in &names {
        served += usize::from(is_served(&stage, name, &client).await);
    }
    let mut row = format!("| {AT_ONCE} | {} | {} | {served} |", seconds(took), AT_ONCE - live);
    for (program, before) in programs.into_iter().zip(before) {
        write!(row, " {} | {} |", megabytes(before), megabytes(program.memory("VmHWM"))).unwrap();
    }
    print(&row);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only certificates`"]
async fn drill_of_a_mass_revocation() {
    let (stage, proxy) = Stage::behind_proxy(roomy).await;
    proxy.set(|mood| mood.renew_in(2099));
    attach_many(&people(&stage, REVOKED).await, REVOKED).await;
    wait_for_count(&stage, LIVE, REVOKED).await;
    stage.world.sql("CREATE TABLE before AS SELECT name, certificate_id FROM certificate_orders").await;
    proxy.set(|mood| mood.renew_in(2020));
    let start = Instant::now();
    // As if the pause that the authority asks for had passed for each of them.
    stage.world.sql("UPDATE certificate_orders SET ask_window_at = now()").await;
    let replaced = "SELECT count(*) FROM certificate_orders o JOIN before b USING (name)
                    WHERE o.certificate_id <> b.certificate_id AND o.state = 'live'";
    let replaced = wait_for_count(&stage, replaced, REVOKED).await;
    print(&format!("| {REVOKED} | {} | {} |", REVOKED - replaced, seconds(start.elapsed())));
}

fn known(number: usize) -> String {
    format!("www.known{number}.example")
}

/// Stores certificates of an authority for the names from the one number to the other. Those that nobody asks for share a key.
async fn store(world: &World, authority: &Authority, numbers: std::ops::Range<usize>) {
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let master_key = MasterKey::load(World::master_key().await).unwrap();
    let now = Clock::system().now();
    let (not_before, not_after) = (now - Duration::from_hours(1), now + Duration::from_hours(24 * 60));
    let stem = world.folder().join("leaf");
    let read = |extension: &str| std::fs::read_to_string(stem.with_extension(extension)).unwrap();
    for batch in numbers.clone().step_by(BATCH) {
        let mut tx = db.begin().await.unwrap();
        for number in batch..(batch + BATCH).min(numbers.end) {
            if number <= USED {
                authority.issue(&stem, &[&known(number)], 60);
            }
            let (chain_pem, key_pem) = (read("pem"), read("key"));
            let certificate = NewCertificate {
                names: &[known(number)],
                chain_pem: &chain_pem,
                key_pem: &key_pem,
                not_before,
                not_after,
                source: CertificateSource::Import,
                account: None,
            };
            certificates::store(&mut tx, &master_key, &certificate, now).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    // As it is some time after they were stored.
    world.sql("VACUUM ANALYZE certificates").await;
}

/// Goes through full handshakes for `names` in turn. Returns how many a second of the edge's processor allows.
async fn handshakes(world: &World, client: &Arc<ClientConfig>, names: usize, count: usize) -> f64 {
    let process = &world.edge().process;
    let before = process.cpu();
    stream::iter(0..count)
        .for_each_concurrent(HANDSHAKES_AT_ONCE, async |number| {
            drop(connect_tls(world.public_port(), &known(number % names), client.clone()).await.unwrap());
        })
        .await;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    count / process.cpu().saturating_sub(before).as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only certificates`"]
async fn known_to_the_edge() {
    let mut world = World::builder().set("EDGE__THREADS", 2).start().await;
    let root = world.folder().join("root.pem");
    let authority = Authority::new(&root);
    let mut client = tls(&root, &[&TLS13], &[]);
    client.resumption = Resumption::disabled();
    let client = Arc::new(client);
    store(&world, &authority, 0..FEW).await;
    let few = starts(&mut world).await;
    let alone = handshakes(&world, &client, 1, HANDSHAKES).await;
    store(&world, &authority, FEW..KNOWN).await;
    let many = starts(&mut world).await;
    // Each is read once, before it is asked for again and again.
    handshakes(&world, &client, USED, USED).await;
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(handshakes(&world, &client, 1, HANDSHAKES).await);
        all.push(handshakes(&world, &client, USED, HANDSHAKES).await);
    }
    let (one, all) = (median(one), median(all));
    let memory = megabytes(world.edge().process.memory("VmRSS"));
    print(&format!(
        "| {KNOWN} | {USED} | {alone:.0} | {one:.0} | {all:.0} | {:.3} | {memory} | {} | {} |",
        all / one,
        seconds(few),
        seconds(many)
    ));
}

/// The median time from the start of an edge until it answers.
async fn starts(world: &mut World) -> Duration {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        world.edges[0].process.kill();
        let start = Instant::now();
        world.restart_edge(0).await;
        times.push(start.elapsed());
    }
    times.sort();
    times[STARTS / 2]
}
