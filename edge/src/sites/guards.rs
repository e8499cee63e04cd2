//! Paths of a site that are only for people with a name and a password, by `Basic-Auth` in its `_headers`.
//!
//! A path is guarded as it is asked for, and a file under each address that it has: whatever leads to the file, a rule, a fallback or
//! an older deployment that lends it, asks for the same credentials. Start with [`Sites::admitted`].

use std::sync::Arc;

use bytes::Bytes;
use domain::site::Site;
use http::{HeaderValue, Response, header::CACHE_CONTROL, request::Parts};
use packs::{
    manifest::{Access, Account, Guard},
    rules::path::RequestPath,
};

use super::{Sites, answer::Asked, forget_caching, pack::File, packs::PackError, path::encode};
use crate::{
    http::{GateAnswer, SiteBody, Visit},
    limits::GUARDED_PACKS,
};

/// The guards of a pack.
pub(crate) struct Guards {
    accounts: Arc<[Account]>,
    guards: Vec<Guard>,
}

/// The accounts whose credentials a request has, in packs whose guards it met.
pub(crate) type Granted = Vec<Arc<str>>;

/// Says of an answer to replace that only some accounts may have it.
#[derive(Clone)]
pub(super) struct Closed(pub(super) Arc<[Account]>);

impl Guards {
    /// Of a manifest.
    pub(crate) fn new(access: Access) -> Self {
        Self { accounts: access.accounts.into(), guards: access.guards }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Fails when the path that was asked for is guarded, and the request has none of the credentials for it.
    pub(crate) fn admit(&self, asked: Asked<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        self.admit_to(&RequestPath::new(asked.sent), asked)?;
        // What its characters stand for, too: a path has one meaning, in whichever way it is written.
        self.admit_to(&RequestPath::new(&encode(asked.path)), asked)
    }

    /// Fails when a decoded path with its leading slash is guarded, and the request has none of the credentials for it.
    pub(crate) fn admit_to_path(&self, path: &str, asked: Asked<'_>) -> Result<(), PackError> {
        if self.is_empty() { Ok(()) } else { self.admit_to(&RequestPath::new(&encode(path)), asked) }
    }

    /// Fails when one of the addresses of `file` is guarded, and the request has none of the credentials for it.
    pub(crate) fn admit_to_file(&self, file: &File, asked: Asked<'_>) -> Result<(), PackError> {
        let Some(path) = &file.path else { return Ok(()) };
        for address in addresses(path) {
            self.admit_to(&RequestPath::new(&encode(&address)), asked)?;
        }
        Ok(())
    }

    fn admit_to(&self, path: &RequestPath<'_>, asked: Asked<'_>) -> Result<(), PackError> {
        let is_granted = |account: &usize| {
            let hash = self.accounts.get(*account).map(|account| account.hash.as_str());
            hash.is_some_and(|hash| asked.granted.iter().any(|granted| **granted == *hash))
        };
        let mut met = self.guards.iter().filter(|guard| guard.pattern.matches_path(path));
        // All of them: a narrower guard is not opened by a wider one, nor the other way round.
        if met.all(|guard| guard.accounts.iter().any(is_granted)) {
            Ok(())
        } else {
            Err(PackError::Guarded(self.accounts.clone()))
        }
    }
}

/// Every address at which a file is served or from which a visitor is sent there.
fn addresses(path: &str) -> Vec<String> {
    let mut addresses = vec![format!("/{path}")];
    if let Some(stem) = path.strip_suffix(".html") {
        addresses.extend([format!("/{stem}"), format!("/{stem}/")]);
    }
    if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.is_empty() || folder.ends_with('/')) {
        addresses.extend([format!("/{folder}"), format!("/{}", folder.trim_end_matches('/'))]);
    }
    addresses
}

impl Sites {
    /// Answers a request that the gate let through. An answer that is only for some is sought again with the credentials of the
    /// request; without the right ones, the visitor is asked for them.
    pub(super) async fn admitted(&self, head: &Parts, visit: &Visit, site: &Site) -> Response<SiteBody> {
        let mut granted = Granted::new();
        loop {
            let asked = Asked {
                method: &head.method,
                headers: &head.headers,
                host: &visit.host,
                path: "",
                sent: head.uri.path(),
                is_nameable: false,
                agent: visit.agent,
                country: visit.country,
                granted: &granted,
            };
            let mut response = self.serve(&head.method, &head.uri, asked, site).await;
            let Some(Closed(accounts)) = response.extensions_mut().remove::<Closed>() else {
                if !granted.is_empty() {
                    keep_private(&mut response);
                }
                return response;
            };
            let is_known = |hash: &str| granted.iter().any(|granted| **granted == *hash);
            let answer = match Box::pin(self.gatekeeper.identify(head, visit, site, &accounts)).await {
                Ok(hash) if granted.len() < GUARDED_PACKS && !is_known(&hash) => {
                    granted.push(hash);
                    continue;
                }
                // Somebody, but nobody whom this is for.
                Ok(_) => crate::gate::path_challenge(head),
                Err(answer) => *answer,
            };
            let mut answer = answer;
            keep_private(&mut answer);
            answer.extensions_mut().insert(GateAnswer);
            return answer;
        }
    }
}

/// Forbids caches, the browser's included, to keep an answer that needed a password.
fn keep_private(response: &mut Response<SiteBody>) {
    forget_caching(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
}

/// An answer that is only for some of `accounts`, in place of which [`Sites::admitted`] finds another.
pub(super) fn closed(accounts: Arc<[Account]>) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::from(Bytes::new()));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response.extensions_mut().insert(Closed(accounts));
    response
}
