//! One connection to a provider.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::limits;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;
type Running = Pin<Box<Connection<Io, Full<Bytes>>>>;

/// A connection, which works only while it is polled.
pub(in crate::gateway) struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended.
    connection: Option<Running>,
}

impl Line {
    pub(super) async fn over(stream: Io) -> hyper::Result<Self> {
        let (sender, connection) = Builder::new()
            .max_headers(limits::PROVIDER_HEAD_FIELDS)
            .max_buf_size(limits::PROVIDER_BUFFER)
            .handshake(stream)
            .await?;
        Ok(Self { sender, connection: Some(Box::pin(connection)) })
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn ask(mut self, request: Request<Full<Bytes>>) -> hyper::Result<(Self, Response<Incoming>)> {
        poll_fn(|cx| {
            if let ready @ Poll::Ready(_) = self.sender.poll_ready(cx) {
                return ready;
            }
            self.drive(cx);
            self.sender.poll_ready(cx)
        })
        .await?;
        let mut answering = pin!(self.sender.send_request(request));
        let connection = &mut self.connection;
        let response = poll_fn(|cx| {
            drive(connection, cx);
            answering.as_mut().poll(cx)
        })
        .await?;
        Ok((self, response))
    }

    /// Lets the connection read and write what it can.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, cx);
    }

    /// Whether a request can be sent now.
    pub(super) fn stands(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

fn drive(connection: &mut Option<Running>, cx: &mut Context<'_>) {
    // How it ended is said to whoever waits for the answer.
    if connection.as_mut().is_some_and(|running| running.as_mut().poll(cx).is_ready()) {
        *connection = None;
    }
}

/// Whether the other side closed a connection without a word to our request: it may well have been about to close it,
/// and a provider that had begun to work would not have.
pub(super) fn closed_unanswered(error: &hyper::Error) -> bool {
    let broken = || {
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(|source| {
            matches!(
                source.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
            )
        })
    };
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || broken()
}
