//! Pending batches keep their order and stay within their bounds, in memory and on disk.

use std::path::Path;

use domain::{
    ProjectId, Timestamp,
    traffic::{
        HourTraffic, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, hour_start, sketch::SketchRegister,
    },
};
use spool::{Spool, SpoolOptions};

use super::*;
use crate::batch::merge;

const KINDS: [TrafficEntryKind; 8] = [
    TrafficEntryKind::Hostname,
    TrafficEntryKind::Path,
    TrafficEntryKind::Country,
    TrafficEntryKind::Error,
    TrafficEntryKind::View,
    TrafficEntryKind::Agent,
    TrafficEntryKind::AgentPage,
    TrafficEntryKind::AgentDisallowed,
];

fn journal(folder: &Path, owner: &str, max_bytes: u64) -> BatchJournal {
    let journal = Spool::new(SpoolOptions {
        folder: folder.to_owned(),
        owner: owner.to_owned(),
        former_scope: String::new(),
        segment_bytes: 5_000,
        released_bytes: 1_000,
        max_bytes,
        kept_for: std::time::Duration::ZERO,
        kept_bytes: 0,
    });
    journal.set_scope("here".to_owned());
    journal
}

/// Creates an outbox with room for about four of the batches of [`traffic`].
fn outbox(folder: &Path, max_bytes: u64) -> BatchOutbox {
    let bytes = 4 * TrafficBatch { number: 1, traffic: traffic(1, 1) }.weight();
    BatchOutbox::new(journal(folder, "a", max_bytes), MemoryBounds { journaled: bytes, unjournaled: bytes })
}

fn project(number: usize) -> ProjectId {
    ProjectId::from_body(&format!("{number:0>20}")).unwrap()
}

/// Returns `requests` requests of one project, with a key of each kind.
fn traffic(number: usize, requests: u64) -> Vec<HourTraffic> {
    let count = TrafficCount { requests, bytes: 10 * requests };
    vec![HourTraffic {
        hour: hour_start(Timestamp::from_unix_millis(1_800_000_000_000)),
        project: project(number),
        sums: TrafficSums {
            requests,
            bytes: 10 * requests,
            cache_hits: 1,
            cache_misses: 2,
            statuses: [3, 4, 5, 6, 7],
            pageviews: 8,
            people_bytes: 9,
        },
        entries: KINDS.map(|kind| TrafficEntry { kind, key: format!("/ä\t\"{number}\"\n").into(), count }).into(),
        visitors: [0, u64::MAX, 0x1234_5678_9abc_def0].map(SketchRegister::from_hash).into(),
    }]
}

/// Sends everything pending. Returns the batches, and the number of responses lost on the way.
fn send_all(outbox: &BatchOutbox) -> (Vec<TrafficBatch>, u64) {
    let (mut sent, mut lost) = (Vec::new(), 0);
    while let Some(next) = outbox.next() {
        match next {
            QueueItem::Run(run) => lost += outbox.read_back(run).unwrap(),
            QueueItem::Batch(waiting) => {
                outbox.settle(waiting.segment);
                sent.push(waiting.batch);
            }
        }
    }
    (sent, lost)
}

fn answers(batches: &[TrafficBatch]) -> u64 {
    batches.iter().map(TrafficBatch::answers).sum()
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn what_finds_no_room_in_memory_comes_back_from_the_disk_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = outbox(folder.path(), 1_000_000);
    let mut all: Vec<TrafficBatch> = Vec::new();
    let put = |number: usize, all: &mut Vec<TrafficBatch>| {
        assert_eq!(outbox.put(traffic(number, 1)), 0);
        all.push(TrafficBatch { number: i64::try_from(number).unwrap(), traffic: traffic(number, 1) });
    };
    (1..=50).for_each(|number| put(number, &mut all));
    assert_eq!(outbox.pending(), 50);
    assert!(files(folder.path()) > 3, "in several segments");
    let in_memory = |outbox: &BatchOutbox| {
        let is_in_memory = |item: &&QueueItem| matches!(item, QueueItem::Batch(_));
        outbox.queue().items.iter().filter(is_in_memory).count()
    };
    assert_eq!(in_memory(&outbox), 4);

    // Some are sent while others arrive.
    let mut sent = Vec::new();
    while sent.len() < 10 {
        match outbox.next().unwrap() {
            QueueItem::Run(run) => assert_eq!(outbox.read_back(run).unwrap(), 0),
            QueueItem::Batch(waiting) => {
                outbox.settle(waiting.segment);
                sent.push(waiting.batch);
            }
        }
    }
    (51..=60).for_each(|number| put(number, &mut all));
    let (rest, lost) = send_all(&outbox);
    sent.extend(rest);
    assert_eq!(lost, 0);
    assert_eq!(sent, all);
    assert_eq!((outbox.pending(), outbox.queue().bytes), (0, 0));
    outbox.journal.close();
    assert_eq!(files(folder.path()), 0, "nothing is left to take over");
}

#[test]
fn a_site_is_taken_out_of_the_batches_that_it_was_sent_ahead_of() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = MemoryBounds { journaled: 1_000_000, unjournaled: 1_000_000 };
    let outbox = BatchOutbox::new(journal(folder.path(), "a", 1_000_000), bounds);
    let put = |numbers: [usize; 2]| outbox.put(numbers.into_iter().flat_map(|number| traffic(number, 1)).collect());
    assert_eq!((put([1, 2]), put([1, 3])), (0, 0));
    let found = outbox.site_traffic(&HashSet::from([project(1), project(4)])).unwrap();
    let [SiteTraffic { project: site, batch }] = &found[..] else { panic!("{} sites", found.len()) };
    assert_eq!((site, batch.number, batch.answers()), (&project(1), 2, 2));
    assert_eq!(batch.traffic.len(), 1, "added up");
    // Traffic that arrives in the meantime stays.
    assert_eq!(put([1, 2]), 0);
    outbox.remove_site(site, batch.number);
    let bytes = outbox.queue().bytes;
    let (rest, _) = send_all(&outbox);
    assert_eq!(rest.iter().map(TrafficBatch::weight).sum::<usize>(), bytes);
    let left: Vec<Vec<ProjectId>> =
        rest.iter().map(|batch| batch.traffic.iter().map(|part| part.project.clone()).collect()).collect();
    assert_eq!(left, [vec![project(2)], vec![project(3)], vec![project(1), project(2)]]);
}

#[test]
fn what_a_dead_edge_left_is_what_it_did_not_settle() {
    let folder = tempfile::tempdir().unwrap();
    let dead = outbox(folder.path(), 1_000_000);
    (1..=30).for_each(|number| assert_eq!(dead.put(traffic(number, 1)), 0));
    // The first segment is settled, the second one begun.
    let mut settled = 0;
    while settled < 16 {
        match dead.next().unwrap() {
            QueueItem::Run(run) => assert_eq!(dead.read_back(run).unwrap(), 0),
            QueueItem::Batch(waiting) => {
                dead.settle(waiting.segment);
                settled += 1;
            }
        }
    }
    drop(dead);
    let heir = journal(folder.path(), "b", 1_000_000);
    let mut abandoned = heir.take_over_unread().unwrap().unwrap();
    let mut found: Vec<TrafficBatch> = Vec::new();
    while let Some(batches) =
        heir.read_first(&abandoned, |batches: &mut Vec<TrafficBatch>, batch| batches.push(batch)).unwrap()
    {
        found.extend(batches);
        abandoned.delete_first();
    }
    assert_eq!(abandoned.owner, "a");
    let numbers: Vec<i64> = found.iter().map(|batch| batch.number).collect();
    assert!(numbers[0] > 1 && numbers[0] <= 17, "{numbers:?}");
    assert!(numbers.is_sorted() && numbers.ends_with(&[28, 29, 30]), "{numbers:?}");
    assert_eq!(found.last().unwrap().traffic, traffic(30, 1));
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_full_journal_drops_the_latest_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = outbox(folder.path(), 12_000);
    let lost: u64 = (1..=50).map(|number| outbox.put(traffic(number, 3))).sum();
    let kept = outbox.pending() as u64;
    assert!(kept > 4, "more than memory has room for: {kept}");
    assert_eq!(lost, 3 * (50 - kept));
    let (sent, unreadable) = send_all(&outbox);
    assert_eq!((answers(&sent), unreadable), (3 * kept, 0));
    assert!(sent.iter().map(|batch| batch.number).is_sorted());
    // There is room again.
    assert_eq!(outbox.put(traffic(1, 1)), 0);
    let (sent, _) = send_all(&outbox);
    assert_eq!(sent, [TrafficBatch { number: 51, traffic: traffic(1, 1) }]);
}

#[test]
fn where_the_disk_fails_memory_goes_on() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let outbox = outbox(&file.path().join("folder"), 1_000_000);
    let lost: u64 = (1..=10).map(|number| outbox.put(traffic(number, 1))).sum();
    assert_eq!((outbox.pending(), lost), (4, 6));
    let (sent, _) = send_all(&outbox);
    assert_eq!(sent.iter().map(|batch| batch.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(outbox.put(traffic(1, 1)), 0);
}

#[test]
fn what_cannot_be_read_back_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = outbox(folder.path(), 1_000_000);
    (1..=40).for_each(|number| assert_eq!(outbox.put(traffic(number, 2)), 0));
    let spoiled = outbox.journal.own_segments().into_iter().nth(2).unwrap();
    std::fs::write(spoiled, "").unwrap();
    let (sent, lost) = send_all(&outbox);
    assert!(lost > 0);
    assert_eq!(answers(&sent) + lost, 80);
    assert_eq!(outbox.pending(), 0);
    // A segment that is permanently lost.
    (1..=40).for_each(|number| assert_eq!(outbox.put(traffic(number, 2)), 0));
    let (mut sent, mut lost) = (0, 0);
    while let Some(next) = outbox.next() {
        match next {
            QueueItem::Run(run) => lost += outbox.give_up(run),
            QueueItem::Batch(waiting) => {
                sent += waiting.batch.answers();
                outbox.settle(waiting.segment);
            }
        }
    }
    assert_eq!((sent, lost, outbox.pending()), (8, 72, 0));
    outbox.journal.close();
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_batch_is_sent_within_the_time_for_which_postgres_knows_its_edge() {
    let batch = TrafficBatch { number: 1, traffic: traffic(1, 1) };
    let hour = batch.hour().unwrap();
    assert!(!batch.is_too_old(hour + limits::TRAFFIC_SENT_WITHIN));
    assert!(batch.is_too_old(hour + limits::TRAFFIC_SENT_WITHIN + std::time::Duration::from_secs(1)));
    // The job of admin that forgets edges leaves a day in between.
    let forgotten_after = std::time::Duration::from_hours(7 * 24);
    assert!(limits::TRAFFIC_SENT_WITHIN + std::time::Duration::from_hours(24) <= forgotten_after);
}

#[test]
fn what_threads_have_counted_becomes_one() {
    let mut more = traffic(1, 2);
    more[0].entries.truncate(3);
    more[0].visitors = [0, 1 << 60].map(SketchRegister::from_hash).into();
    let merged = merge([traffic(2, 7), traffic(1, 5), more].concat());
    assert_eq!(merged.iter().map(|part| part.sums.requests).collect::<Vec<_>>(), [7, 7]);
    let [one, two] = &merged[..] else { panic!("{merged:?}") };
    assert_eq!((&one.project, two), (&project(1), &traffic(2, 7)[0]));
    assert_eq!(one.sums.statuses, [6, 8, 10, 12, 14]);
    let counts: Vec<(TrafficEntryKind, u64)> =
        one.entries.iter().map(|entry| (entry.kind, entry.count.requests)).collect();
    assert_eq!(counts.len(), KINDS.len());
    assert_eq!(counts.iter().map(|(_, requests)| requests).sum::<u64>(), 3 * 7 + 5 * 5);
    assert_eq!(one.visitors.len(), 4, "one of them twice");
}

#[test]
fn a_batch_takes_so_much_and_no_more() {
    let mut large = traffic(1, 5);
    let entry = large[0].entries[0].clone();
    large[0].entries = vec![entry; 2 * limits::TRAFFIC_BATCH_KEYS + 1];
    large[0].visitors = vec![SketchRegister::from_hash(1); limits::TRAFFIC_BATCH_KEYS];
    let all: Vec<HourTraffic> = (2..=600).map(|number| traffic(number, 1).remove(0)).chain(large).collect();
    let registers = limits::TRAFFIC_BATCH_KEYS + 3 * 599;
    let keys: usize = all.iter().map(|part| part.entries.len()).sum();
    let batches: Vec<Vec<HourTraffic>> = split_batches(all).collect();
    for batch in &batches {
        assert!(batch.len() <= limits::TRAFFIC_BATCH_HOURS);
        let size: usize = batch.iter().map(|part| part.entries.len() + part.visitors.len()).sum();
        assert!((1..=limits::TRAFFIC_BATCH_KEYS).contains(&size));
    }
    let of = |figure: &dyn Fn(&HourTraffic) -> usize| batches.iter().flatten().map(figure).sum::<usize>();
    assert_eq!(of(&|part| part.entries.len()), keys);
    assert_eq!(of(&|part| part.visitors.len()), registers);
    assert_eq!(batches.iter().flatten().map(|part| part.sums.requests).sum::<u64>(), 599 + 5);
}

#[test]
fn batches_are_added_up_within_the_bounds_of_a_statement() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = MemoryBounds { journaled: usize::MAX, unjournaled: usize::MAX };
    let outbox = BatchOutbox::new(journal(folder.path(), "a", 100_000_000), bounds);
    let first = |outbox: &BatchOutbox| match outbox.next().unwrap() {
        QueueItem::Batch(first) => outbox.add_up(first),
        QueueItem::Run(_) => panic!("everything is in memory"),
    };
    // Repeated traffic of the same projects becomes one part each.
    for _ in 0..10 {
        (1..=3).for_each(|number| assert_eq!(outbox.put(traffic(number, 2)), 0));
    }
    let BatchSum { batch, segments } = first(&outbox);
    assert_eq!((batch.number, segments.len(), batch.traffic.len()), (30, 30, 3));
    assert_eq!(batch.answers(), 60);
    let [one] = <[HourTraffic; 1]>::try_from(traffic(1, 20)).unwrap();
    assert_eq!((&batch.traffic[0].entries, batch.traffic[0].sums.statuses), (&one.entries, [30, 40, 50, 60, 70]));
    for segment in segments {
        outbox.settle(segment);
    }
    assert_eq!((outbox.pending(), outbox.bytes()), (0, 0));

    // Another hour requires another statement.
    assert_eq!(outbox.put(traffic(1, 1)), 0);
    let mut later = traffic(1, 1);
    later[0].hour = later[0].hour + domain::traffic::HOUR;
    assert_eq!(outbox.put(later), 0);
    assert_eq!((first(&outbox).batch.number, first(&outbox).batch.number), (31, 32));

    // Batches that were sent ahead entirely do not separate the others.
    for number in [1, 2, 1, 2, 1] {
        assert_eq!(outbox.put(traffic(number, 1)), 0);
    }
    outbox.remove_site(&project(1), 37);
    let BatchSum { batch, segments } = first(&outbox);
    assert_eq!((batch.number, batch.answers(), segments.len()), (37, 2, 5));

    // A batch that would make a statement too large is left for the next one, as a whole.
    let many = limits::TRAFFIC_SENT_PROJECTS + 10;
    (1..=many).for_each(|number| assert_eq!(outbox.put(traffic(number, 1)), 0));
    let mut sums = Vec::new();
    while outbox.pending() > 0 && outbox.queue().items.front().is_some() {
        sums.push(first(&outbox).batch);
    }
    let projects: usize = sums.iter().map(|batch| batch.traffic.len()).sum();
    assert!(sums.len() > 1 && projects == many, "{projects} projects in {} statements", sums.len());
    for batch in &sums {
        let keys: usize = batch.traffic.iter().map(|part| part.entries.len() + part.visitors.len()).sum();
        assert!(batch.traffic.len() <= limits::TRAFFIC_SENT_PROJECTS && keys <= limits::TRAFFIC_SENT_KEYS);
    }
}
