//! The order in which accounts get their turns to deploy a push: round robin, however many pushes of one are due.

use std::collections::{HashMap, HashSet};

use domain::Account;

/// The order in which accounts get turns to deploy a push. It remembers the last turn of each account that has a push due, and
/// of no other, so that it holds no more accounts than are due.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The number of the last turn of each account that had a push due at the latest call of [`Self::arrange`].
    served: HashMap<Account, u64>,
    /// The number of turns that were given.
    turns: u64,
}

impl Order {
    /// Puts accounts, whose oldest push comes first, into the order of their turns: whoever was served longest ago is first.
    /// Accounts that are no longer due are forgotten.
    pub(super) fn arrange(&mut self, mut due: Vec<Account>) -> Vec<Account> {
        let still: HashSet<&Account> = due.iter().collect();
        self.served.retain(|account, _| still.contains(account));
        due.sort_by_key(|account| self.served.get(account).copied().unwrap_or_default());
        due
    }

    /// Notes that an account got a turn.
    pub(super) fn serve(&mut self, account: &Account) {
        self.turns += 1;
        self.served.insert(account.clone(), self.turns);
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, UserId};

    use super::*;

    #[test]
    fn turns_go_round_and_newcomers_come_by_their_age() {
        let now = Clock::system().now();
        let [ada, bob, eve] = [(); 3].map(|()| Account::User(UserId::new(now)));
        let mut order = Order::default();
        let mut served = Vec::new();
        for _ in 0..4 {
            // All of them have pushes enough, and Ada's are the oldest.
            let first = order.arrange(vec![ada.clone(), bob.clone()]).remove(0);
            order.serve(&first);
            served.push(first);
        }
        assert_eq!(served, [&ada, &bob, &ada, &bob].map(Clone::clone));
        assert_eq!(order.arrange(vec![ada.clone(), bob.clone(), eve.clone()]), [&eve, &ada, &bob].map(Clone::clone));
        // Whoever had nothing to do begins anew.
        order.arrange(vec![eve.clone()]);
        assert_eq!(order.arrange(vec![bob.clone(), ada.clone()]), [bob, ada]);
        assert!(order.served.is_empty());
    }
}
