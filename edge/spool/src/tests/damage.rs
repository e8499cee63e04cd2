//! Damage in a segment costs only the damaged records, and copies of a segment are recognized.

use super::*;

/// Writes ten words to disk for an owner that is dead.
fn ten(folder: &Path) -> (PathBuf, Vec<String>) {
    let dead = spool(folder, "a");
    let words: Vec<String> = (0..10).map(|number| format!("word {number}")).collect();
    for word in &words {
        dead.append(&word.as_str()).unwrap();
    }
    (folder.join("a-00000000.words"), words)
}

/// Damages ten records. Returns those still read, whether none is known to be missing, and the number lost.
fn found(damage: impl FnOnce(&mut Vec<u8>)) -> (Vec<String>, bool, u64) {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = ten(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    LOST.with(|lost| lost.set(0));
    let abandoned = take_over(&spool(folder.path(), "b")).unwrap();
    (abandoned.contents, abandoned.is_complete, LOST.with(std::cell::Cell::get))
}

fn position(bytes: &[u8], of: &str) -> usize {
    bytes.windows(of.len()).position(|window| window == of.as_bytes()).unwrap()
}

#[test]
fn damage_costs_only_the_records_that_are_damaged() {
    let all: Vec<String> = (0..10).map(|number| format!("word {number}")).collect();
    let without = |numbers: &[usize]| {
        let left = all.iter().enumerate().filter(|(number, _)| !numbers.contains(number));
        left.map(|(_, word)| word.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), (all.clone(), true, 0));
    // Still JSON, but another word.
    let flip = |bytes: &mut Vec<u8>, of: &str, to: u8| {
        let at = position(bytes, of);
        bytes[at] = to;
    };
    assert_eq!(found(|bytes| flip(bytes, "ord 3", b'x')), (without(&[3]), false, 1));
    assert_eq!(
        found(|bytes| {
            flip(bytes, "\"word 3", b'!');
            flip(bytes, "ord 7", b'\n');
        }),
        (without(&[3, 7]), false, 3),
        "what was a line is two"
    );
    // The line end of a record, and of a seal.
    assert_eq!(found(|bytes| flip(bytes, "\n{\"seal", b'x')).0, without(&[0]));
    assert_eq!(found(|bytes| flip(bytes, "\n\"word 4", b'x')).0, without(&[4]));
    // A damaged seal alone costs nothing.
    let (words, is_complete, lost) = found(|bytes| flip(bytes, "{\"seal", b'x'));
    assert_eq!((words, is_complete, lost), (all.clone(), false, 1));
    // The head.
    assert_eq!(found(|bytes| flip(bytes, "{\"owner", b'x')).0, all);
    // A torn tail, within a record and within a seal.
    assert_eq!(found(|bytes| bytes.truncate(position(bytes, "ord 9"))), (without(&[9]), false, 1));
    assert_eq!(found(|bytes| bytes.truncate(bytes.len() - 4)), (all, true, 0));
}

#[test]
fn a_copy_is_known_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let (path, words) = ten(folder.path());
    let copy = folder.path().join("aaaaaaaaaaaaaaaa-00000000.words");
    fs::copy(&path, &copy).unwrap();
    let heir = spool(folder.path(), "b");
    let abandoned = take_over(&heir).unwrap();
    assert_eq!((abandoned.owner.as_str(), &abandoned.contents), ("a", &words), "once");
    abandoned.delete();
    // A copy without its original is taken over as the owner's; the reader knows what was taken before.
    let abandoned = heir.take_over_unread().unwrap().unwrap();
    assert_eq!(abandoned.owner, "a");
    abandoned.delete();
    assert_eq!(files(folder.path()), 0);
    // Copies of living owners' segments are left alone, including our own.
    let living = spool(folder.path(), "c");
    living.append(&"word").unwrap();
    fs::copy(folder.path().join("c-00000000.words"), folder.path().join("d-00000003.words")).unwrap();
    assert!(take_over(&heir).is_none() && take_over(&living).is_none());
}
