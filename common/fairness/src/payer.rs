//! Who a bound is kept by.

use std::{collections::HashMap, convert::Infallible, hash::Hash};

use domain::{PayingAccount, ProjectId, SessionId, UserId};

use super::Client;

/// One of those who share something, each with a share of its own: the key of a bound. It has to be something that is not free
/// to make, or whoever makes many of them has many shares.
///
/// Where several payers are one customer's, the [group](Self::group) has a share as well.
pub trait Payer: Clone + Eq + Hash {
    /// What names a group.
    type Group: Clone + Eq + Hash;

    /// The larger payer that this one is a part of.
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

/// In a group with the other accounts of the person who stands behind it.
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

/// Returns the key that gives up a place in a full queue for `newcomer`, or `None` if the newcomer is refused. `waiting` yields each key
/// with the number of its places. The key whose group has the most places gives one up, unless the newcomer's group would then have as
/// many. This keeps one payer from filling a queue that all share.
pub(crate) fn to_push_out<'k, K: Payer + 'k>(
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

    /// What stands before a slash.
    fn group(&self) -> Option<&'a str> {
        self.split_once('/').map(|(group, _)| group)
    }
}

/// One of this many parts of the whole is a group's, at least as much as one payer's.
pub(crate) const GROUP_DIVISOR: usize = 4;

/// What a payer may hold while `free` of `total` is left, of which its share is `share`: all of that until half of the whole is held,
/// then less and less, so that whoever comes later finds something. However many are greedy, the rest of the whole is left to others.
pub(crate) fn share_now(share: usize, free: usize, total: usize) -> usize {
    if total == 0 {
        return share;
    }
    let shrunk = (share as u128) * 2 * (free as u128) / (total as u128);
    usize::try_from(shrunk).unwrap_or(usize::MAX).clamp(1, share.max(1)).min(share)
}
