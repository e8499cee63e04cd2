//! Files at the root of a store's folder, next to the packs.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::Path,
};

use domain::DeploymentId;

use super::{PackFolder, parse_pack_id};
use crate::StoreError;

impl PackFolder {
    fn root(&self) -> &Path {
        self.path().parent().unwrap_or(self.path())
    }

    /// Returns a file's content, or `None` if there is none.
    pub(crate) fn read_root(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let file = match File::open(self.root().join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.require()?;
                return Ok(None);
            }
            file => file?,
        };
        let mut content = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(StoreError::Damaged(format!("{name} is too large")));
        }
        Ok(Some(content))
    }

    /// Writes a file durably and atomically.
    pub(crate) fn write_root(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        self.require()?;
        let new = self.root().join(format!(".{name}.{}", std::process::id()));
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, self.root().join(name))?;
        File::open(self.root())?.sync_all()?;
        Ok(())
    }

    pub(crate) fn delete_root(&self, name: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.root().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns packs in directory order.
    pub(crate) fn some_packs(&self, most: usize) -> Result<Vec<DeploymentId>, StoreError> {
        self.require()?;
        let mut packs = Vec::new();
        for entry in fs::read_dir(self.path())? {
            packs.extend(parse_pack_id(&entry?.file_name()));
            if packs.len() >= most {
                break;
            }
        }
        Ok(packs)
    }
}
