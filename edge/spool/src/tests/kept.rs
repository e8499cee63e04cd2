//! Segments that are kept after their release, and for how long.

use super::*;

#[test]
fn what_was_kept_of_a_former_history_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (dead, foreign, other) =
        (spool(folder.path(), "a-1"), spool_of("there", folder.path(), "b"), spool(folder.path(), "c"));
    keep(&dead, "x");
    dead.set_history("one");
    foreign.set_history("one");
    keep(&dead, "y");
    keep(&foreign, "z");
    assert!(lost(&other).is_empty(), "no history is known");
    other.set_history("one");
    let found = lost(&other);
    assert_eq!(found.iter().map(|of| (&*of.owner, &*of.contents[0])).collect::<Vec<_>>(), [("a-1", "x")]);
    assert!(lost(&other).is_empty(), "it is being taken over");
    drop(found);
    other.set_history("two");
    let found = lost(&other);
    assert_eq!(found.iter().map(|of| &*of.contents[0]).collect::<Vec<_>>(), ["x", "y"]);
    found.into_iter().for_each(AbandonedSegments::delete);
    assert_eq!(files(&folder.path().join("settled")), 1, "that of the other scope");
}

#[test]
fn a_segment_without_unreleased_records_ends_early_and_is_deleted_where_none_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::<Word>::new(SpoolOptions { released_bytes: 300, kept_bytes: 0, ..options(folder.path(), "a") });
    spool.set_scope("here".to_owned());
    let word = "x".repeat(200);
    let segments: Vec<_> = (0..3).map(|_| spool.append(&word.as_str()).unwrap()).collect();
    assert_eq!(segments[0], segments[2], "it is not full");
    assert_eq!(spool.read_unreleased(segments[0], |words: &mut usize, Word(_)| *words += 1).unwrap(), 3);
    spool.release(segments);
    spool.append(&"y").unwrap();
    assert_eq!(spool.own_segments().len(), 1);
    assert_eq!(files(folder.path()), 1, "the first one is gone");
    assert!(!folder.path().join("settled").exists());
}

#[test]
fn what_is_kept_is_bounded_by_age_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, kept) = (spool(folder.path(), "a"), folder.path().join("settled"));
    let words: Vec<String> = ('a'..='l').map(|letter| letter.to_string().repeat(990)).collect();
    for word in &words {
        keep(&spool, word);
    }
    assert_eq!(files(&kept), 12);
    spool.prune_kept().unwrap();
    assert_eq!(files(&kept), 9, "ten thousand bytes");
    spool.set_history("one");
    assert_eq!(lost(&spool).last().unwrap().contents, words[11..], "the latest ones");
    for entry in fs::read_dir(&kept).unwrap().skip(4) {
        let file = File::options().append(true).open(entry.unwrap().path()).unwrap();
        let since = file.metadata().unwrap().modified().unwrap();
        file.set_modified(since - KEPT_FOR).unwrap();
    }
    spool.prune_kept().unwrap();
    assert_eq!(files(&kept), 4);
}

#[test]
fn its_size_is_bounded_and_released_segments_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let spool = spool(folder.path(), "a");
    let long = "x".repeat(990);
    let mut segments = Vec::new();
    while spool.has_room() {
        segments.push(spool.append(&long.as_str()).unwrap());
    }
    assert_eq!(segments.len(), 5, "half of ten thousand bytes");
    while let Some(segment) = spool.append(&long.as_str()) {
        segments.push(segment);
    }
    assert_eq!(segments.len(), 9);
    let on_disk = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
    assert!(fs::read_dir(folder.path()).unwrap().map(on_disk).sum::<u64>() <= 10_000);
    spool.release(segments.drain(..5));
    assert!(spool.has_room());
    spool.append(&long.as_str()).unwrap();
}
