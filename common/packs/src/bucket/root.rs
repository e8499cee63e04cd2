//! Objects at the root of a bucket's prefix, next to the packs.

use domain::DeploymentId;
use futures_util::StreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _, path::Path};

use super::{PackBucket, ignore_missing, parse_pack_id, put_error};
use crate::StoreError;

/// Objects listed per requested pack: a pack has two.
const OBJECTS_OF_PACK: usize = 2;

impl PackBucket {
    fn root_path(&self, name: &str) -> Path {
        let mut parts: Vec<_> = self.deployments.parts().collect();
        parts.pop();
        parts.into_iter().collect::<Path>().join(name)
    }

    /// Returns an object's content, or `None` if there is none.
    pub(crate) async fn read_root(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match self.s3.get(&self.root_path(name)).await {
            Ok(found) if found.meta.size > most => Err(StoreError::Damaged(format!("{name} is too large"))),
            Ok(found) => Ok(Some(found.bytes().await?.into())),
            Err(error) => ignore_missing(error).map(|()| None),
        }
    }

    pub(crate) async fn write_root(&self, name: &str, content: Vec<u8>) -> Result<(), StoreError> {
        self.s3.put(&self.root_path(name), content.into()).await.map_err(put_error)?;
        Ok(())
    }

    pub(crate) async fn delete_root(&self, name: &str) -> Result<(), StoreError> {
        match self.s3.delete(&self.root_path(name)).await {
            Ok(()) => Ok(()),
            Err(error) => ignore_missing(error),
        }
    }

    /// Returns the first packs, by name.
    pub(crate) async fn some_packs(&self, most: usize) -> Result<Vec<DeploymentId>, StoreError> {
        let mut objects = self.s3.list(Some(&self.deployments)).take(most.saturating_mul(OBJECTS_OF_PACK));
        let mut packs: Vec<DeploymentId> = Vec::new();
        while let Some(object) = objects.next().await {
            let Some(id) = parse_pack_id(&object?) else { continue };
            if packs.last() != Some(&id) {
                packs.push(id);
            }
        }
        packs.truncate(most);
        Ok(packs)
    }
}
