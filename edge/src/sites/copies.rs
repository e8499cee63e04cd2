//! Reading packs so that nothing wrong is ever served: what is read is checked by its digests, read a second time when it is
//! wrong, and taken from the replica when it is lost or damaged for good.

use std::sync::Arc;

use bytes::Bytes;
use domain::DeploymentId;
use fairness::budget::{Account, Grant};
use packs::{DIGEST_BLOCK_BYTES, Manifest, Span, StoredBody};

use super::{
    faults::Faults,
    packs::{PackError, Packs},
};
use crate::{limits::BLOCK_BYTES, memory::RecentDeployments, metrics};

// What an edge reads is a block of digests, or several.
const _: () = assert!(BLOCK_BYTES == DIGEST_BLOCK_BYTES);

/// The store, its replica, and the knowledge whether a pack should be there.
pub(crate) struct Copies {
    store: Arc<dyn Packs>,
    replica: Option<Arc<dyn Packs>>,
    kept: Arc<dyn RecentDeployments>,
    faults: Faults,
    /// The account of manifests that are read for the log.
    account: Account,
}

/// Where in the store a read fails.
#[derive(Clone, Copy)]
enum Part {
    Manifest,
    /// The data, at this offset.
    Data(u64),
}

impl Part {
    fn offset(self) -> Option<u64> {
        match self {
            Self::Manifest => None,
            Self::Data(offset) => Some(offset),
        }
    }
}

impl Copies {
    /// Of a store and perhaps a replica of it. `kept` knows which deployments there are.
    pub(crate) fn new(
        store: Arc<dyn Packs>,
        replica: Option<Arc<dyn Packs>>,
        kept: Arc<dyn RecentDeployments>,
        account: Account,
    ) -> Self {
        Self { store, replica, kept, faults: Faults::default(), account }
    }

    /// Whether each read is a request over the network.
    pub(crate) fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// The manifest of a pack, with the grant for the memory that it takes to read it.
    pub(crate) async fn manifest(&self, id: &DeploymentId, account: &Account) -> Result<(Manifest, Grant), PackError> {
        let number = number(id);
        if let Some(error) = self.faults.recent(number, None) {
            return Err(error);
        }
        let error = match self.store.manifest(id, account).await {
            // A read that failed on its way says nothing of the store.
            Err(PackError::Damaged(_)) => match self.store.manifest(id, account).await {
                Ok(read) => return Ok(read),
                Err(error) => error,
            },
            Err(error) => error,
            Ok(read) => return Ok(read),
        };
        if !error.is_of_pack() {
            return Err(error);
        }
        if let Some(replica) = &self.replica
            && let Ok(read) = replica.manifest(id, account).await
        {
            self.report(id, Part::Manifest, &error, true).await;
            return Ok(read);
        }
        Err(self.settled(id, Part::Manifest, error).await)
    }

    /// Reads the part of `whole` that begins at its byte `start`, which begins a block, and is `len` bytes long: whole blocks, or
    /// less where the body ends. Where a pack has no digests of blocks, only a whole body can be checked.
    pub(crate) async fn read(
        &self,
        id: &DeploymentId,
        whole: &StoredBody,
        start: u64,
        len: u64,
    ) -> Result<Bytes, PackError> {
        let (number, span) = (number(id), Span { offset: whole.span.offset + start, len });
        if let Some(error) = self.faults.recent(number, Some(span.offset)) {
            return Err(error);
        }
        let error = match read_checked(&*self.store, id, whole, start, span).await {
            Err(PackError::Damaged(_)) => match read_checked(&*self.store, id, whole, start, span).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            },
            Err(error) => error,
            Ok(bytes) => return Ok(bytes),
        };
        if !error.is_of_pack() {
            return Err(error);
        }
        if let Some(replica) = &self.replica
            && let Ok(bytes) = read_checked(&**replica, id, whole, start, span).await
        {
            self.report(id, Part::Data(span.offset), &error, true).await;
            return Ok(bytes);
        }
        Err(self.settled(id, Part::Data(span.offset), error).await)
    }

    /// What a fault is to a visitor: a pack that is not there is lost only if its deployment still is.
    async fn settled(&self, id: &DeploymentId, part: Part, error: PackError) -> PackError {
        let error = match error {
            PackError::Missing if self.kept.is_kept(id).await => PackError::Lost,
            error => error,
        };
        if !matches!(error, PackError::Missing) {
            self.faults.remember(number(id), part.offset(), &error);
            self.report(id, part, &error, false).await;
        }
        error
    }

    /// Counts a fault, and tells the log of it once in a while.
    async fn report(&self, id: &DeploymentId, part: Part, error: &PackError, is_replaced: bool) {
        let is_missing = matches!(error, PackError::Missing | PackError::Lost);
        let is_logged = self.faults.is_to_be_logged(id);
        // A replica keeps what was deleted. The database is asked no more often than the log is written.
        if is_logged && matches!(error, PackError::Missing) && !self.kept.is_kept(id).await {
            return;
        }
        if is_missing {
            metrics::pack_missing();
        } else {
            metrics::store_damaged();
        }
        if !is_logged {
            return;
        }
        let path = match part {
            Part::Manifest => None,
            Part::Data(offset) => self.path_at(id, offset).await,
        };
        let what = if is_missing { "missing" } else { "damaged" };
        tracing::error!(
            deployment = %id,
            path = path.as_deref().unwrap_or("(manifest)"),
            %error,
            from_replica = is_replaced,
            "a part of a site is {what} in the store; `admin store check --deployment {id}` tells more"
        );
    }

    /// A file that has bytes at `offset` of a pack's data.
    async fn path_at(&self, id: &DeploymentId, offset: u64) -> Option<String> {
        let read = match self.store.manifest(id, &self.account).await {
            Err(_) => self.replica.as_ref()?.manifest(id, &self.account).await,
            read => read,
        };
        let (manifest, _grant) = read.ok()?;
        let has_it = |span: Span| (span.offset..span.offset + span.len).contains(&offset);
        let found = manifest.files.into_iter().find(|(_, file)| file.bodies().any(|(_, body)| has_it(body.span)));
        found.map(|(path, _)| path)
    }
}

/// The id as a number: 20 digits to the base 36 take 104 bits, so that different ids are different numbers.
pub(crate) fn number(id: &DeploymentId) -> u128 {
    u128::from_str_radix(id.body(), 36).unwrap_or_default()
}

async fn read_checked(
    packs: &dyn Packs,
    id: &DeploymentId,
    whole: &StoredBody,
    start: u64,
    span: Span,
) -> Result<Bytes, PackError> {
    let bytes = packs.read(id, span.offset, span.len).await?;
    let is_right = if whole.is_checked_by_block() {
        whole.has_blocks(start, &bytes)
    } else if span == whole.span {
        // It may have to be decoded, which takes its time.
        let (whole, bytes) = (whole.clone(), bytes.clone());
        tokio::task::spawn_blocking(move || whole.is_body(&bytes)).await.map_err(PackError::unavailable)?
    } else {
        // Of a pack without digests of blocks, a body that is not kept: `admin store check` reads it whole.
        true
    };
    if is_right { Ok(bytes) } else { Err(PackError::Damaged("its bytes are not what was stored".into())) }
}
