//! An account in its role as payer.

use crate::{Account, UserId};

/// An account together with the person behind it: the person themselves, or the creator of the organization.
///
/// Limits by account also apply by person, because organizations are free to create. The person is unknown if the
/// organization's creator has no account any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PayingAccount {
    account: Account,
    person: Option<UserId>,
}

impl PayingAccount {
    /// Creates a payer from an account and, for an organization, its creator.
    pub fn new(account: Account, creator: Option<UserId>) -> Self {
        let person = account.as_user().cloned().or(creator);
        Self { account, person }
    }

    /// Returns the account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the person behind the account.
    pub fn person(&self) -> Option<&UserId> {
        self.person.as_ref()
    }

    /// Returns the id under which all usage of the person is counted: the organization's if the person is unknown.
    pub fn person_or_account(&self) -> &str {
        self.person.as_ref().map_or(self.account.as_str(), UserId::as_str)
    }
}

/// Creates a payer without a known creator.
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
