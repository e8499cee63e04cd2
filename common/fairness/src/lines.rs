//! The order in which keys that wait have their turns: group after group, and within a group key after key.
//!
//! A customer may be many keys: organizations, networks. In one queue of keys they would have one turn each before anybody else has one.

use std::collections::VecDeque;

use super::Payer;

/// The keys that wait. Each is there once.
pub(crate) struct Lines<K: Payer>(VecDeque<Line<K>>);

/// The keys of a group that wait, the next one first; a key that is in no group, alone. Never empty.
struct Line<K: Payer> {
    group: Option<K::Group>,
    keys: VecDeque<K>,
}

impl<K: Payer> Default for Lines<K> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: Payer> Lines<K> {
    /// Puts a key behind those of its group, and a group that does not wait yet behind the others.
    pub(crate) fn push(&mut self, key: K) {
        let group = key.group();
        match self.0.iter_mut().find(|line| group.is_some() && line.group == group) {
            Some(line) => line.keys.push_back(key),
            None => self.0.push_back(Line { group, keys: VecDeque::from([key]) }),
        }
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &K) {
        let Some(at) = self.find(key) else { return };
        self.0[at].keys.retain(|waiting| waiting != key);
        if self.0[at].keys.is_empty() {
            self.0.remove(at);
        }
    }

    /// Puts a key behind those of its group, and its group behind the others. Also where only others of the group wait.
    pub(crate) fn move_back(&mut self, key: &K) {
        let Some(mut line) = self.find(key).and_then(|at| self.0.remove(at)) else { return };
        if let Some(at) = line.keys.iter().position(|waiting| waiting == key)
            && let Some(key) = line.keys.remove(at)
        {
            line.keys.push_back(key);
        }
        self.0.push_back(line);
    }

    /// Takes out the first key that may have a turn, of the groups from the place `at` on; `at` becomes its group's place. `may_group`
    /// judges a group by any of its keys, so that not all of them are judged. The group goes behind the others.
    pub(crate) fn next(
        &mut self,
        at: &mut usize,
        may_group: impl Fn(&K) -> bool,
        may: impl Fn(&K) -> bool,
    ) -> Option<K> {
        while let Some(line) = self.0.get(*at) {
            if line.keys.front().is_some_and(&may_group)
                && let Some(key) = self.take(*at, &may)
            {
                return Some(key);
            }
            *at += 1;
        }
        None
    }

    /// The first key that may have a turn, of the groups from the place `at` on; `at` becomes its group's place.
    pub(crate) fn peek(&self, at: &mut usize, may: impl Fn(&K) -> bool) -> Option<&K> {
        while let Some(line) = self.0.get(*at) {
            if let Some(key) = line.keys.iter().find(|key| may(key)) {
                return Some(key);
            }
            *at += 1;
        }
        None
    }

    /// Takes out the first key that may have a turn of the group at the place `at`, which goes behind the others.
    pub(crate) fn take(&mut self, at: usize, may: impl Fn(&K) -> bool) -> Option<K> {
        let line = self.0.get_mut(at)?;
        let place = line.keys.iter().position(may)?;
        let key = line.keys.remove(place)?;
        if let Some(line) = self.0.remove(at).filter(|line| !line.keys.is_empty()) {
            self.0.push_back(line);
        }
        Some(key)
    }

    /// Keys that wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|line| line.keys.len()).sum()
    }

    fn find(&self, key: &K) -> Option<usize> {
        match key.group() {
            Some(group) => self.0.iter().position(|line| line.group.as_ref() == Some(&group)),
            None => self.0.iter().position(|line| line.group.is_none() && line.keys.contains(key)),
        }
    }
}
