//! An account as somebody who pays.

use crate::{Account, UserId};

/// An account together with the person who stands behind it: a person themselves, or who created the organization. Organizations are free to
/// make, so what is kept by account is kept by person as well.
///
/// The person is unknown where an organization's creator has no account any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PayingAccount {
    account: Account,
    person: Option<UserId>,
}

impl PayingAccount {
    /// An account; if it is an organization's, with the person who created that.
    pub fn new(account: Account, creator: Option<UserId>) -> Self {
        let person = account.as_user().cloned().or(creator);
        Self { account, person }
    }

    /// Returns the account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the person who stands behind the account.
    pub fn person(&self) -> Option<&UserId> {
        self.person.as_ref()
    }

    /// Returns the id under which everything is counted that the person uses, in whichever account; the organization's, if the person is
    /// unknown.
    pub fn person_or_account(&self) -> &str {
        self.person.as_ref().map_or(self.account.as_str(), UserId::as_str)
    }
}

/// A person's account, or an organization's whose creator is not known.
impl From<Account> for PayingAccount {
    fn from(account: Account) -> Self {
        Self::new(account, None)
    }
}

impl From<UserId> for PayingAccount {
    fn from(person: UserId) -> Self {
        Account::User(person).into()
    }
}
