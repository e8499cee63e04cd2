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

use super::request_body::SendingBody;

type ProviderIo = MaybeHttpsStream<TokioIo<TcpStream>>;
type ConnectionDriver = Pin<Box<http1::Connection<ProviderIo, SendingBody>>>;
/// A connection to a provider. It makes progress only while the request that uses it polls it.
pub struct ProviderConnection {
    sender: SendRequest<SendingBody>,
    /// `None` once the connection has closed.
    driver: Option<ConnectionDriver>,
}

impl ProviderConnection {
    pub(super) async fn handshake(stream: ProviderIo) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_headers(limits::PROVIDER_HEAD_FIELDS)
            .max_buf_size(limits::PROVIDER_BUFFER)
            .handshake(stream)
            .await?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    pub(super) async fn send(mut self, request: Request<SendingBody>) -> hyper::Result<(Self, Response<Incoming>)> {
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

    /// Reads and writes as much as possible without blocking.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Returns whether the connection is open and can take a request now.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

fn drive(driver: &mut Option<ConnectionDriver>, cx: &mut Context<'_>) {
    // A connection error also reaches the request that waits for its answer.
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

/// Returns whether the connection closed before any byte of the request was written.
///
/// A connection that closes later, even immediately and without an answer, may have delivered the request, and the
/// provider may be working on it and bill it. Those cases are indistinguishable, so only this one is safe to retry.
pub(super) fn is_unsent(error: &hyper::Error) -> bool {
    error.is_canceled() || error.is_closed()
}
