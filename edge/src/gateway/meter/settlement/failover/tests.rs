use std::fs;

use super::*;
use crate::gateway::meter::{
    fixtures::row,
    journal::{self, Journal},
};

const DATABASE: &str = "postgres://db.example/svc";

fn journal(folder: &std::path::Path, edge: &str) -> Journal {
    let journal = journal::open(folder.to_owned(), edge, DATABASE);
    journal.set_scope("this".to_owned());
    journal
}

/// Has an edge end a completion, and put it aside as one that the history `one` has.
fn keep(folder: &std::path::Path, edge: &str) {
    let ledger = Ledger::new(journal(folder, edge));
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
    // Whichever comes first.
    for name in ["0-00000000.one.usage", "z-00000000.one.usage"] {
        fs::create_dir(settled.join(name)).unwrap();
    }
    let ledger = Ledger::new(journal(folder.path(), "b"));
    let error = enter_lost(&ledger, "two", &mut VecDeque::new()).unwrap_err();
    assert!(error.to_string().contains("-00000000.one.usage"), "{error}");
    assert_eq!(ledger.len(), 1);
    assert_eq!(fs::read_dir(&settled).unwrap().count(), 2, "what was entered is deleted");
}
