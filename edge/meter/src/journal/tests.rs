use std::{fs, path::Path};

use domain::usage::{Microcents, UsageCertainty};

use super::{super::fixtures::row, *};

const DATABASE: &str = "postgres://svc:secret@db.example/svc";

fn journal(folder: &Path, edge: &str, database: &str) -> UsageJournal {
    let journal = super::open(folder.to_owned(), edge, DATABASE);
    journal.set_scope(database.to_owned());
    journal
}

fn take_over(journal: &UsageJournal) -> Option<JournaledCompletions> {
    journal.take_over(JournaledCompletions::apply).unwrap().map(|abandoned| abandoned.contents)
}

fn completion(row: UsageRow, has_ended: bool, is_released: bool) -> (CompletionId, AbandonedCompletion) {
    (row.id.clone(), AbandonedCompletion { row, has_ended, is_released })
}

#[test]
fn the_last_record_of_a_completion_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (open, ended, released) = (row(10), row(20), row(30));
    let dead = journal(folder.path(), "a", "this");
    for row in [&open, &ended, &released] {
        dead.append(&JournalRecordRef::Open(row)).unwrap();
    }
    let ended = UsageRow { completion: 2, certainty: UsageCertainty::Reported, ..ended };
    dead.append(&JournalRecordRef::Ended(&ended)).unwrap();
    dead.append(&JournalRecordRef::Released(&released.id)).unwrap();
    drop(dead);

    assert!(take_over(&journal(folder.path(), "b", "another")).is_none(), "the journal is of another database");
    let completions = take_over(&journal(folder.path(), "c", "this")).unwrap();
    let expected = [completion(open, false, false), completion(ended, true, false), completion(released, true, true)];
    assert_eq!(completions, JournaledCompletions(expected.into()));
}

#[test]
fn a_damaged_end_leaves_what_was_reserved_and_a_copy_is_the_same_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (row(10), row(20));
    let dead = journal(folder.path(), "a", "this");
    let end = |row: &UsageRow| UsageRow { completion: 2, certainty: UsageCertainty::Reported, ..row.clone() };
    for row in [&first, &second] {
        dead.append(&JournalRecordRef::Open(row)).unwrap();
        dead.append(&JournalRecordRef::Ended(&end(row))).unwrap();
    }
    drop(dead);
    let path = folder.path().join("a-00000000.usage");
    // A digit, so that it is still a valid record.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"completion\":2", "\"completion\":9", 1)).unwrap();
    fs::copy(&path, folder.path().join("copy-00000000.usage")).unwrap();
    let heir = journal(folder.path(), "b", "this");
    let abandoned = heir.take_over(JournaledCompletions::apply).unwrap().unwrap();
    let expected = [completion(first.clone(), false, false), completion(end(&second), true, false)];
    assert_eq!(abandoned.contents, JournaledCompletions(expected.into()));
    assert_eq!((abandoned.owner.as_str(), abandoned.is_complete), ("a", false));
    assert!(heir.take_over(JournaledCompletions::apply).unwrap().is_none(), "the copy waits for the other one");
    abandoned.delete();
    assert_eq!(heir.take_over(JournaledCompletions::apply).unwrap().unwrap().owner, "a");
}

#[test]
fn what_a_segment_has_is_completed_by_what_the_others_say() {
    let (open, ended, released, unused) = (row(10), row(20), row(30), row(40));
    let end = UsageRow { completion: 2, certainty: UsageCertainty::Reported, ..ended.clone() };
    let segments = [
        [&open, &ended, &released].map(|row| JournalRecord::Open(row.clone())),
        [
            JournalRecord::Ended(end.clone()),
            JournalRecord::Released(released.id.clone()),
            JournalRecord::Unused(unused.clone()),
        ],
    ];
    let (mut index, mut found) = (JournalIndex::default(), Vec::new());
    for records in segments.clone() {
        for record in records {
            index.apply(record);
        }
    }
    for records in segments {
        let mut completions = JournaledCompletions::default();
        for record in records {
            completions.apply(record);
        }
        found.push(completions.into_values().filter_map(|of| index.complete(of)).collect::<Vec<_>>());
    }
    let completions = |of: Vec<(UsageRow, bool, bool)>| {
        let of: BTreeMap<_, _> =
            of.into_iter().map(|(row, ended, released)| completion(row, ended, released)).collect();
        of.into_values().collect::<Vec<_>>()
    };
    let first = completions(vec![(open, false, false), (released, true, true)]);
    assert_eq!(found, [first, completions(vec![(end, true, false), (unused, true, true)])]);
    assert_eq!((index.len(), index.estimated()), (4, 1));
    assert!(index.contains(&ended.id) && !index.contains(&row(50).id));
}

/// A journal as written by the version before the spool.
const OLD_JOURNAL: &str = concat!(
    r#"{"journal":"Mr9ijspmS1TGuXOw"}"#,
    "\n",
    r#"{"open":{"id":"cmp_0000000000000000001a","account":"usr_0000000000000000001b","token":"tok_0000000000000000001c","model":"svc/small","provider":"a","prompt":1,"completion":10,"estimated":true,"cost":1,"at":"2026-09-21T14:13:20Z"}}"#,
    "\n",
    r#"{"ended":{"id":"cmp_0000000000000000001a","account":"usr_0000000000000000001b","token":"tok_0000000000000000001c","model":"svc/small","provider":"a","prompt":3,"completion":4,"estimated":false,"cost":5,"at":"2026-09-21T14:13:20Z"}}"#,
    "\n",
    r#"{"released":"cmp_0000000000000000001d"}"#,
    "\n",
    r#"{"ended":{"id":"cmp_"#,
);

#[test]
fn a_journal_of_the_previous_version_is_read_and_written_alike() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old-edge-00000000.usage"), OLD_JOURNAL).unwrap();
    let completions = take_over(&journal(folder.path(), "a", "this")).unwrap();
    let [completion] = completions.iter().collect::<Vec<_>>()[..] else { panic!("{completions:?}") };
    assert_eq!((completion.row.prompt, completion.row.completion, completion.is_released), (3, 4, false));

    let journal = journal(&folder.path().join("new"), "a", "Mr9ijspmS1TGuXOw");
    let certainty = UsageCertainty::Reserved;
    let open = UsageRow { prompt: 1, completion: 10, certainty, cost: Microcents(1), ..completion.row.clone() };
    journal.append(&JournalRecordRef::Open(&open)).unwrap();
    journal.append(&JournalRecordRef::Ended(&completion.row)).unwrap();
    let written = fs::read_to_string(folder.path().join("new/a-00000000.usage")).unwrap();
    // The previous version skips the lines that are not records.
    let is_known = |line: &&str| !["{\"boot\"", "{\"owner\"", "{\"seal\""].iter().any(|head| line.starts_with(head));
    let known: Vec<_> = written.split_inclusive('\n').filter(is_known).collect();
    assert_eq!(known, OLD_JOURNAL.split_inclusive('\n').take(3).collect::<Vec<_>>());
}

#[test]
fn a_databases_place_is_without_its_credentials() {
    assert_eq!(database_place(DATABASE), database_place("postgres://other:word@db.example:5432/svc?sslmode=require"));
    assert_ne!(database_place(DATABASE), database_place("postgres://svc:secret@db.example/svc2"));
    assert!(!database_place(DATABASE).contains("secret"));
}
