//! Password-protected paths of a site, set by `Basic-Auth` in its `_headers`.
//!
//! A guard applies to the requested path and to every address of a file: a rule, a fallback or an older deployment that
//! lends the file requires the same credentials. The guards of the live deployment apply at every address of the site,
//! in addition to those of the deployment served there. Start with [`SiteService::respond_guarded`].

use std::sync::Arc;

use bytes::Bytes;
use domain::site::Site;
use http::{HeaderValue, Response, header::CACHE_CONTROL, request::Parts};
use http_types::{GateAnswer, SiteBody, Visit};
use limits::GUARDED_PACKS;
use packs::{
    manifest::{AccessRules, GuardAccount, PathGuard},
    rules::path::{RequestPath, addresses},
};
use unicode_normalization::UnicodeNormalization as _;

use super::{
    SiteService,
    answer::FileRequest,
    conditional,
    pack::{LoadedPack, PackFile},
    packs::PackError,
    path::encode,
    remove_cache_headers,
};

pub(crate) struct PathGuards {
    accounts: Arc<[GuardAccount]>,
    guards: Vec<PathGuard>,
}

/// The accounts whose credentials a request carries, in packs whose guards it met.
pub(crate) type GrantedAccounts = Vec<Arc<str>>;

/// Response extension: only these accounts may have the response. [`SiteService::respond_guarded`] replaces it.
#[derive(Clone)]
pub(super) struct RestrictedTo(pub(super) Arc<[GuardAccount]>);

impl PathGuards {
    pub(crate) fn new(access: AccessRules) -> Self {
        Self { accounts: access.accounts.into(), guards: access.guards }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Fails if the requested path is guarded and the request lacks credentials for it.
    pub(crate) fn admit(&self, asked: FileRequest<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        self.admit_to(&RequestPath::new(asked.sent), asked)?;
        // Checks the decoded path too: a path means the same in every encoding.
        self.admit_to_path(asked.path, asked)
    }

    /// Fails if a decoded path (with its leading slash) is guarded and the request lacks credentials for it.
    pub(crate) fn admit_to_path(&self, path: &str, asked: FileRequest<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        self.admit_to(&RequestPath::new(&encode(path)), asked)?;
        if path.is_ascii() {
            return Ok(());
        }
        // A file is found in every Unicode normal form, and `_headers` may use another one than the request.
        for form in [path.nfc().collect::<String>(), path.nfd().collect()] {
            self.admit_to(&RequestPath::new(&encode(&form)), asked)?;
        }
        Ok(())
    }

    /// Fails if any address of `file` is guarded and the request lacks credentials for it.
    pub(crate) fn admit_to_file(&self, file: &PackFile, asked: FileRequest<'_>) -> Result<(), PackError> {
        if self.is_empty() {
            return Ok(());
        }
        for address in addresses(&file.path) {
            self.admit_to_path(&address, asked)?;
        }
        Ok(())
    }

    fn admit_to(&self, path: &RequestPath<'_>, asked: FileRequest<'_>) -> Result<(), PackError> {
        let is_granted = |account: &usize| {
            let hash = self.accounts.get(*account).map(|account| account.hash.as_str());
            hash.is_some_and(|hash| asked.granted.iter().any(|granted| **granted == *hash))
        };
        let mut met = self.guards.iter().filter(|guard| guard.pattern.matches_path(path));
        // Every matching guard must pass: neither a wider nor a narrower one opens the other.
        if met.all(|guard| guard.accounts.iter().any(is_granted)) {
            Ok(())
        } else {
            Err(PackError::Guarded(self.accounts.clone()))
        }
    }
}

impl LoadedPack {
    /// Like [`PathGuards::admit`], for the guards of this pack and the live one.
    pub(crate) fn admit(&self, asked: FileRequest<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit(asked))
    }

    /// Like [`PathGuards::admit_to_path`], for the guards of this pack and the live one.
    pub(crate) fn admit_to_path(&self, path: &str, asked: FileRequest<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit_to_path(path, asked))
    }

    /// Like [`PathGuards::admit_to_file`], for the guards of this pack and the live one.
    pub(crate) fn admit_to_file(&self, file: &PackFile, asked: FileRequest<'_>) -> Result<(), PackError> {
        self.guards_for(asked).try_for_each(|guards| guards.admit_to_file(file, asked))
    }

    fn guards_for<'g>(&'g self, asked: FileRequest<'g>) -> impl Iterator<Item = &'g PathGuards> {
        std::iter::once(&*self.guards).chain(asked.live_guards)
    }
}

impl SiteService {
    /// Returns the guards of the live deployment when another deployment is served. Fails if the live pack cannot be
    /// read: which paths are guarded is then unknown, so the other deployment is not served either.
    pub(super) async fn live_guards(&self, site: &Site) -> Result<Option<Arc<PathGuards>>, PackError> {
        let Some(live) = site.live.as_ref().filter(|live| site.deployment.as_ref() != Some(*live)) else {
            return Ok(None);
        };
        match self.packs.pack(live, &site.owner).await {
            Ok(pack) => Ok(Some(pack.guards.clone()).filter(|guards| !guards.is_empty())),
            // The cached site is older than its packs.
            Err(PackError::Missing) => Err(PackError::unavailable("the live deployment has no pack")),
            Err(error) => Err(error),
        }
    }

    /// Answers a request that passed the gate. If the response is restricted to some accounts, the request is served
    /// again with the accounts that its credentials prove. Without valid credentials, the visitor receives a challenge.
    pub(super) async fn respond_guarded(&self, head: &Parts, visit: &Visit, site: &Site) -> Response<SiteBody> {
        let mut granted = GrantedAccounts::new();
        loop {
            let asked = FileRequest {
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
                now: conditional::from_unix_seconds(self.clock.now().unix_seconds()),
            };
            let mut response = self.serve(&head.method, &head.uri, asked, site).await;
            let Some(RestrictedTo(accounts)) = response.extensions_mut().remove::<RestrictedTo>() else {
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
                // The credentials are valid, but not for this path.
                Ok(_) => gate::path_challenge(head),
                Err(answer) => *answer,
            };
            let mut answer = answer;
            keep_private(&mut answer);
            answer.extensions_mut().insert(GateAnswer);
            return answer;
        }
    }
}

/// Forbids every cache, including the browser's, to store a response that required a password.
fn keep_private(response: &mut Response<SiteBody>) {
    remove_cache_headers(response.headers_mut());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
}

/// Returns a placeholder for a response restricted to `accounts`, which [`SiteService::respond_guarded`] replaces.
pub(super) fn restricted_placeholder(accounts: Arc<[GuardAccount]>) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::from(Bytes::new()));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response.extensions_mut().insert(RestrictedTo(accounts));
    response
}
