//! The order in which accounts get turns to deploy a push: round robin over persons, and over the accounts of each,
//! however many pushes of one are due.

use std::collections::{HashMap, HashSet};

use domain::PayingAccount;

/// The order in which accounts get turns to deploy a push. It remembers the last turn only of accounts with a due push,
/// so that its size is bounded by theirs.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// The number of the last turn of each account that had a due push at the latest call of [`Self::arrange`].
    served: HashMap<PayingAccount, u64>,
    turns: u64,
}

impl RoundRobin {
    /// Sorts accounts, given by the age of their oldest push, into the order of their turns: the person served longest
    /// ago comes first, in any of their accounts. Accounts that are no longer due are forgotten.
    pub(super) fn arrange(&mut self, mut due: Vec<PayingAccount>) -> Vec<PayingAccount> {
        let still: HashSet<&PayingAccount> = due.iter().collect();
        self.served.retain(|account, _| still.contains(account));
        let mut persons: HashMap<&str, u64> = HashMap::new();
        for (account, turn) in &self.served {
            let latest = persons.entry(account.person_or_account()).or_default();
            *latest = (*latest).max(*turn);
        }
        let served_at = |account: &PayingAccount| {
            let of_person = persons.get(account.person_or_account()).copied().unwrap_or_default();
            (of_person, self.served.get(account).copied().unwrap_or_default())
        };
        due.sort_by_key(served_at);
        due
    }

    pub(super) fn serve(&mut self, account: &PayingAccount) {
        self.turns += 1;
        self.served.insert(account.clone(), self.turns);
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, OrgId, UserId};

    use super::*;

    #[test]
    fn turns_go_round_and_newcomers_come_by_their_age() {
        let now = Clock::system().now();
        let [ada, bob, eve] = [(); 3].map(|()| PayingAccount::from(UserId::new(now)));
        let mut order = RoundRobin::default();
        let mut served = Vec::new();
        for _ in 0..4 {
            // Both have many pushes, and Ada's are the oldest.
            let first = order.arrange(vec![ada.clone(), bob.clone()]).remove(0);
            order.serve(&first);
            served.push(first);
        }
        assert_eq!(served, [&ada, &bob, &ada, &bob].map(Clone::clone));
        assert_eq!(order.arrange(vec![ada.clone(), bob.clone(), eve.clone()]), [&eve, &ada, &bob].map(Clone::clone));
        // An account without pushes starts over.
        order.arrange(vec![eve.clone()]);
        assert_eq!(order.arrange(vec![bob.clone(), ada.clone()]), [bob, ada]);
        assert!(order.served.is_empty());
    }

    #[test]
    fn a_person_has_one_turn_in_a_round_however_many_organizations_are_theirs() {
        let now = Clock::system().now();
        let (ada, bob) = (UserId::new(now), PayingAccount::from(UserId::new(now)));
        let orgs = [(); 3].map(|()| PayingAccount::new(OrgId::new(now).into(), Some(ada.clone())));
        let due: Vec<_> = orgs.iter().chain([&bob]).cloned().collect();
        let mut order = RoundRobin::default();
        let served: Vec<_> = (0..6)
            .map(|_| {
                let first = order.arrange(due.clone()).remove(0);
                order.serve(&first);
                first
            })
            .collect();
        assert_eq!(served, [&orgs[0], &bob, &orgs[1], &bob, &orgs[2], &bob].map(Clone::clone));
    }
}
