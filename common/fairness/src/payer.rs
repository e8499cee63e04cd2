//! The key of a limit.

use std::{collections::HashMap, convert::Infallible, hash::Hash};

use domain::{PayingAccount, ProjectId, SessionId, UserId};

use super::Client;

/// A key with a share of its own in a limited resource. It must not be free to create, or its owner could have many
/// shares. If several payers belong to one customer, their [group](Self::group) has a share as well.
pub trait Payer: Clone + Eq + Hash {
    /// The type that identifies a group.
    type Group: Clone + Eq + Hash;

    /// Returns the larger payer that this one belongs to.
    fn group(&self) -> Option<Self::Group> {
        None
    }
}

impl Payer for Client {
    type Group = Self;

    fn group(&self) -> Option<Self> {
        self.block()
    }
}

/// Grouped with the other accounts of the person behind it.
impl Payer for PayingAccount {
    type Group = UserId;

    fn group(&self) -> Option<UserId> {
        self.person().cloned()
    }
}

impl Payer for SessionId {
    type Group = Infallible;
}

impl Payer for ProjectId {
    type Group = Infallible;
}

/// Returns the key that gives up a place in a full queue for `newcomer`, or `None` if the newcomer is refused.
/// `waiting` yields each key with the number of its places. The key whose group has the most places gives one up,
/// unless the newcomer's group would then have the same number. This keeps one payer from filling a queue that all
/// share.
pub(crate) fn choose_evicted_key<'k, K: Payer + 'k>(
    newcomer: &K,
    waiting: impl Iterator<Item = (&'k K, usize)> + Clone,
) -> Option<K> {
    let mut groups: HashMap<K::Group, usize> = HashMap::new();
    for (key, places) in waiting.clone() {
        if let Some(group) = key.group() {
            *groups.entry(group).or_default() += places;
        }
    }
    let of_group = |key: &K, own: usize| key.group().and_then(|group| groups.get(&group).copied()).unwrap_or(own);
    let own = waiting.clone().find(|(key, _)| *key == newcomer).map_or(0, |(_, places)| places);
    let (key, own_places) = waiting.max_by_key(|(key, own)| (of_group(key, *own), *own))?;
    (of_group(key, own_places) > of_group(newcomer, own) + 1).then(|| key.clone())
}

#[cfg(test)]
impl Payer for u64 {
    type Group = Infallible;
}

#[cfg(test)]
impl<'a> Payer for &'a str {
    type Group = &'a str;

    /// The text before a slash.
    fn group(&self) -> Option<&'a str> {
        self.split_once('/').map(|(group, _)| group)
    }
}

/// A group's share is the whole divided by this, or one payer's share if that is larger.
pub(crate) const GROUP_DIVISOR: usize = 4;

/// Returns how much a payer may hold while `free` of `total` is left: all of `share` until half is in use, then less
/// and less. However many payers are greedy, some is left for newcomers.
pub(crate) fn current_share(share: usize, free: usize, total: usize) -> usize {
    if total == 0 {
        return share;
    }
    let shrunk = (share as u128) * 2 * (free as u128) / (total as u128);
    usize::try_from(shrunk).unwrap_or(usize::MAX).clamp(1, share.max(1)).min(share)
}
