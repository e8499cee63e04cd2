//! Completions from the journals of dead edges.

use super::*;

/// Returns the records in the journal of `ledger`, as lines.
fn lines(ledger: &CompletionLedger) -> Vec<String> {
    let segments = ledger.journal.own_segments();
    let text: String = segments.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let is_none =
        |line: &str| ["journal", "boot", "owner", "seal"].iter().any(|head| line.starts_with(&format!("{{\"{head}\"")));
    text.lines().filter(|line| !is_none(line)).map(str::to_owned).collect()
}

/// If killed between two records, it would leave a completion that is charged.
#[test]
fn what_used_nothing_is_one_line_of_the_journal() {
    let (ledger, _folder) = ledger();
    let (withdrawn, released) = (row(300), row(200));
    ledger.withdraw(&withdrawn);
    ledger.adopt(&AbandonedCompletion { row: released.clone(), has_ended: true, is_released: true });
    assert_eq!(lines(&ledger).len(), 2);
    for (line, row) in lines(&ledger).iter().zip([&withdrawn, &released]) {
        let mut completions = JournaledCompletions::default();
        completions.apply(serde_json::from_str(line).unwrap());
        let found: Vec<_> = completions.iter().cloned().collect();
        assert_eq!(found, [AbandonedCompletion { row: row.clone(), has_ended: true, is_released: true }]);
    }
    // Postgres only needs it if others have settled it.
    assert_eq!(ids(&ledger.take_to_release(10)), [&withdrawn.id, &released.id]);
    ledger.finish_release(&withdrawn.id, Some(ReleaseOutcome::Missing));
    ledger.finish_release(&released.id, Some(ReleaseOutcome::Released));
    assert_eq!(ids(&ledger.take_to_write(10)), [&withdrawn.id]);
    assert_eq!(ledger.len(), 1);
}

#[test]
fn what_used_nothing_and_the_journal_does_not_take_is_no_gap() {
    let (_, folder) = ledger();
    // It does not know its database.
    let ledger = CompletionLedger::new(journal::open(folder.path().to_owned(), "other", DATABASE));
    ledger.withdraw(&row(300));
    ledger.adopt(&AbandonedCompletion { row: row(300), has_ended: true, is_released: true });
    assert_eq!(ledger.len(), 2);
    assert!(!ledger.has_gaps());
}
