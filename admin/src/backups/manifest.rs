//! The manifest of a backup.

use anyhow::Context as _;
use domain::{DeploymentId, Timestamp};
use secrets::{KeyPurpose, MasterKey, signatures::SIGNATURE_LEN};
use serde::{Deserialize, Serialize};

/// The manifest of a backup, stored as a line of JSON and a line with its signature under the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of this manifest: [`Manifest::FORM`].
    pub form: u32,
    /// The backup's name. Names sort by time.
    pub name: String,
    /// The time of the snapshot: later commits are not included.
    pub began_at: Timestamp,
    /// The time at which the backup was complete.
    pub ended_at: Timestamp,
    /// The name that the database was given when its tables were created.
    pub database: String,
    /// The newest migration of the database.
    pub schema: i64,
    /// The version of the program that created the backup.
    pub program: String,
    /// The major version of the PostgreSQL server.
    pub server: i32,
    /// The dump, as stored.
    pub dump: ObjectContent,
    /// The ids of the master keys that are needed to open the dump, and the sealed values in it.
    pub keys: Vec<String>,
    /// The roles that hold rights in the database.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The packs that the database references, ordered by id.
    pub packs: Vec<BackedUpPack>,
    /// The deployments whose pack the store did not have.
    #[serde(default)]
    pub missing: Vec<DeploymentId>,
}

/// The content of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectContent {
    /// The size.
    pub bytes: u64,
    /// The SHA-256 digest, as 64 hexadecimal digits.
    pub sha256: String,
}

/// The two objects of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpPack {
    /// The deployment.
    pub id: DeploymentId,
    /// The object `data` of the pack.
    pub data: ObjectContent,
    /// The object `manifest` of the pack.
    pub manifest: ObjectContent,
}

impl BackedUpPack {
    /// Returns the size of both objects.
    pub fn bytes(&self) -> u64 {
        self.data.bytes + self.manifest.bytes
    }

    /// Returns both objects, in the order of [`pack_objects`](packs::objects::pack_objects).
    pub(super) fn contents(&self) -> [&ObjectContent; 2] {
        [&self.data, &self.manifest]
    }
}

impl Manifest {
    /// The format that this program writes.
    pub const FORM: u32 = 1;

    /// Returns the size of the dump and of all packs.
    pub fn bytes(&self) -> u64 {
        self.dump.bytes + self.packs.iter().map(BackedUpPack::bytes).sum::<u64>()
    }

    pub(super) fn encode(&self, key: &MasterKey) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        let signature = hex::encode(key.sign(KeyPurpose::Backups, &text));
        text.push(b'\n');
        text.extend_from_slice(signature.as_bytes());
        text.push(b'\n');
        Ok(text)
    }

    pub(super) fn decode(text: &[u8], key: &MasterKey) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            form: u32,
            #[serde(default)]
            keys: Vec<String>,
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        let (json, signature) = lines.next().zip(lines.next()).context("it is cut off")?;
        let head: Head = serde_json::from_slice(json)?;
        anyhow::ensure!(head.form == Self::FORM, "it has form {}, which this program does not know", head.form);
        let mut signed = [0; SIGNATURE_LEN];
        let is_signed = hex::decode_to_slice(signature, &mut signed).is_ok()
            && key.is_signature(KeyPurpose::Backups, json, &signed);
        if !is_signed {
            let lacking = lacking_keys(&head.keys, key);
            anyhow::ensure!(
                lacking.is_empty(),
                "it was signed with a master key that the key file lacks ({}): add the key's line of that time to the file",
                lacking.join(", ")
            );
            anyhow::bail!("its signature is wrong: it was changed, or is damaged");
        }
        Ok(serde_json::from_slice(json)?)
    }

    /// Fails if the key file lacks a key that the backup needs.
    pub(super) fn check_keys(&self, key: &MasterKey) -> anyhow::Result<()> {
        let lacking = lacking_keys(&self.keys, key);
        anyhow::ensure!(
            lacking.is_empty(),
            "the backup {} needs master keys that the key file lacks ({}): add their lines, from the copy that was kept, \
             below the present ones",
            self.name,
            lacking.join(", ")
        );
        Ok(())
    }
}

fn lacking_keys(ids: &[String], key: &MasterKey) -> Vec<String> {
    let known: Vec<String> = key.keys().iter().map(secrets::master_key::MasterKeyBytes::id).collect();
    ids.iter().filter(|id| !known.contains(id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, packs: &[&str]) -> Manifest {
        let content = || ObjectContent { bytes: 1, sha256: "0".repeat(64) };
        let at = Timestamp::from_unix_millis(1_700_000_000_000);
        Manifest {
            form: Manifest::FORM,
            name: name.into(),
            began_at: at,
            ended_at: at,
            database: "db".into(),
            schema: 1,
            program: "0".into(),
            server: 15,
            dump: content(),
            keys: Vec::new(),
            roles: Vec::new(),
            packs: packs
                .iter()
                .map(|id| BackedUpPack { id: id.parse().unwrap(), data: content(), manifest: content() })
                .collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_manifest_that_was_changed_is_refused() {
        let key = MasterKey::generate();
        let written = Manifest { keys: vec![key.keys()[0].id()], ..manifest("a", &["dep_00000000000000000001"]) };
        let text = written.encode(&key).unwrap();
        assert_eq!(Manifest::decode(&text, &key).unwrap(), written);
        let changed =
            String::from_utf8(text.clone()).unwrap().replace("dep_00000000000000000001", "dep_00000000000000000002");
        let refused = Manifest::decode(changed.as_bytes(), &key).unwrap_err().to_string();
        assert!(refused.contains("signature"), "{refused}");
        let refused = Manifest::decode(&text, &MasterKey::generate()).unwrap_err().to_string();
        assert!(refused.contains(&written.keys[0]), "{refused}");
        assert!(Manifest::decode(&text[..text.len() / 2], &key).is_err());
    }
}
