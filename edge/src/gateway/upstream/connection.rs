//! One HTTP/1.1 connection to a provider.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::request_body::RequestBody;
use crate::limits;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;
type Driver = Pin<Box<http1::Connection<Io, RequestBody>>>;
/// A connection to a provider. It makes progress only while it is polled, by the request that uses it.
pub(in crate::gateway) struct Connection {
    sender: SendRequest<RequestBody>,
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
    pub(super) async fn send(mut self, request: Request<RequestBody>) -> hyper::Result<(Self, Response<Incoming>)> {
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

/// Whether the connection ended before a byte of the request was written.
///
/// A connection that ends later, even at once and without an answer, may have carried the request: its provider may be at
/// work on it, and bill it, when the connection breaks. The two cannot be told apart, so only this is safe to repeat.
pub(super) fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed()
}
