//! Sends the letters of the queue, over a few connections to the mail server, and forgets old ones.
//!
//! A letter is sent at least once: it is marked when the server has taken it, and a program that dies in between leaves it to be
//! sent again, under the same `Message-ID`. What is wrong with one letter counts against that letter; what is wrong with the
//! server counts against none, and this job leaves the server alone for a while.

mod back_off;

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use db::letters::{self, TakenLetter};
use domain::{LetterId, Timestamp};
use futures_util::future::join_all;

use self::back_off::{Outage, next_attempt};
use super::{Batch, Job};
use crate::{
    app::App,
    mail::{SendError, Session, kinds::Kind, message::Outgoing, outbox},
    metrics,
};

/// Letters that are taken at a time.
const BATCH: i64 = 100;
/// Connections to the mail server.
const SESSIONS: usize = 4;
/// Time for which a letter that was taken is nobody else's. Longer than the job's lease, so that no two send it.
const TAKEN_FOR: Duration = Duration::from_mins(10);
/// Time after which a batch takes on no further letter, well within the job's lease.
const BATCH_TIME: Duration = Duration::from_mins(3);
/// Conversations in a row that break off before the server counts as away.
const BROKEN_OFF: u32 = 2;
/// Pause of a letter whose invoice is not rendered yet.
const UNRENDERED_PAUSE: Duration = Duration::from_secs(15);
/// Age from which a letter that is not about money is not sent any more, whatever it waited for.
const STALE_AFTER: Duration = Duration::from_hours(7 * 24);
/// Age from which a letter that was sent or given up is deleted.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// Letters that are given up or deleted in one statement.
const SETTLED: i64 = 1_000;
/// Bytes of a server's words that are kept.
const ERROR_BYTES: usize = 500;
/// Interval at which letters are counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// Counts the letters that wait, until the program stops.
pub(super) fn start(app: &App) {
    let counting = app.clone();
    app.tasks.spawn(async move { counting.stopping.run_until_cancelled(count(&counting)).await });
}

async fn count(app: &App) {
    let kept = Kind::about_money();
    loop {
        match db::in_time(letters::waiting(&app.db, &kept)).await {
            Ok(waiting) => metrics::letters(waiting, app.clock.now()),
            Err(error) => tracing::debug!(%error, "letters could not be counted"),
        }
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// Sends letters that are due. Without a mail server they wait.
#[derive(Default)]
pub(super) struct SendDue {
    outage: Mutex<Outage>,
}

impl Job for SendDue {
    const NAME: &'static str = "send letters";
    const EVERY: Duration = Duration::from_secs(2);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        metrics::letters_given_up(give_up_stale(app).await?);
        letters::settle_unsubscribed(&app.db, now).await?;
        if !app.mailer.is_configured() || self.outage().lasts(now) {
            return Ok(Batch::of(0, BATCH));
        }
        let taken = letters::take(&app.db, now, now + TAKEN_FOR, BATCH).await?;
        if taken.is_empty() {
            return Ok(Batch::of(0, BATCH));
        }
        // One batch under a lease: the next comes in two seconds, and none is cut off by the lease's end.
        let batch = Batch { done: u64::try_from(taken.len()).unwrap_or(u64::MAX), full: false };
        let sessions = taken.len().min(SESSIONS);
        let queue = Queue::new(taken, now + BATCH_TIME);
        let worked = join_all((0..sessions).map(|_| work(app, &queue))).await;
        let (left, failure) = queue.into_rest();
        if let Some(error) = failure {
            let until = self.outage().begin(app.clock.now());
            letters::put_off(&app.db, &left, until).await?;
            worked.into_iter().collect::<anyhow::Result<()>>()?;
            anyhow::bail!("no letters are sent until {until}: {error}");
        }
        letters::put_off(&app.db, &left, app.clock.now()).await?;
        worked.into_iter().collect::<anyhow::Result<()>>()?;
        *self.outage() = Outage::default();
        Ok(batch)
    }
}

impl SendDue {
    fn outage(&self) -> std::sync::MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up letters that have waited for too long, unless they are about money, and returns how many.
async fn give_up_stale(app: &App) -> Result<u64, sqlx::Error> {
    let (now, reason) = (app.clock.now(), "it was not sent within a week");
    letters::give_up_stale(&app.db, now, now - STALE_AFTER, &Kind::about_money(), reason, SETTLED).await
}

/// The letters of a batch, which all sessions take from.
struct Queue {
    state: Mutex<QueueState>,
    /// The time after which no further letter is taken on.
    until: Timestamp,
}

struct QueueState {
    letters: VecDeque<TakenLetter>,
    /// Why the server takes no letters.
    failure: Option<SendError>,
}

impl Queue {
    fn new(letters: Vec<TakenLetter>, until: Timestamp) -> Self {
        Self { state: Mutex::new(QueueState { letters: letters.into(), failure: None }), until }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next letter; `None` when there is none, or the server has failed, or the time is over.
    fn next(&self, now: Timestamp) -> Option<TakenLetter> {
        let mut state = self.state();
        if state.failure.is_some() || now > self.until { None } else { state.letters.pop_front() }
    }

    /// Puts a letter back that was not tried.
    fn put_back(&self, letter: TakenLetter) {
        self.state().letters.push_front(letter);
    }

    /// Has every session stop, because the server takes no letters.
    fn fail(&self, error: SendError) {
        self.state().failure.get_or_insert(error);
    }

    /// The letters that were not tried, and the server's failure.
    fn into_rest(self) -> (Vec<LetterId>, Option<SendError>) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.letters.into_iter().map(|letter| letter.id).collect(), state.failure)
    }
}

/// Sends letters of the batch one after another over one session, which is opened again after a failure.
async fn work(app: &App, queue: &Queue) -> anyhow::Result<()> {
    let mut open: Option<Session> = None;
    let mut broken_off = 0;
    while let Some(row) = queue.next(app.clock.now()) {
        let Some(outgoing) = prepare(app, &row).await? else { continue };
        let is_fresh = open.is_none();
        let mut session = match open.take() {
            Some(session) => session,
            None => match app.mailer.open().await {
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
                letters::sent(&app.db, &row.id, app.clock.now()).await?;
                metrics::letter_sent();
                (open, broken_off) = (Some(session), 0);
            }
            // Servers end a session after so many letters, or some idle time.
            Err(SendError::Server { .. }) if !is_fresh => queue.put_back(row),
            Err(error @ SendError::Server { .. }) => {
                queue.put_back(row);
                queue.fail(error);
                break;
            }
            Err(error) => {
                refuse(app, &row, &error).await?;
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
        app.mailer.close(session).await;
    }
    Ok(())
}

/// Writes the letter of a row; `None` when it is not to be sent now.
async fn prepare(app: &App, row: &TakenLetter) -> anyhow::Result<Option<Outgoing>> {
    let files = match &row.invoice {
        None => None,
        Some(invoice) => {
            let files = letters::invoice_files(&app.db, invoice).await?;
            if files.is_none() {
                let next = app.clock.now() + UNRENDERED_PAUSE;
                letters::put_off(&app.db, std::slice::from_ref(&row.id), next).await?;
                return Ok(None);
            }
            files
        }
    };
    match outbox::write(&app.mailer, &app.master_key, row, files) {
        Ok(outgoing) => Ok(Some(outgoing)),
        Err(error) => {
            refuse(app, row, &error).await?;
            Ok(None)
        }
    }
}

/// Notes that a letter was refused, and decides whether it is tried again.
async fn refuse(app: &App, row: &TakenLetter, error: &SendError) -> anyhow::Result<()> {
    let is_final = matches!(error, SendError::Refused { .. });
    let is_kept = Kind::parse(&row.kind).is_some_and(Kind::is_about_money);
    let next = next_attempt(row.attempts, is_final, is_kept).map(|pause| app.clock.now() + pause);
    let mut words = error.to_string();
    words.truncate(words.floor_char_boundary(ERROR_BYTES));
    letters::refused(&app.db, &row.id, &words, next).await?;
    let letter = &row.id;
    if let Some(next) = next {
        tracing::info!(%letter, %next, "a letter was not taken; it is tried again: {words}");
    } else {
        metrics::letters_given_up(1);
        tracing::warn!(%letter, "a letter is given up: {words}");
    }
    Ok(())
}

/// Deletes old letters.
pub(super) struct Forget;

impl Job for Forget {
    const NAME: &'static str = "forget letters";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let deleted = letters::delete_old(&app.db, app.clock.now() - KEPT, SETTLED).await?;
        Ok(Batch::of(usize::try_from(deleted)?, SETTLED))
    }
}
