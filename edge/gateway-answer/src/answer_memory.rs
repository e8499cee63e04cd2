//! Memory for answers that are read whole before they are sent.

use domain::PayingAccount;
use fairness::{AmountLimit, HeldAmount, ShareError};

/// The memory of one answer, released on drop.
pub struct AnswerMemory {
    held: HeldAmount<PayingAccount>,
    bytes: u64,
}

impl AnswerMemory {
    /// Creates an empty reservation; [`grow_to`](Self::grow_to) draws on `account`'s share of the memory for `answers`.
    pub fn new(answers: &AmountLimit<PayingAccount>, account: &PayingAccount) -> Self {
        Self { held: answers.hold(account.clone()), bytes: 0 }
    }

    /// Reserves twice the memory of an answer of `bytes`, since most briefly exist as received and as sent.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), ShareError> {
        let needed = 2 * bytes as u64;
        if needed > self.bytes {
            self.held.grow(needed - self.bytes)?;
            self.bytes = needed;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_beyond_what_is_held_and_once() {
        let account = "usr_0000000000000000001a".parse::<domain::UserId>().unwrap().into();
        let answers = AmountLimit::new(1 << 20, 1 << 20);
        let mut memory = AnswerMemory::new(&answers, &account);
        for (bytes, held) in [(0, 0), (100, 200), (50, 200), (100_000, 200_000), (100_000, 200_000)] {
            memory.grow_to(bytes).unwrap();
            assert_eq!(answers.held(), held);
        }
        assert_eq!((memory.grow_to(1 << 20), answers.held()), (Err(ShareError::Share), 200_000));
        drop(memory);
        assert_eq!(answers.held(), 0);
    }
}
