//! The order of waiting keys: round robin over the groups, and over the keys of each group.
//!
//! A customer may have many keys (organizations, networks), which in one queue would all come before anybody else.

use std::collections::VecDeque;

use super::Payer;

pub(crate) struct WaitingLines<K: Payer>(VecDeque<GroupLine<K>>);

/// The waiting keys of a group in order, or a single key without a group. Never empty.
struct GroupLine<K: Payer> {
    group: Option<K::Group>,
    keys: VecDeque<K>,
}

impl<K: Payer> Default for WaitingLines<K> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: Payer> WaitingLines<K> {
    /// Appends a key to its group, and a new group to the groups.
    pub(crate) fn push(&mut self, key: K) {
        let group = key.group();
        match self.0.iter_mut().find(|line| group.is_some() && line.group == group) {
            Some(line) => line.keys.push_back(key),
            None => self.0.push_back(GroupLine { group, keys: VecDeque::from([key]) }),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let Some(at) = self.find(key) else { return };
        self.0[at].keys.retain(|waiting| waiting != key);
        if self.0[at].keys.is_empty() {
            self.0.remove(at);
        }
    }

    /// Moves a key to the end of its group and the group to the end, even if only other keys of the group wait.
    pub(crate) fn move_back(&mut self, key: &K) {
        let Some(mut line) = self.find(key).and_then(|at| self.0.remove(at)) else { return };
        if let Some(at) = line.keys.iter().position(|waiting| waiting == key)
            && let Some(key) = line.keys.remove(at)
        {
            line.keys.push_back(key);
        }
        self.0.push_back(line);
    }

    /// Takes the first key that may have a turn, from the group at index `at` on; updates `at` to its group.
    /// `may_group` judges a group by any one of its keys, to save time. The group moves to the end.
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

    /// Returns the first key that may have a turn, from the group at index `at` on; updates `at` to its group.
    pub(crate) fn peek(&self, at: &mut usize, may: impl Fn(&K) -> bool) -> Option<&K> {
        while let Some(line) = self.0.get(*at) {
            if let Some(key) = line.keys.iter().find(|key| may(key)) {
                return Some(key);
            }
            *at += 1;
        }
        None
    }

    /// Takes the first key that may have a turn from the group at index `at`, and moves the group to the end.
    pub(crate) fn take(&mut self, at: usize, may: impl Fn(&K) -> bool) -> Option<K> {
        let line = self.0.get_mut(at)?;
        let place = line.keys.iter().position(may)?;
        let key = line.keys.remove(place)?;
        if let Some(line) = self.0.remove(at).filter(|line| !line.keys.is_empty()) {
            self.0.push_back(line);
        }
        Some(key)
    }

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
