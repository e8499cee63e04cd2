//! The answers that an edge keeps, by name, within bounds, and for a while after their end.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ahash::HashMap;
use domain::PayingAccount;
use fairness::{AmountLimit, HeldAmount, ShareError};
use tokio::time::Instant;

use super::{claim::AnswerClaim, kept::KeptAnswer};

/// The memory of kept answers: a part of that for whole answers, so that the rest stays free for those.
pub(super) struct KeptRoom {
    kept: AmountLimit<PayingAccount>,
    answers: AmountLimit<PayingAccount>,
}

pub(super) struct AnswerStore {
    pub(super) room: KeptRoom,
    answers: Mutex<StoredAnswers>,
}

#[derive(Default)]
struct StoredAnswers {
    by_name: HashMap<String, Arc<KeptAnswer>>,
    /// The ended answers, oldest first, with the time that they ended.
    ended: VecDeque<(Instant, String, Arc<KeptAnswer>)>,
}

pub(super) enum AnswerLookup {
    Kept(Arc<KeptAnswer>),
    /// The answer to another request.
    Other,
    /// There is no answer, and no room for more.
    Full,
    /// There was no answer: this one must be written.
    New(Arc<KeptAnswer>),
}

impl KeptRoom {
    /// Creates the room as a part of `answers`, of which `total` is for all accounts and `share` for one.
    pub(super) fn new(answers: &AmountLimit<PayingAccount>, total: u64, share: u64) -> Self {
        let part = |bytes: u64| bytes / 100 * limits::KEPT_PERCENT;
        Self { kept: AmountLimit::new(part(total), part(share)), answers: answers.clone() }
    }

    pub(super) fn take(
        &self,
        account: &PayingAccount,
        bytes: u64,
    ) -> Result<[HeldAmount<PayingAccount>; 2], ShareError> {
        let mut held = [&self.kept, &self.answers].map(|amounts| amounts.hold(account.clone()));
        held.iter_mut().try_for_each(|held| held.grow(bytes))?;
        Ok(held)
    }
}

impl AnswerStore {
    pub(super) fn new(room: KeptRoom) -> Self {
        Self { room, answers: Mutex::default() }
    }

    fn answers(&self) -> MutexGuard<'_, StoredAnswers> {
        // The code under this lock does not panic.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the answer with this name, or creates an entry for it.
    pub(super) fn enter(
        &self,
        name: &str,
        claim: impl FnOnce() -> AnswerClaim,
        account: &PayingAccount,
        request: &str,
    ) -> AnswerLookup {
        let answers = &mut *self.answers();
        answers.forget_old();
        if let Some(kept) = answers.by_name.get(name) {
            return if kept.claim.request == request { AnswerLookup::Kept(kept.clone()) } else { AnswerLookup::Other };
        }
        if answers.by_name.len() >= limits::KEPT_ANSWERS && !answers.forget_oldest(None) {
            return AnswerLookup::Full;
        }
        let kept = Arc::new(KeptAnswer::new(claim(), account.clone()));
        answers.by_name.insert(name.to_owned(), kept.clone());
        AnswerLookup::New(kept)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<KeptAnswer>> {
        let answers = &mut *self.answers();
        answers.forget_old();
        answers.by_name.get(name).cloned()
    }

    /// Reserves room for `bytes` more of an answer, forgetting other ended answers if needed. If that does not suffice,
    /// the answer itself is no longer kept.
    pub(super) fn make_room(&self, kept: &KeptAnswer, bytes: usize) {
        if kept.written() + bytes as u64 > limits::KEPT_ANSWER_BYTES {
            kept.stop_keeping();
        }
        while let Err(refused) = kept.make_room(&self.room, bytes) {
            let of = (refused == ShareError::Share).then_some(&kept.account);
            if !self.answers().forget_oldest(of) {
                kept.stop_keeping();
                return;
            }
        }
    }

    pub(super) fn keep(&self, name: &str, kept: &Arc<KeptAnswer>) {
        let mut answers = self.answers();
        answers.ended.push_back((Instant::now(), name.to_owned(), kept.clone()));
        answers.forget_old();
    }

    pub(super) fn remove(&self, name: &str, kept: &Arc<KeptAnswer>) {
        self.answers().remove(name, kept);
    }

    pub(super) fn forget_old(&self) {
        self.answers().forget_old();
    }
}

impl StoredAnswers {
    fn forget_old(&mut self) {
        while let Some((ended, ..)) = self.ended.front()
            && ended.elapsed() >= limits::ANSWER_KEPT
        {
            self.forget_oldest(None);
        }
    }

    /// Forgets the answer, of `account` if given, that ended first. Returns false if there is none.
    fn forget_oldest(&mut self, account: Option<&PayingAccount>) -> bool {
        let is_its = |kept: &KeptAnswer| account.is_none_or(|account| kept.account == *account);
        let Some(at) = self.ended.iter().position(|(.., kept)| is_its(kept)) else { return false };
        if let Some((_, name, kept)) = self.ended.remove(at) {
            self.remove(&name, &kept);
        }
        true
    }

    fn remove(&mut self, name: &str, kept: &Arc<KeptAnswer>) {
        if self.by_name.get(name).is_some_and(|found| Arc::ptr_eq(found, kept)) {
            self.by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume::kept::AnswerEnd;

    fn account(name: &str) -> PayingAccount {
        format!("usr_000000000000000000{name}").parse::<domain::UserId>().unwrap().into()
    }

    fn claim(request: &str) -> AnswerClaim {
        AnswerClaim { edge: "e".to_owned(), tag: "t".to_owned(), request: request.to_owned() }
    }

    fn store(share: u64) -> (AnswerStore, AmountLimit<PayingAccount>) {
        let answers = AmountLimit::new(4 * share, share);
        (AnswerStore::new(KeptRoom::new(&answers, 4 * share, share)), answers)
    }

    async fn write(store: &AnswerStore, name: &str, of: &str, bytes: usize) -> Arc<KeptAnswer> {
        let AnswerLookup::New(kept) = store.enter(name, || claim("r"), &account(of), "r") else {
            panic!("{name} is there")
        };
        store.make_room(&kept, bytes);
        kept.write(&vec![b'x'; bytes]).await;
        kept.end(AnswerEnd::Whole);
        store.keep(name, &kept);
        kept
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_found_until_its_time_is_over() {
        let (store, answers) = store(1 << 20);
        drop(write(&store, "a", "1a", 100).await);
        assert!(answers.held() > 0);
        let enter = |request: &str| store.enter("a", || claim(request), &account("1a"), request);
        assert!(matches!(enter("r"), AnswerLookup::Kept(_)) && matches!(enter("another"), AnswerLookup::Other));
        tokio::time::advance(limits::ANSWER_KEPT).await;
        assert!(store.find("a").is_none());
        assert_eq!(answers.held(), 0);
        assert!(matches!(enter("another"), AnswerLookup::New(_)));
    }

    #[tokio::test]
    async fn an_account_pushes_out_its_own_oldest_answers_alone() {
        // An account has room for two.
        let (store, _) = store(4 * limits::KEPT_STEP_BYTES + 100);
        let bytes = usize::try_from(limits::KEPT_STEP_BYTES).unwrap();
        for (name, of) in [("a", "1a"), ("b", "1b"), ("c", "1a"), ("d", "1a")] {
            assert!(write(&store, name, of, bytes).await.is_kept(), "{name}");
        }
        assert_eq!(["a", "b", "c", "d"].map(|name| store.find(name).is_some()), [false, true, true, true]);
        // An answer larger than the whole room is not kept.
        let AnswerLookup::New(kept) = store.enter("e", || claim("r"), &account("1a"), "r") else {
            panic!("it is there")
        };
        store.make_room(&kept, 3 * bytes);
        assert!(!kept.is_kept());
        assert!(store.find("b").is_some());
    }
}
