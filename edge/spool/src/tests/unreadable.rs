//! Files that cannot be read among the segments of dead owners.

use super::*;

#[test]
fn a_file_that_cannot_be_read_keeps_nobody_elses_from_being_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a-00000000.words")).unwrap();
    spool(folder.path(), "c").append(&"word").unwrap();
    let other = spool(folder.path(), "b");
    let take_over = || other.take_over(|words: &mut Vec<String>, Word(word)| words.push(word));
    let abandoned = take_over().unwrap().unwrap();
    assert_eq!((abandoned.owner.as_str(), abandoned.contents.as_slice()), ("c", &["word".to_owned()][..]));
    abandoned.delete();
    for error in [take_over().err().unwrap(), other.take_over_unread().err().unwrap()] {
        assert!(error.to_string().contains("a-00000000.words"), "{error}");
    }
    spool(folder.path(), "c").append(&"word").unwrap();
    assert_eq!(other.take_over_unread().unwrap().unwrap().owner, "c");
}
