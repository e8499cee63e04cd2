use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use super::*;

mod damage;
mod kept;
mod slow_disk;
mod unreadable;

const KEPT_FOR: Duration = Duration::from_mins(15);

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Word(String);

impl SpoolRecord for Word {
    type Ref<'a> = &'a str;

    const SUFFIX: &'static str = ".words";
    const KIND: &'static str = "words";
    const ERRORS: &'static str = "test_errors_total";
    const SLOW: &'static str = "test_slow_total";
    const FOREIGN: &'static str = "test_foreign";

    fn note_damaged(lost: u64) {
        LOST.with(|all| all.set(all.get() + lost));
    }
}

thread_local! {
    static LOST: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn options(folder: &Path, owner: &str) -> SpoolOptions {
    SpoolOptions {
        folder: folder.to_owned(),
        owner: owner.to_owned(),
        former_scope: "at home".to_owned(),
        segment_bytes: 1_000,
        released_bytes: 1_000,
        max_bytes: 10_000,
        kept_for: KEPT_FOR,
        kept_bytes: 10_000,
    }
}

fn spool(folder: &Path, owner: &str) -> Spool<Word> {
    spool_of("here", folder, owner)
}

fn spool_of(scope: &str, folder: &Path, owner: &str) -> Spool<Word> {
    let spool = Spool::new(options(folder, owner));
    spool.set_scope(scope.to_owned());
    spool
}

fn take_over(spool: &Spool<Word>) -> Option<AbandonedSegments<Vec<String>>> {
    spool.take_over(|words: &mut Vec<String>, Word(word)| words.push(word)).unwrap()
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.filter(|entry| entry.as_ref().unwrap().path().is_file()).count())
}

fn keep(spool: &Spool<Word>, word: &str) {
    let segment = spool.append(&word).unwrap();
    spool.release([segment]);
    spool.close();
}

fn lost(spool: &Spool<Word>) -> Vec<AbandonedSegments<Vec<String>>> {
    let mut paths = spool.lost_segments().unwrap();
    paths.sort();
    let fold = |words: &mut Vec<String>, Word(word)| words.push(word);
    paths.into_iter().filter_map(|path| spool.take_over_lost(path, fold).unwrap()).collect()
}

#[test]
fn the_segments_of_a_dead_owner_are_taken_over_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let dead = spool(folder.path(), "a-1");
    let long = "x".repeat(990);
    for word in ["one", &long, "two", "three"] {
        dead.append(&word).unwrap();
    }
    assert_eq!(files(folder.path()), 2);

    let other = spool(folder.path(), "b");
    assert!(take_over(&other).is_none(), "the owner lives");
    drop(dead);
    assert!(take_over(&spool_of("there", folder.path(), "c")).is_none(), "the scope is another");
    assert!(take_over(&Spool::new(options(folder.path(), "c"))).is_none(), "the scope is not known");

    let abandoned = take_over(&other).unwrap();
    assert_eq!(abandoned.contents, ["one", &long, "two", "three"]);
    assert_eq!((abandoned.owner.as_str(), abandoned.is_complete), ("a-1", true));
    assert!(take_over(&spool(folder.path(), "d")).is_none(), "another process has taken them over");
    abandoned.delete();
    assert_eq!(files(folder.path()), 0);
}

/// A spool that searches for segments of dead owners may find a living owner's new segment before it is locked.
#[test]
fn what_an_owner_was_told_is_kept_is_found_once_though_others_look_while_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let (found, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let look = |other: &Spool<Word>| {
        while let Some(abandoned) = take_over(other) {
            found.lock().unwrap().extend(abandoned.contents.clone());
            abandoned.delete();
        }
    };
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        let looking = || {
            let other = spool(folder.path(), "other");
            while !is_over.load(Ordering::Relaxed) {
                look(&other);
            }
        };
        scope.spawn(looking);
        scope.spawn(looking);
        for number in 0..1_000 {
            let word = number.to_string();
            kept.extend(spool(folder.path(), &format!("owner-{number}")).append(&&*word).map(|_| word));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    look(&spool(folder.path(), "other"));
    let mut found = found.into_inner().unwrap();
    found.sort();
    kept.sort();
    assert_eq!(found, kept);
    assert!(!kept.is_empty());
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_segment_of_which_nothing_was_written_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    spool(folder.path(), "a").append(&"word").unwrap();
    for name in ["a-00000001.words", "c-00000000.words"] {
        File::create(folder.path().join(name)).unwrap();
    }
    let other = spool(folder.path(), "b");
    let abandoned = take_over(&other).unwrap();
    assert_eq!((abandoned.owner.as_str(), abandoned.is_complete), ("a", true));
    assert_eq!(abandoned.contents, ["word"]);
    abandoned.delete();
    // The machine may have rebooted and lost its contents.
    let abandoned = take_over(&other).unwrap();
    assert_eq!((abandoned.owner.as_str(), abandoned.is_complete), ("c", false));
}

#[test]
fn segments_of_the_former_scope_and_of_an_earlier_run_of_the_machine_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    for (name, head) in [
        ("old-00000000.words", "{\"journal\":\"at home\"}\n"),
        ("rebooted-00000000.words", "{\"journal\":\"here\"}\n{\"boot\":\"another\"}\n"),
    ] {
        fs::write(folder.path().join(name), format!("{head}\"word\"\n")).unwrap();
    }
    let spool = spool(folder.path(), "b");
    for owner in ["old", "rebooted"] {
        let abandoned = take_over(&spool).unwrap();
        assert_eq!((abandoned.owner.as_str(), abandoned.contents.as_slice()), (owner, &["word".to_owned()][..]));
        assert!(!abandoned.is_complete, "its last records may be lost");
        abandoned.delete();
    }
}

#[test]
fn what_is_of_another_scope_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    for owner in ["a", "b"] {
        spool_of("there", folder.path(), owner).append(&"word").unwrap();
    }
    let spool = spool(folder.path(), "c");
    assert!(take_over(&spool).is_none());
    assert_eq!(spool.passed_over().foreign, 2);
    assert_eq!(files(folder.path()), 2, "they are left alone");
}

#[test]
fn the_folder_is_for_its_user_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("spool");
    spool(&folder, "a").append(&"word").unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    let file = fs::metadata(folder.join("a-00000000.words")).unwrap();
    assert_eq!(file.mode() & 0o777, 0o600);
    // Another user may have written the contents.
    for mode in [0o777, 0o770, 0o702] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let other = spool(&folder, "b");
        assert!(other.append(&"word").is_none(), "{mode:o}");
        let refused = other.take_over(|words: &mut Vec<String>, Word(word)| words.push(word)).err().unwrap();
        assert!(refused.to_string().contains(&format!("chmod 700 {}", folder.display())), "{refused}");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(spool(&folder, "c").append(&"word").is_some());
}

#[test]
fn nothing_is_written_before_the_scope_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::<Word>::new(options(folder.path(), "a"));
    assert!(spool.append(&"word").is_none());
    spool.set_scope("here".to_owned());
    assert!(spool.append(&"word").is_some());
}

#[test]
fn an_owner_that_holds_one_lock_keeps_all_its_segments() {
    let folder = tempfile::tempdir().unwrap();
    let owner = spool(folder.path(), "a");
    let first = owner.append(&"x".repeat(1_000).as_str()).unwrap();
    owner.append(&"y").unwrap();
    let copy = folder.path().join("a-00000007.words");
    fs::copy(folder.path().join("a-00000000.words"), &copy).unwrap();
    assert!(take_over(&spool(folder.path(), "b")).is_none());
    owner.release([first]);
    assert!(take_over(&spool(folder.path(), "b")).is_none());
}

#[test]
fn a_line_that_was_cut_off_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let dead = spool(folder.path(), "a");
    dead.append(&"whole").unwrap();
    drop(dead);
    let mut file = File::options().append(true).open(folder.path().join("a-00000000.words")).unwrap();
    file.write_all(b"\"cut o").unwrap();
    assert_eq!(take_over(&spool(folder.path(), "b")).unwrap().contents, ["whole"]);
}

#[test]
fn files_of_another_kind_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a-00000000.usage", "a.words", "a-x.words"] {
        fs::write(folder.path().join(name), "\"word\"\n").unwrap();
    }
    assert!(take_over(&spool(folder.path(), "b")).is_none());
    assert_eq!(files(folder.path()), 3);
}

#[test]
fn a_segment_is_put_aside_with_its_last_record() {
    let folder = tempfile::tempdir().unwrap();
    let spool = spool(folder.path(), "a");
    let long = "x".repeat(400);
    let words: Vec<_> = (0..8).map(|_| spool.append(&long.as_str()).unwrap()).collect();
    assert_eq!(files(folder.path()), 3);
    spool.release(words[1..].iter().copied());
    assert_eq!(files(folder.path()), 2, "the first holds one record, the last is being written");
    spool.close();
    assert_eq!(files(folder.path()), 2, "not all records are released");
    spool.release([words[0]]);
    spool.close();
    assert_eq!(files(folder.path()), 0);
    assert_eq!(files(&folder.path().join("settled")), 3);
}

#[test]
fn nothing_is_left_of_a_spool_that_was_begun_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spool = spool(folder.path(), "a");
    spool.begin();
    spool.begin();
    assert_eq!(files(folder.path()), 1);
    spool.close();
    assert_eq!(files(folder.path()) + files(&folder.path().join("settled")), 0);
}

#[test]
fn own_segments_are_read_while_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let spool = spool(folder.path(), "a");
    let full = spool.append(&"x".repeat(990).as_str()).unwrap();
    spool.append(&"y").unwrap();
    let paths = spool.own_segments();
    spool.release([full]);
    let read = |path: &PathBuf| spool.read_own(path, |words: &mut Vec<String>, Word(word)| words.push(word)).unwrap();
    assert_eq!(paths.iter().map(read).collect::<Vec<_>>(), [None, Some(vec!["y".to_owned()])], "one was put aside");
}

#[test]
fn segments_of_the_dead_are_read_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (dead, foreign, other) =
        (spool(folder.path(), "a"), spool_of("there", folder.path(), "b"), spool(folder.path(), "c"));
    foreign.append(&"z").unwrap();
    let long = "x".repeat(990);
    for word in [&long, "y"] {
        dead.append(&word).unwrap();
    }
    assert!(other.take_over_unread().unwrap().is_none(), "both live");
    drop((dead, foreign));
    let first = |abandoned: &AbandonedSegments<()>| {
        other.read_first(abandoned, |words: &mut Vec<String>, Word(word)| words.push(word)).unwrap()
    };
    let mut abandoned = other.take_over_unread().unwrap().unwrap();
    assert_eq!(abandoned.owner, "a");
    for _ in 0..2 {
        assert_eq!(first(&abandoned), Some(vec![long.clone()]), "as often as it takes");
    }
    abandoned.delete_first();
    assert_eq!(first(&abandoned), Some(vec!["y".to_owned()]));
    // A process that stops halfway leaves the rest to the next one.
    drop(abandoned);
    let mut abandoned = other.take_over_unread().unwrap().unwrap();
    assert_eq!(first(&abandoned), Some(vec!["y".to_owned()]));
    abandoned.delete_first();
    assert_eq!(first(&abandoned), None);
    assert!(other.take_over_unread().unwrap().is_none(), "that of the other scope is left alone");
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn every_segment_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let spool = spool(folder.path(), "a");
    for word in ["x".repeat(990).as_str(), "y"] {
        spool.append(&word).unwrap();
    }
    let unsynced = || {
        let mut state = spool.state();
        let SpoolState { full, current, .. } = &mut *state;
        full.values_mut().chain(current).filter_map(Segment::unsynced_handle).count()
    };
    assert_eq!(unsynced(), 2);
    spool.append(&"z").unwrap();
    assert_eq!(unsynced(), 1);
    spool.append(&"z").unwrap();
    spool.sync();
    assert_eq!(unsynced(), 0);
}

#[test]
fn a_folder_that_cannot_be_written_stops_nobody() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let spool = spool(&file.path().join("folder"), "a");
    assert!(spool.append(&"word").is_none());
    spool.sync();
    spool.close();
}
