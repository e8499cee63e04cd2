//! One HTTP/1.1 connection to a provider.

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
    client::conn::http1::{self, SendRequest},
};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::limits;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;
type Driver = Pin<Box<http1::Connection<Io, Full<Bytes>>>>;

/// A connection to a provider. It makes progress only while it is polled, by the request that uses it.
pub(in crate::gateway) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
}

impl Connection {
    pub(super) async fn handshake(stream: Io) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_headers(limits::PROVIDER_HEAD_FIELDS)
            .max_buf_size(limits::PROVIDER_BUFFER)
            .handshake(stream)
            .await?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn send(mut self, request: Request<Full<Bytes>>) -> hyper::Result<(Self, Response<Incoming>)> {
        poll_fn(|cx| {
            if let ready @ Poll::Ready(_) = self.sender.poll_ready(cx) {
                return ready;
            }
            self.drive(cx);
            self.sender.poll_ready(cx)
        })
        .await?;
        let mut answering = pin!(self.sender.send_request(request));
        let driver = &mut self.driver;
        let response = poll_fn(|cx| {
            drive(driver, cx);
            answering.as_mut().poll(cx)
        })
        .await?;
        Ok((self, response))
    }

    /// Reads and writes what can be read and written now.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Whether the connection is open and a request can be sent now.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    // An error of the connection also reaches the request that waits for its answer.
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

/// Whether the provider closed the connection before it answered anything. It was probably about to close an idle
/// connection when the request came, and has not begun to work on it.
pub(super) fn is_closed_unanswered(error: &hyper::Error) -> bool {
    let is_reset = || {
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(|source| {
            matches!(
                source.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
            )
        })
    };
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_reset()
}
