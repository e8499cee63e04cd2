//! HTTP/2 in one task: requests are answered where they are read, and their writes are sent together.
//!
//! Only a request whose response has to wait gets a task. Otherwise every response from memory would cost a task, a TLS
//! record and a system call. A client that floods us with control frames receives a GOAWAY, and is read no more.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use ::http::Request;
use fairness::budget::BudgetAccount;
use h2::{RecvStream, server::SendResponse};
use http_types::ChargedChunk;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Sleep, sleep},
};

use super::{flow::ConnectionFlow, gathered::GatheredStream};

/// Answers a request until the response is sent.
pub(in crate::http) type AnswerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(in crate::http) trait RequestHandler {
    /// Starts to answer a request. The response is sent within `flow`.
    fn begin(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<ChargedChunk>,
        flow: Arc<ConnectionFlow>,
    ) -> AnswerFuture;
}

pub(in crate::http) struct MultiplexedConnection<S, A> {
    connection: h2::server::Connection<GatheredStream<S>, ChargedChunk>,
    output: GatheredStream<S>,
    flow: Arc<ConnectionFlow>,
    answers: A,
    /// Runs while the GOAWAY to a client that floods us is sent.
    calming: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: RequestHandler + Unpin> MultiplexedConnection<S, A> {
    /// Performs the HTTP/2 handshake; `None` if it fails. Bytes in flight are charged to `account`.
    pub(super) async fn greet(
        stream: S,
        builder: h2::server::Builder,
        account: BudgetAccount,
        answers: A,
    ) -> Option<Self> {
        let output = GatheredStream::new(stream);
        let mut handshake = builder.handshake(output.clone());
        let connection = std::future::poll_fn(|cx| {
            let shaken = Pin::new(&mut handshake).poll(cx);
            // The connection is closed: as when the handshake itself fails.
            match output.poll_send(cx) {
                Poll::Ready(Err(_)) => Poll::Ready(None),
                _ => shaken.map(Result::ok),
            }
        });
        let connection = connection.await?;
        Some(Self { connection, output, flow: Arc::new(ConnectionFlow::new(account)), answers, calming: None })
    }

    fn poll_calm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.calming.is_none() {
            self.output.push_goaway();
        }
        let calming = self.calming.get_or_insert_with(|| Box::pin(sleep(limits::H2_GOAWAY_WAIT)));
        if self.output.poll_send(cx).is_ready() { Poll::Ready(()) } else { calming.as_mut().poll(cx) }
    }

    /// Returns the handle to ping the visitor. There is only one.
    pub(in crate::http) fn ping_pong(&mut self) -> Option<h2::PingPong> {
        self.connection.ping_pong()
    }

    pub(in crate::http) fn graceful_shutdown(&mut self) {
        self.connection.graceful_shutdown();
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>, begun: &mut Vec<AnswerFuture>) -> Poll<()> {
        while let Some(Ok((request, respond))) = ready!(self.connection.poll_accept(cx)) {
            begun.push(self.answers.begin(request, respond, self.flow.clone()));
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: RequestHandler + Unpin> Future for MultiplexedConnection<S, A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.calming.is_some() {
            return self.poll_calm(cx);
        }
        let this = &mut *self;
        let mut begun = Vec::new();
        let is_over = this.poll_connection(cx, &mut begun).is_ready();
        if this.output.is_flooded() {
            return this.poll_calm(cx);
        }
        if is_over {
            return Poll::Ready(());
        }
        // A no-op waker suffices: a response that has to wait is polled again, at the latest by its task. A finished
        // one wakes this connection, as it would from a task, and is sent at the next poll.
        begun.retain_mut(is_pending);
        if !begun.is_empty() {
            // Sends what they have written, which a response of two blocks waits for. The others get tasks.
            if this.poll_connection(cx, &mut begun).is_ready() {
                return Poll::Ready(());
            }
            for mut answering in begun {
                if is_pending(&mut answering) {
                    this.flow.wait_for(answering);
                }
            }
        }
        match this.output.poll_send(cx) {
            // The connection is closed: as when the connection itself cannot write.
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

fn is_pending(answering: &mut AnswerFuture) -> bool {
    answering.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[cfg(test)]
mod tests;
