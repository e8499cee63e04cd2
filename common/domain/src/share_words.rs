//! The words of share names: a quality, a thing of nature, an animal. `share_words.txt` has one list per line.

use std::sync::LazyLock;

use rand::seq::IndexedRandom as _;

use super::ShareName;

static LISTS: LazyLock<Vec<Vec<&'static str>>> =
    LazyLock::new(|| include_str!("share_words.txt").lines().map(|line| line.split(' ').collect()).collect());

impl ShareName {
    /// Creates a name of three random words, out of some twenty million. It may be taken.
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let words: Vec<&str> = LISTS.iter().filter_map(|list| list.choose(&mut rng).copied()).collect();
        Self::from_words(&words.join("-"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_list_is_long_and_every_word_short_and_once_in_its_list() {
        assert_eq!(LISTS.len(), 3);
        for list in LISTS.iter() {
            assert!(list.len() > 200);
            assert_eq!(list.iter().collect::<HashSet<_>>().len(), list.len());
            for word in list {
                assert!((2..=11).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
            }
        }
    }

    #[test]
    fn names_are_valid_and_differ() {
        let names: HashSet<_> = (0..100).map(|_| ShareName::random()).collect();
        assert!(names.len() > 90);
        assert!(names.iter().all(|name| name.as_str().parse::<ShareName>().as_ref() == Ok(name)));
    }
}
