//! Payers: the people who decide about an account's money.

use admin_http::error::ApiError;
use app::change::Change;
use db::{
    permits::{self, OrgPermit, Owner},
    quotas,
};
use domain::{Account, UserId};

/// Proof that the actor may decide about an account's money: a person about their own, an owner about their
/// organization's.
#[derive(Debug)]
pub struct BillingPermit {
    account: Account,
    owner: Option<OrgPermit<Owner>>,
}

impl BillingPermit {
    /// Returns the account that pays.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the person who pays for an organization: the owner who acts. A person's own account needs no other.
    pub(super) fn person(&self) -> Option<&UserId> {
        self.owner.as_ref().map(OrgPermit::user)
    }

    /// Locks the account until the end of the transaction, with the lock that everything counted by its plan takes, and
    /// checks again that the actor may decide: an owner may have been demoted since the request began.
    pub(super) async fn lock(&self, change: &mut Change<'_>) -> Result<(), ApiError> {
        match &self.owner {
            Some(permit) => permits::confirm(change, permit).await?,
            None => quotas::lock(change, &self.account).await?,
        }
        Ok(())
    }
}

impl From<UserId> for BillingPermit {
    fn from(user: UserId) -> Self {
        Self { account: Account::User(user), owner: None }
    }
}

impl From<OrgPermit<Owner>> for BillingPermit {
    fn from(owner: OrgPermit<Owner>) -> Self {
        Self { account: Account::Org(owner.id.clone()), owner: Some(owner) }
    }
}
