//! Sends queued letters over a few connections to the mail server, and deletes old ones.
//!
//! A letter is sent at least once: it is marked as sent when the server has accepted it, and a program that dies in
//! between leaves it to be sent again, under the same `Message-ID`. A fault of a letter counts against that letter
//! only; a fault of the server counts against no letter, and pauses this job for a while.

mod back_off;

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use app::{App, metrics};
use db::letters::{self, TakenLetter};
use domain::{LetterId, Timestamp};
use futures_util::future::join_all;
use mail::{SendError, SmtpSession, kinds::LetterKind, message::OutgoingLetter, outbox};

use self::back_off::{ServerOutage, next_attempt};
use super::{BatchOutcome, Job};

const BATCH: i64 = 100;
const SESSIONS: usize = 4;
/// How long a letter is leased: longer than the job's lease, so that no two processes send it.
const TAKEN_FOR: Duration = Duration::from_mins(10);
/// The time after which a batch starts no further letter, well within the job's lease.
const BATCH_TIME: Duration = Duration::from_mins(3);
/// The consecutive broken conversations after which the server counts as unavailable.
const BROKEN_OFF: u32 = 2;
const UNRENDERED_PAUSE: Duration = Duration::from_secs(15);
/// The age at which an unsent letter that is not about money is given up, whatever it waited for.
const STALE_AFTER: Duration = Duration::from_hours(7 * 24);
const KEPT: Duration = Duration::from_hours(90 * 24);
const SETTLED: i64 = 1_000;
const ERROR_BYTES: usize = 500;
const COUNT_EVERY: Duration = Duration::from_secs(15);

pub(super) fn start(app: &App) {
    let counting = app.clone();
    app.tasks.spawn(async move { counting.stopping.run_until_cancelled(count(&counting)).await });
}

async fn count(app: &App) {
    let kept = LetterKind::about_money();
    loop {
        match db::in_time(letters::count_pending(&app.db, &kept)).await {
            Ok(waiting) => metrics::letters(waiting, app.clock.now()),
            Err(error) => tracing::debug!(%error, "letters could not be counted"),
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// Sends due letters. Without a mail server they wait.
#[derive(Default)]
pub(super) struct SendLetters {
    outage: Mutex<ServerOutage>,
}

impl Job for SendLetters {
    const NAME: &'static str = "send letters";
    const EVERY: Duration = Duration::from_secs(2);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        metrics::letters_given_up(give_up_stale(app).await?);
        letters::settle_unsubscribed(&app.db, now).await?;
        if !app.mailer.is_configured() || self.outage().is_active(now) {
            return Ok(BatchOutcome::new(0, BATCH));
        }
        let taken = letters::take_due(&app.db, now, now + TAKEN_FOR, BATCH).await?;
        if taken.is_empty() {
            return Ok(BatchOutcome::new(0, BATCH));
        }
        // One batch per lease: the next follows in two seconds, and the end of the lease interrupts none.
        let batch = BatchOutcome { done: u64::try_from(taken.len()).unwrap_or(u64::MAX), full: false };
        let sessions = taken.len().min(SESSIONS);
        let queue = LetterBatch::new(taken, now + BATCH_TIME);
        let worked = join_all((0..sessions).map(|_| send_letters(app, &queue))).await;
        let (left, failure) = queue.into_rest();
        if let Some(error) = failure {
            let until = self.outage().begin(app.clock.now());
            letters::postpone(&app.db, &left, until).await?;
            worked.into_iter().collect::<anyhow::Result<()>>()?;
            anyhow::bail!("no letters are sent until {until}: {error}");
        }
        letters::postpone(&app.db, &left, app.clock.now()).await?;
        worked.into_iter().collect::<anyhow::Result<()>>()?;
        *self.outage() = ServerOutage::default();
        Ok(batch)
    }
}

impl SendLetters {
    fn outage(&self) -> std::sync::MutexGuard<'_, ServerOutage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up letters that have waited for too long, except those about money, and returns their number.
async fn give_up_stale(app: &App) -> Result<u64, sqlx::Error> {
    let (now, reason) = (app.clock.now(), "it was not sent within a week");
    letters::give_up_stale(&app.db, now, now - STALE_AFTER, &LetterKind::about_money(), reason, SETTLED).await
}

struct LetterBatch {
    state: Mutex<LetterBatchState>,
    /// The time after which no further letter is started.
    until: Timestamp,
}

struct LetterBatchState {
    letters: VecDeque<TakenLetter>,
    /// The error that made the server unavailable.
    failure: Option<SendError>,
}

impl LetterBatch {
    fn new(letters: Vec<TakenLetter>, until: Timestamp) -> Self {
        Self { state: Mutex::new(LetterBatchState { letters: letters.into(), failure: None }), until }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LetterBatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next letter; `None` if there is none, the server has failed or the time is over.
    fn next(&self, now: Timestamp) -> Option<TakenLetter> {
        let mut state = self.state();
        if state.failure.is_some() || now > self.until { None } else { state.letters.pop_front() }
    }

    fn put_back(&self, letter: TakenLetter) {
        self.state().letters.push_front(letter);
    }

    fn fail(&self, error: SendError) {
        self.state().failure.get_or_insert(error);
    }

    fn into_rest(self) -> (Vec<LetterId>, Option<SendError>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.letters.into_iter().map(|letter| letter.id).collect(), state.failure)
    }
}

async fn send_letters(app: &App, queue: &LetterBatch) -> anyhow::Result<()> {
    let mut open: Option<SmtpSession> = None;
    let mut broken_off = 0;
    while let Some(row) = queue.next(app.clock.now()) {
        let Some(outgoing) = prepare(app, &row).await? else { continue };
        let is_fresh = open.is_none();
        let mut session = match open.take() {
            Some(session) => session,
            None => match app.mailer.open_session().await {
                Some(Ok(session)) => session,
                Some(Err(error)) => {
                    queue.put_back(row);
                    queue.fail(error);
                    break;
                }
                None => break,
            },
        };
        match app.mailer.send_queued(&mut session, outgoing).await {
            Ok(()) => {
                letters::mark_sent(&app.db, &row.id, app.clock.now()).await?;
                metrics::letter_sent();
                (open, broken_off) = (Some(session), 0);
            }
            // Servers end a session after some number of letters, or some idle time.
            Err(SendError::Server { .. }) if !is_fresh => queue.put_back(row),
            Err(error @ SendError::Server { .. }) => {
                queue.put_back(row);
                queue.fail(error);
                break;
            }
            Err(error) => {
                record_refusal(app, &row, &error).await?;
                if matches!(error, SendError::BrokenOff(_)) {
                    broken_off += 1;
                    if broken_off >= BROKEN_OFF {
                        queue.fail(error);
                        break;
                    }
                }
            }
        }
    }
    if let Some(session) = open {
        app.mailer.close_session(session).await;
    }
    Ok(())
}

/// Composes the letter of a row; `None` if it must not be sent now.
async fn prepare(app: &App, row: &TakenLetter) -> anyhow::Result<Option<OutgoingLetter>> {
    let files = match &row.invoice {
        None => None,
        Some(invoice) => {
            let files = letters::invoice_files(&app.db, invoice).await?;
            if files.is_none() {
                let next = app.clock.now() + UNRENDERED_PAUSE;
                letters::postpone(&app.db, std::slice::from_ref(&row.id), next).await?;
                return Ok(None);
            }
            files
        }
    };
    match outbox::compose_row(&app.mailer, &app.master_key, row, files) {
        Ok(outgoing) => Ok(Some(outgoing)),
        Err(error) => {
            record_refusal(app, row, &error).await?;
            Ok(None)
        }
    }
}

async fn record_refusal(app: &App, row: &TakenLetter, error: &SendError) -> anyhow::Result<()> {
    let is_final = matches!(error, SendError::Refused { .. });
    let is_kept = LetterKind::parse(&row.kind).is_some_and(LetterKind::is_about_money);
    let next = next_attempt(row.attempts, is_final, is_kept).map(|pause| app.clock.now() + pause);
    let mut words = error.to_string();
    words.truncate(words.floor_char_boundary(ERROR_BYTES));
    letters::record_rejection(&app.db, &row.id, &words, next).await?;
    let letter = &row.id;
    if let Some(next) = next {
        tracing::info!(%letter, %next, "a letter was not taken; it is tried again: {words}");
    } else {
        metrics::letters_given_up(1);
        tracing::warn!(%letter, "a letter is given up: {words}");
    }
    Ok(())
}

pub(super) struct DeleteLetters;

impl Job for DeleteLetters {
    const NAME: &'static str = "forget letters";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let deleted = letters::delete_old(&app.db, app.clock.now() - KEPT, SETTLED).await?;
        Ok(BatchOutcome::new(usize::try_from(deleted)?, SETTLED))
    }
}
