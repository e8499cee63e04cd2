use domain::{Timestamp, TokenId, UserId, usage::Microcents};

use super::*;

const DATABASE: &str = "postgres://svc:secret@db.example/svc";

fn row(completion: u64) -> UsageRow {
    let now = Timestamp::from_unix_millis(1_790_000_000_000);
    UsageRow {
        id: CompletionId::new(now),
        account: UserId::new(now).into(),
        token: TokenId::new(now),
        model: "svc/small".into(),
        provider: "a".into(),
        prompt: 1,
        completion,
        estimated: true,
        cost: Microcents(1),
        at: now,
    }
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn another_edge_takes_over_what_a_dead_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let (open, ended, released) = (row(10), row(20), row(30));
    let dead = Journal::new(folder.path().to_owned(), "a", DATABASE);
    for line in [&open, &ended, &released] {
        dead.append(&Line::Open(line)).unwrap();
    }
    let ended = UsageRow { completion: 2, estimated: false, ..ended };
    dead.append(&Line::Ended(&ended)).unwrap();
    dead.append(&Line::Released(&released.id)).unwrap();

    let other = Journal::new(folder.path().to_owned(), "b", DATABASE);
    assert!(other.legacy().unwrap().is_none(), "the first still lives");
    let elsewhere = Journal::new(folder.path().to_owned(), "c", "postgres://svc:secret@db.example/another");
    drop(dead);
    assert!(elsewhere.legacy().unwrap().is_none(), "it counts for another database");

    // Cut off in the middle of a line.
    let path = folder.path().join(format!("a-00000000{SUFFIX}"));
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"ended\":{\"id\":\"cmp_").unwrap();
    drop(file);

    let legacy = other.legacy().unwrap().unwrap();
    let mut expected = vec![(open, false), (ended, false), (released, true)];
    expected.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    assert_eq!(legacy.rows, expected);
    legacy.remove();
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_segment_goes_when_nothing_in_it_is_owed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::new(folder.path().to_owned(), "a", DATABASE);
    let long = UsageRow { provider: "p".repeat(1024 * 1024), ..row(1) };
    let first = Segments::of(journal.append(&Line::Open(&long)));
    let rest: Vec<Segments> = (0..8).map(|_| Segments::of(journal.append(&Line::Open(&long)))).collect();
    assert_eq!(files(folder.path()), 3);
    journal.forget(&rest);
    assert_eq!(files(folder.path()), 2, "the first holds one line that is owed, the last is being written");
    journal.close();
    assert_eq!(files(folder.path()), 2, "not everything was forgotten");
    journal.forget(&[first]);
    journal.close();
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_password_is_no_part_of_the_database_and_its_name_is() {
    assert_eq!(identity(DATABASE), identity("postgres://other:word@db.example:5432/svc?sslmode=require"));
    assert_ne!(identity(DATABASE), identity("postgres://svc:secret@db.example/svc2"));
    assert!(!identity(DATABASE).contains("secret"));
}

#[test]
fn a_folder_that_cannot_be_written_stops_nobody() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let journal = Journal::new(file.path().join("folder"), "a", DATABASE);
    assert!(journal.append(&Line::Open(&row(1))).is_none());
    journal.forget(&[Segments::of(None)]);
    journal.close();
}
