//! Who a bound is kept by.

use std::{convert::Infallible, hash::Hash};

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
