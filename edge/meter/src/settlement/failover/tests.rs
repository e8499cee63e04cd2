use std::fs;

use spool::Spool;

use super::*;
use crate::{
    fixtures::row,
    journal::{self, UsageJournal},
};

const DATABASE: &str = "postgres://db.example/svc";

fn journal(folder: &std::path::Path, edge: &str) -> UsageJournal {
    let journal = journal::open(folder.to_owned(), edge, DATABASE);
    journal.set_scope("this".to_owned());
    journal
}

/// Ends a completion at an edge, and sets it aside under the history `one`.
fn keep(folder: &std::path::Path, edge: &str) {
    let ledger = CompletionLedger::new(journal(folder, edge));
    let row = row(300);
    ledger.enter(row.clone());
    ledger.end(&row.id, |_| {});
    ledger.journal.set_history("one");
    ledger.remove(&[row.id]);
    ledger.journal.close();
}

#[test]
fn a_kept_segment_that_cannot_be_read_keeps_no_other_from_being_entered() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "a");
    let settled = folder.path().join("settled");
    // In either order.
    for name in ["0-00000000.one.usage", "z-00000000.one.usage"] {
        fs::create_dir(settled.join(name)).unwrap();
    }
    let ledger = CompletionLedger::new(journal(folder.path(), "b"));
    let error = enter_lost(&ledger, "two", &mut VecDeque::new(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("-00000000.one.usage"), "{error}");
    assert_eq!(ledger.len(), 1);
    assert_eq!(fs::read_dir(&settled).unwrap().count(), 2, "what was entered is deleted");
}

#[test]
fn a_kept_segment_stays_until_what_our_journal_does_not_take_of_it_is_settled() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "a");
    let full =
        Spool::new(spool::SpoolOptions { max_bytes: 100, ..journal::options(folder.path().to_owned(), "b", DATABASE) });
    full.set_scope("this".to_owned());
    let (ledger, mut unwritten) = (CompletionLedger::new(full), Vec::new());
    let kept = || fs::read_dir(folder.path().join("settled")).unwrap().count();
    for _ in 0..2 {
        enter_lost(&ledger, "two", &mut VecDeque::new(), &mut unwritten).unwrap();
        assert_eq!((ledger.len(), unwritten.len(), kept()), (1, 1, 1));
    }
    let lost = delete_if_safe(&ledger, unwritten.remove(0)).unwrap();
    let rows = ledger.take_to_write(10);
    ledger.mark_written(&rows);
    ledger.remove(&[rows[0].id.clone()]);
    assert!(delete_if_safe(&ledger, lost).is_none());
    assert_eq!(kept(), 0);
}
