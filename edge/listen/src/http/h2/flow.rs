//! Sends a body over HTTP/2: never more than the visitor accepts on the stream, and charged until the socket has it.
//!
//! A stream that may not send holds hardly any memory: bytes that can be read again are released, and after
//! [`limits::STALL`] the stream is reset. Delays by a slow network, or by a connection window that other streams use
//! up, do not count against the stream; [`ConnectionFlow`] distinguishes them.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use edge_metrics as metrics;
use fairness::budget::{BudgetAccount, ByteGrant, ExhaustedError, ExtraGrant};
use front::ResponseBody;
use h2::{Reason, SendStream};
use http_types::{ChargedChunk, charged_bytes};
use limits::BLOCK_BYTES;
use tokio::time::{Instant, Sleep, sleep_until};

use super::multiplexed::AnswerFuture;
use crate::pace::ReadPace;

tokio::task_local! {
    /// The memory of the stream that this task answers, if it is beyond its client's share.
    static BEYOND: Arc<ExtraGrant>;
}

/// The state that the streams of a connection share.
pub(in crate::http) struct ConnectionFlow {
    pub(super) account: BudgetAccount,
    /// The number of the next wait for a window.
    waits: AtomicU64,
    /// The newest wait that has received a window. The connection's window is assigned in the order of the waits, so a
    /// stream that is passed over waits only for its own window.
    served: AtomicU64,
    sent: AtomicU64,
    /// The connection's own task. A response that is polled there will be polled again in any case.
    task: Option<tokio::task::Id>,
}

enum CutReason {
    /// The visitor reset the stream, or disconnected.
    Over,
    /// The visitor does not read it.
    Stalled,
    /// There is no memory to send it.
    Exhausted,
    Failed,
}

struct BodySender<'f> {
    out: SendStream<ChargedChunk>,
    body: ResponseBody,
    flow: &'f ConnectionFlow,
    pace: ReadPace,
    /// Held by every chunk passed to h2: its reference count shows whether they have been sent.
    token: Option<Arc<()>>,
    timer: Option<Pin<Box<Sleep>>>,
    sent: u64,
}

impl ConnectionFlow {
    /// Creates the flow of a connection, run by the current task, whose bytes are charged to `account`.
    pub(super) fn new(account: BudgetAccount) -> Self {
        let (waits, served, sent) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0));
        Self { account, waits, served, sent, task: tokio::task::try_id() }
    }

    /// Spawns a task for a response that has to wait, and charges its memory to the client.
    ///
    /// Beyond its share a client has a few such tasks, the newest of which replace the oldest: a client that reads its
    /// new responses receives them, whatever it left unread before. If others hold all memory, it has one. If that is
    /// refused as well, the response is dropped, and h2 resets its stream. Half of all memory is reserved for what
    /// responses need besides this: otherwise enough clients with waiting responses could block everybody.
    pub(super) fn wait_for(&self, answering: AnswerFuture) {
        if let Ok(grant) = self.account.client_account().try_take_common(limits::STREAM_BYTES) {
            spawn_with(grant, answering);
            return;
        }
        if let Ok(first) = self.account.take_first(limits::STREAM_BYTES) {
            spawn_with(first, answering);
            return;
        }
        match self.account.take_extra(limits::STREAM_BYTES, limits::STREAMS_BEYOND) {
            Ok(beyond) => drop(tokio::spawn(async move {
                let beyond = Arc::new(beyond);
                tokio::select! {
                    biased;
                    () = beyond.evicted() => metrics::stream_reset(),
                    () = BEYOND.scope(beyond.clone(), answering) => {}
                }
            })),
            Err(ExhaustedError) => metrics::exhausted(),
        }
    }

    fn number(&self) -> u64 {
        self.waits.fetch_add(1, Ordering::Relaxed)
    }

    fn has_served(&self, number: u64) {
        self.served.fetch_max(number, Ordering::Relaxed);
    }
}

fn spawn_with(granted: impl Send + 'static, answering: AnswerFuture) {
    drop(tokio::spawn(async move {
        answering.await;
        drop(granted);
    }));
}

pub(super) async fn send(
    out: SendStream<ChargedChunk>,
    body: ResponseBody,
    grant: Option<ByteGrant>,
    flow: &ConnectionFlow,
) {
    let mut sending = BodySender { out, body, flow, pace: ReadPace::default(), token: None, timer: None, sent: 0 };
    let sent = if sending.body.is_pulled() { sending.pull(grant).await } else { sending.push().await };
    let reason = match sent {
        Ok(()) | Err(CutReason::Over) => return,
        Err(CutReason::Stalled) => {
            metrics::stream_reset();
            Reason::CANCEL
        }
        Err(CutReason::Exhausted) => {
            metrics::exhausted();
            Reason::ENHANCE_YOUR_CALM
        }
        Err(CutReason::Failed) => Reason::INTERNAL_ERROR,
    };
    sending.out.send_reset(reason);
}

impl BodySender<'_> {
    /// Reads from the body what can be sent.
    async fn pull(&mut self, mut grant: Option<ByteGrant>) -> Result<(), CutReason> {
        loop {
            let left = usize::try_from(self.body.left()).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(());
            }
            let room = if self.body.is_paced() { self.room(&mut grant).await? } else { usize::MAX };
            let window = self.window(left.min(BLOCK_BYTES).min(room), &mut grant).await?;
            let most = left.min(window).min(room);
            // A grant for more than can be sent now covers what is held of the block.
            let grant = match grant.take() {
                Some(grant) if grant.bytes() >= charged_bytes(most) => grant,
                _ => self.grant(charged_bytes(most)).await?,
            };
            let bytes = poll_fn(|cx| self.body.poll_next(cx, most)).await;
            let bytes = bytes.ok_or(CutReason::Failed)?.map_err(|error| {
                tracing::warn!(%error, "a body broke off");
                CutReason::Failed
            })?;
            let is_last = bytes.len() == left;
            self.hand_over(bytes, Some(grant), is_last)?;
        }
    }

    /// Waits for the bytes that the body's pace allows. Releases `held` meanwhile.
    async fn room(&mut self, held: &mut Option<ByteGrant>) -> Result<usize, CutReason> {
        poll_fn(|cx| {
            if let Poll::Ready(room) = self.body.poll_room(cx) {
                return Poll::Ready(Ok(room));
            }
            *held = None;
            // The client reset the stream; drop the response.
            self.out.poll_reset(cx).map(|_| Err(CutReason::Over))
        })
        .await
    }

    async fn push(&mut self) -> Result<(), CutReason> {
        loop {
            let next = poll_fn(|cx| {
                if let Poll::Ready(next) = self.body.poll_next(cx, BLOCK_BYTES) {
                    return Poll::Ready(Ok(next));
                }
                // The client reset the stream; drop the response.
                self.out.poll_reset(cx).map(|_| Err(CutReason::Over))
            });
            let mut bytes = match next.await? {
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a body broke off");
                    return Err(CutReason::Failed);
                }
                None => return self.hand_over(Bytes::new(), None, true),
            };
            let mut grant = Some(self.grant(bytes.len() as u64).await?);
            let is_end = http_body::Body::is_end_stream(&self.body);
            if bytes.is_empty() && is_end {
                return self.hand_over(bytes, None, true);
            }
            while !bytes.is_empty() {
                let window = self.window(bytes.len(), &mut None).await?;
                let part = bytes.split_to(bytes.len().min(window));
                let is_rest = bytes.is_empty();
                // The parts are sent in order: the last one takes the grant for all of them.
                let grant = if is_rest { grant.take() } else { None };
                self.hand_over(part, grant, is_rest && is_end)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    fn hand_over(&mut self, bytes: Bytes, grant: Option<ByteGrant>, is_last: bool) -> Result<(), CutReason> {
        self.flow.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.sent += bytes.len() as u64;
        if self.sent >= limits::STALL_BYTES {
            let _ = BEYOND.try_with(|beyond| beyond.keep());
        }
        let token = (!is_last).then(|| self.token.get_or_insert_default().clone());
        let chunk = ChargedChunk::new(bytes, grant, token).counted_by(self.body.counter());
        self.out.send_data(chunk, is_last).map_err(|_| CutReason::Over)
    }

    async fn grant(&mut self, bytes: u64) -> Result<ByteGrant, CutReason> {
        if let Ok(grant) = self.flow.account.try_take(bytes) {
            return Ok(grant);
        }
        let mut granted = std::pin::pin!(self.flow.account.take(bytes, limits::FLIGHT_PATIENCE));
        poll_fn(|cx| {
            if let Poll::Ready(granted) = granted.as_mut().poll(cx) {
                return Poll::Ready(granted.map_err(|ExhaustedError| CutReason::Exhausted));
            }
            self.out.poll_reset(cx).map(|_| Err(CutReason::Over))
        })
        .await
    }

    /// Waits for bytes that may be sent: at least one, and at most about `wanted`. A long wait releases `held`.
    async fn window(&mut self, wanted: usize, held: &mut Option<ByteGrant>) -> Result<usize, CutReason> {
        let number = self.flow.number();
        self.out.reserve_capacity(wanted);
        let mut window = self.out.capacity();
        if window == 0 {
            window = self.wait_for_window(number, held).await?;
        }
        self.flow.has_served(number);
        Ok(window)
    }

    async fn wait_for_window(&mut self, number: u64, held: &mut Option<ByteGrant>) -> Result<usize, CutReason> {
        let (mut since, mut sent_before) = (Instant::now(), self.flow.sent.load(Ordering::Relaxed));
        let mut until = since + limits::PARK_AFTER;
        let mut is_parked = false;
        loop {
            let window = poll_fn(|cx| {
                if let Poll::Ready(window) = self.poll_window(cx) {
                    return Poll::Ready(window.map(Some));
                }
                self.poll_timer(cx, until).map(|()| Ok(None))
            });
            if let Some(window) = window.await? {
                self.pace.record_read(window as u64, since.elapsed());
                return Ok(window);
            }
            let is_on_its_way = self.token.as_ref().is_some_and(|token| Arc::strong_count(token) > 1);
            if is_on_its_way {
                // The network is slow, which is handled below TLS.
                since = Instant::now();
                sent_before = self.flow.sent.load(Ordering::Relaxed);
            } else if !is_parked {
                self.body.park();
                *held = None;
                is_parked = true;
                // By now, what other streams had in flight when this wait started has been sent.
                sent_before = self.flow.sent.load(Ordering::Relaxed);
            } else if since.elapsed() >= limits::STALL_UNDER_PRESSURE
                && (self.flow.account.is_pressed() || self.flow.account.is_blocking_itself())
            {
                return Err(CutReason::Stalled);
            } else if since.elapsed() >= self.pace.remaining() {
                let is_passed_over = self.flow.served.load(Ordering::Relaxed) > number;
                let is_everything_still = self.flow.sent.load(Ordering::Relaxed) == sent_before;
                if is_passed_over || is_everything_still {
                    return Err(CutReason::Stalled);
                }
                // The visitor reads what it requested before.
                since = Instant::now();
                sent_before = self.flow.sent.load(Ordering::Relaxed);
            }
            let patience = if is_parked { self.pace.remaining().max(limits::PARK_AFTER) } else { limits::PARK_AFTER };
            until = (since + patience).min(Instant::now() + limits::STALL_UNDER_PRESSURE);
        }
    }

    fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, CutReason>> {
        loop {
            match self.out.capacity() {
                0 => match ready!(self.out.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(Err(CutReason::Over)),
                },
                window => return Poll::Ready(Ok(window)),
            }
        }
    }

    /// Ready at `until`. Sets no timer while the connection polls the response.
    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<()> {
        if self.flow.task.is_some() && tokio::task::try_id() == self.flow.task {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}
