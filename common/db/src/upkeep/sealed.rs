//! Every column that is sealed with the master key, and how its rows are sealed anew. For the rotation of the key.
//!
//! A new column of the kind takes its place in [`Column`]; a test compares the list with the schema.

use secrets::{Purpose, master_key::TAG_LEN};
use sqlx::PgPool;

/// A sealed value, and the row it belongs to.
#[derive(Debug, Clone)]
pub struct SealedRow {
    /// The row's key, as text.
    pub row: String,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident {
        column: $column:literal,
        purpose: $purpose:expr,
        identity: $identity:expr,
        stale: $stale:literal,
        replace: $replace:literal $(,)?
    })+) => {
        /// A column of sealed bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Column {
            $($(#[$doc])* $name,)+
        }

        impl Column {
            /// All columns.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns `table.column`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $column,)+ }
            }

            /// Returns the purpose that the column's key is derived for.
            pub const fn purpose(self) -> Purpose {
                match self { $(Self::$name => $purpose,)+ }
            }

            /// Returns the associated data of a row.
            pub fn identity(self, row: &str) -> Vec<u8> {
                match self { $(Self::$name => ($identity)(row),)+ }
            }

            /// Returns rows that are not sealed by the key of this tag, in the order of their keys: at most `limit`,
            /// after `after`.
            pub async fn stale(
                self,
                pool: &PgPool,
                tag: &[u8; TAG_LEN],
                after: &str,
                limit: i64,
            ) -> Result<Vec<SealedRow>, sqlx::Error> {
                match self {
                    $(Self::$name => {
                        sqlx::query_as!(SealedRow, $stale, tag.as_slice(), after, limit).fetch_all(pool).await
                    })+
                }
            }

            /// Puts `new` in the place of `row`'s bytes. Returns false when somebody has changed them meanwhile.
            pub async fn replace(self, pool: &PgPool, row: &SealedRow, new: &[u8]) -> Result<bool, sqlx::Error> {
                match self {
                    $(Self::$name => {
                        let replaced = sqlx::query!($replace, row.row, row.sealed, new).execute(pool).await?;
                        Ok(replaced.rows_affected() == 1)
                    })+
                }
            }
        }
    };
}

columns! {
    /// Private keys of certificates.
    Certificates {
        column: "certificates.sealed_key",
        purpose: Purpose::CertificateKeys,
        identity: |row: &str| row.as_bytes().to_vec(),
        stale: r#"SELECT id AS "row: String", sealed_key AS "sealed!" FROM certificates
                  WHERE substring(sealed_key FROM 1 FOR 5) <> $1 AND id > $2 ORDER BY id LIMIT $3"#,
        replace: "UPDATE certificates SET sealed_key = $3 WHERE id = $1 AND sealed_key = $2",
    }
    /// The code host's device codes, of sign-ins under way.
    DeviceGrants {
        column: "device_grants.sealed_device_code",
        purpose: Purpose::CodeHost,
        identity: |row: &str| hex::decode(row).unwrap_or_default(),
        stale: r#"SELECT encode(device_code_hash, 'hex') AS "row!", sealed_device_code AS "sealed!" FROM device_grants
                  WHERE substring(sealed_device_code FROM 1 FOR 5) <> $1 AND encode(device_code_hash, 'hex') > $2
                  ORDER BY 1 LIMIT $3"#,
        replace: "UPDATE device_grants SET sealed_device_code = $3
                  WHERE device_code_hash = decode($1, 'hex') AND sealed_device_code = $2",
    }
    /// The grants of people at the code host.
    CodeHostGrants {
        column: "code_host_grants.sealed_tokens",
        purpose: Purpose::CodeHost,
        identity: |row: &str| row.as_bytes().to_vec(),
        stale: r#"SELECT user_id AS "row: String", sealed_tokens AS "sealed!" FROM code_host_grants
                  WHERE substring(sealed_tokens FROM 1 FOR 5) <> $1 AND user_id > $2 ORDER BY user_id LIMIT $3"#,
        replace: "UPDATE code_host_grants SET sealed_tokens = $3 WHERE user_id = $1 AND sealed_tokens = $2",
    }
    /// The proofs of web sign-ins under way.
    SignIns {
        column: "sign_ins.sealed_verifier",
        purpose: Purpose::SignIns,
        identity: |row: &str| hex::decode(row).unwrap_or_default(),
        stale: r#"SELECT encode(state_hash, 'hex') AS "row!", sealed_verifier AS "sealed!" FROM sign_ins
                  WHERE substring(sealed_verifier FROM 1 FOR 5) <> $1 AND encode(state_hash, 'hex') > $2
                  ORDER BY 1 LIMIT $3"#,
        replace: "UPDATE sign_ins SET sealed_verifier = $3
                  WHERE state_hash = decode($1, 'hex') AND sealed_verifier = $2",
    }
    /// Values of environment variables.
    EnvVars {
        column: "env_vars.sealed_value",
        purpose: Purpose::EnvValues,
        identity: |row: &str| row.as_bytes().to_vec(),
        stale: r#"SELECT project_id || '/' || key AS "row!", sealed_value AS "sealed!" FROM env_vars
                  WHERE substring(sealed_value FROM 1 FOR 5) <> $1 AND (project_id || '/' || key) COLLATE "C" > $2
                  ORDER BY (project_id || '/' || key) COLLATE "C" LIMIT $3"#,
        replace: "UPDATE env_vars SET sealed_value = $3
                  WHERE project_id = split_part($1, '/', 1) AND key = split_part($1, '/', 2) AND sealed_value = $2",
    }
}
