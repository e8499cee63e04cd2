//! Paths of a site that are only for people with a name and a password, by `Basic-Auth` in its `_headers`.
//!
//! A path is guarded as it is asked for, and a file under each address that it has: whatever leads to the file, a rule, a fallback or
//! an older deployment that lends it, asks for the same credentials. The guards of the live deployment hold at every address of the
//! site, beside those of the deployment that is served there. Start with [`Sites::admitted`].

use std::sync::Arc;

use bytes::Bytes;
use domain::site::Site;
use http::{HeaderValue, Response, header::CACHE_CONTROL, request::Parts};
use packs::{
    manifest::{Access, Account, Guard},
    rules::path::{RequestPath, addresses},
};
use unicode_normalization::UnicodeNormalization as _;

use super::{
    Sites,
    answer::Asked,
    conditional, forget_caching,
    pack::{File, Pack},
    packs::PackError,
    path::encode,
};
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
        self.admit_to_path(asked.path, asked)
    }

    /// Fails when a decoded path with its leading slash is guarded, and the request has none of the credentials for it.
    pub(crate) fn admit_to_path(&self, path: &str, asked: Asked<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        self.admit_to(&RequestPath::new(&encode(path)), asked)?;
        if path.is_ascii() {
            return Ok(());
        }
        // A file is found in each normal form of Unicode, and `_headers` may have been written in another one.
        for form in [path.nfc().collect::<String>(), path.nfd().collect()] {
            self.admit_to(&RequestPath::new(&encode(&form)), asked)?;
        }
        Ok(())
    }

    /// Fails when one of the addresses of `file` is guarded, and the request has none of the credentials for it.
    pub(crate) fn admit_to_file(&self, file: &File, asked: Asked<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        for address in addresses(&file.path) {
            self.admit_to_path(&address, asked)?;
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

impl Pack {
    /// Fails when the path that was asked for is guarded, by this pack or the live one, and the request has none of the credentials
    /// for it.
    pub(crate) fn admit(&self, asked: Asked<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit(asked))
    }

    /// Fails when a decoded path with its leading slash is guarded, by this pack or the live one, and the request has none of the
    /// credentials for it.
    pub(crate) fn admit_to_path(&self, path: &str, asked: Asked<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit_to_path(path, asked))
    }

    /// Fails when one of the addresses of `file` is guarded, by this pack or the live one, and the request has none of the credentials
    /// for it.
    pub(crate) fn admit_to_file(&self, file: &File, asked: Asked<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit_to_file(file, asked))
    }

    fn guards_for<'g>(&'g self, asked: Asked<'g>) -> impl Iterator<Item = &'g Guards> {
        std::iter::once(&*self.guards).chain(asked.live_guards)
    }
}

impl Sites {
    /// The guards of the live deployment, where another one is served. Without the live one's pack nothing is served in its place:
    /// nobody knows which of its paths are guarded.
    pub(super) async fn live_guards(&self, site: &Site) -> Result<Option<Arc<Guards>>, PackError> {
        let Some(live) = site.live.as_ref().filter(|live| site.deployment.as_ref() != Some(*live)) else {
            return Ok(None);
        };
        match self.packs.pack(live, &site.owner).await {
            Ok(pack) => Ok(Some(pack.guards.clone()).filter(|guards| !guards.is_empty())),
            // What is known of the site is older than its packs.
            Err(PackError::Missing) => Err(PackError::unavailable("the live deployment has no pack")),
            Err(error) => Err(error),
        }
    }

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
                live_guards: None,
                public_port: visit.public_port,
                now: conditional::instant(self.clock.now().unix_seconds()),
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
