//! Reads packs so that no wrong byte is ever served: every read is checked against its digests, repeated if it fails
//! the check, and taken from the replica if the pack is lost or damaged.

use std::sync::Arc;

use bytes::Bytes;
use domain::DeploymentId;
use edge_metrics as metrics;
use fairness::budget::{BudgetAccount, ByteGrant};
use limits::BLOCK_BYTES;
use memory::RecentDeployments;
use packs::{DIGEST_BLOCK_BYTES, Manifest, Span, StoredBody};

use super::{
    faults::FaultLog,
    packs::{PackError, PackSource},
};

// The edge reads whole digest blocks.
const _: () = assert!(BLOCK_BYTES == DIGEST_BLOCK_BYTES);

/// The store, its replica, and the lookup of whether a pack should exist.
pub(crate) struct ReplicatedPacks {
    store: Arc<dyn PackSource>,
    replica: Option<Arc<dyn PackSource>>,
    kept: Arc<dyn RecentDeployments>,
    faults: FaultLog,
    /// The memory account for manifests that are read to name a file in the log.
    account: BudgetAccount,
}

#[derive(Clone, Copy)]
enum FaultyPart {
    Manifest,
    Data(u64),
}

impl FaultyPart {
    fn offset(self) -> Option<u64> {
        match self {
            Self::Manifest => None,
            Self::Data(offset) => Some(offset),
        }
    }
}

impl ReplicatedPacks {
    /// Creates a reader of `store` with an optional replica. `kept` knows which deployments exist.
    pub(crate) fn new(
        store: Arc<dyn PackSource>,
        replica: Option<Arc<dyn PackSource>>,
        kept: Arc<dyn RecentDeployments>,
        account: BudgetAccount,
    ) -> Self {
        Self { store, replica, kept, faults: FaultLog::default(), account }
    }

    pub(crate) fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// Returns the manifest of a pack, with the grant for the memory needed to read it.
    pub(crate) async fn manifest(
        &self,
        id: &DeploymentId,
        account: &BudgetAccount,
    ) -> Result<(Manifest, ByteGrant), PackError> {
        let number = numeric_id(id);
        if let Some(error) = self.faults.find_recent(number, None) {
            return Err(error);
        }
        let error = match self.store.manifest(id, account).await {
            // A damaged read may have failed on the way, which says nothing about the store.
            Err(PackError::Damaged(_)) => match self.store.manifest(id, account).await {
                Ok(read) => return Ok(read),
                Err(error) => error,
            },
            Err(error) => error,
            Ok(read) => return Ok(read),
        };
        if !error.is_pack_fault() {
            return Err(error);
        }
        if let Some(replica) = &self.replica
            && let Ok(read) = replica.manifest(id, account).await
        {
            self.report(id, FaultyPart::Manifest, &error, true).await;
            return Ok(read);
        }
        Err(self.classify_fault(id, FaultyPart::Manifest, error).await)
    }

    /// Reads `len` bytes of `whole` from its byte `start`. `start` is the beginning of a block, and the length covers
    /// whole blocks or ends with the body. Where a pack has no block digests, only a whole body can be checked.
    pub(crate) async fn read(
        &self,
        id: &DeploymentId,
        whole: &StoredBody,
        start: u64,
        len: u64,
    ) -> Result<Bytes, PackError> {
        let (number, span) = (numeric_id(id), Span { offset: whole.span.offset + start, len });
        if let Some(error) = self.faults.find_recent(number, Some(span.offset)) {
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
        if !error.is_pack_fault() {
            return Err(error);
        }
        if let Some(replica) = &self.replica
            && let Ok(bytes) = read_checked(&**replica, id, whole, start, span).await
        {
            self.report(id, FaultyPart::Data(span.offset), &error, true).await;
            return Ok(bytes);
        }
        Err(self.classify_fault(id, FaultyPart::Data(span.offset), error).await)
    }

    /// Translates a fault for a visitor: a missing pack is [`PackError::Lost`] only if its deployment still exists.
    async fn classify_fault(&self, id: &DeploymentId, part: FaultyPart, error: PackError) -> PackError {
        let error = match error {
            PackError::Missing if self.kept.is_kept(id).await => PackError::Lost,
            error => error,
        };
        if !matches!(error, PackError::Missing) {
            self.faults.remember(numeric_id(id), part.offset(), &error);
            self.report(id, part, &error, false).await;
        }
        error
    }

    /// Counts a fault, and logs it at a limited rate.
    async fn report(&self, id: &DeploymentId, part: FaultyPart, error: &PackError, is_replaced: bool) {
        let is_missing = matches!(error, PackError::Missing | PackError::Lost);
        let is_logged = self.faults.should_log(id);
        // A replica keeps packs of deleted deployments. The database is queried no more often than the log is written.
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
            FaultyPart::Manifest => None,
            FaultyPart::Data(offset) => self.path_at(id, offset).await,
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

/// Returns the id as a number. 20 base-36 digits take 104 bits, so different ids are different numbers.
pub(crate) fn numeric_id(id: &DeploymentId) -> u128 {
    u128::from_str_radix(id.body(), 36).unwrap_or_default()
}

async fn read_checked(
    packs: &dyn PackSource,
    id: &DeploymentId,
    whole: &StoredBody,
    start: u64,
    span: Span,
) -> Result<Bytes, PackError> {
    let bytes = packs.read(id, span.offset, span.len).await?;
    let is_right = if whole.is_checked_by_block() {
        whole.has_blocks(start, &bytes)
    } else if span == whole.span {
        // The body may have to be decoded, which takes time.
        let (whole, bytes) = (whole.clone(), bytes.clone());
        tokio::task::spawn_blocking(move || whole.is_body(&bytes)).await.map_err(PackError::unavailable)?
    } else {
        // A body that is not cached, in a pack without block digests: `admin store check` reads it whole.
        true
    };
    if is_right { Ok(bytes) } else { Err(PackError::Damaged("its bytes are not what was stored".into())) }
}
