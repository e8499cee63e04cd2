use std::{fmt::Write as _, fs, path::Path};

use domain::usage::UsageRow;
use spool::Spool;
use tempfile::TempDir;

use super::*;
use crate::{
    fixtures::row,
    journal::{JournalRecordRef, UsageJournal},
};

const URL: &str = "postgres://db.example/svc";

fn journal(folder: &Path, edge: &str) -> UsageJournal {
    let journal = journal::open(folder.to_owned(), edge, URL);
    journal.set_scope("this".to_owned());
    journal
}

/// Returns the journal folder of an edge that died after `completions` had ended: two segments, with the ends in the
/// second.
fn left_by_the_dead(completions: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut segments = [(); 2].map(|()| "{\"journal\":\"this\"}\n".to_owned());
    let first = row(300);
    for _ in 0..completions {
        let row = UsageRow { id: CompletionId::new(first.at), ..first.clone() };
        let open = serde_json::to_string(&JournalRecordRef::Open(&row)).unwrap();
        let ended = serde_json::to_string(&JournalRecordRef::Ended(&UsageRow { completion: 7, ..row })).unwrap();
        for (segment, line) in segments.iter_mut().zip([open, ended]) {
            writeln!(segment, "{line}").unwrap();
        }
    }
    for (number, segment) in segments.into_iter().enumerate() {
        fs::write(folder.path().join(format!("dead-{number:08}.usage")), segment).unwrap();
    }
    folder
}

fn of_the_dead(folder: &TempDir) -> usize {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder.path()).unwrap().map(name).filter(|name| name.starts_with("dead")).count()
}

/// Settles what was entered into a ledger. Returns the number of completions.
fn settle(ledger: &CompletionLedger) -> usize {
    let rows = ledger.take_to_write(usize::MAX);
    assert!(rows.iter().all(|row| row.completion == 7));
    ledger.mark_written(&rows);
    ledger.remove(&rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>());
    rows.len()
}

#[test]
fn a_long_journal_leaves_room_for_what_is_admitted() {
    let more = 10;
    let folder = left_by_the_dead(limits::UNSETTLED / 2 + more);
    let ledger = CompletionLedger::new(journal(folder.path(), "next"));
    let mut adopting = JournalAdoption::begin(&ledger).unwrap().unwrap();
    for _ in 0..2 {
        assert!(!adopting.enter(&ledger).unwrap());
        assert_eq!(ledger.len(), limits::UNSETTLED / 2);
    }
    assert!(ledger.has_room());
    assert_eq!(settle(&ledger), limits::UNSETTLED / 2);
    assert_eq!(of_the_dead(&folder), 2, "whoever goes on needs both");
    assert!(adopting.enter(&ledger).unwrap());
    assert_eq!(ledger.len(), more);
    assert!(adopting.finish(&ledger).is_none());
    assert_eq!(of_the_dead(&folder), 0);
    assert_eq!(settle(&ledger), more);
}

#[test]
fn what_our_journal_does_not_take_stays_in_that_of_the_dead_until_it_is_settled() {
    let folder = left_by_the_dead(10);
    // It has room for some of them.
    let full =
        Spool::new(spool::SpoolOptions { max_bytes: 1_500, ..journal::options(folder.path().to_owned(), "next", URL) });
    full.set_scope("this".to_owned());
    let ledger = CompletionLedger::new(full);
    let mut adopting = JournalAdoption::begin(&ledger).unwrap().unwrap();
    adopting.edges.insert("dead".to_owned());
    assert!(adopting.enter(&ledger).unwrap());
    assert!((1..10).contains(&adopting.unwritten.len()), "{}", adopting.unwritten.len());
    adopting = adopting.finish(&ledger).unwrap();
    assert_eq!(of_the_dead(&folder), 2);
    assert!(JournalAdoption::begin(&ledger).unwrap().is_none(), "it is locked");
    assert!(ledger.settled_edges(1).is_empty());
    assert_eq!(settle(&ledger), 10);
    assert!(adopting.finish(&ledger).is_none());
    assert_eq!(of_the_dead(&folder), 0);
    assert_eq!(ledger.settled_edges(1), ["dead"]);
}
