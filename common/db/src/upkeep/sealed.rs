//! The columns sealed with the master key, and how to reseal their rows when the key is rotated.
//!
//! A new sealed column must be added to [`Column`]: its table, the SQL expression for a row's key as text (`row`), and
//! the condition that finds the row of such a text again (`is_row`). A test compares the list with the schema.

use secrets::{
    KeyPurpose,
    master_key::{FORM, TAG_LEN},
};
use sqlx::{PgConnection, PgPool};

/// A sealed value and its row.
#[derive(Debug, Clone)]
pub struct SealedRow {
    /// The row's key, as text.
    pub row: String,
    /// The sealed bytes.
    pub sealed: Vec<u8>,
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident {
        table: $table:literal,
        column: $column:literal,
        purpose: $purpose:expr,
        identity: $identity:expr,
        row: $row:literal,
        is_row: $is_row:literal $(,)?
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
                match self { $(Self::$name => concat!($table, ".", $column),)+ }
            }

            /// Returns the purpose that the column's key is derived for.
            pub const fn purpose(self) -> KeyPurpose {
                match self { $(Self::$name => $purpose,)+ }
            }

            /// Returns the associated data of a row.
            pub fn identity(self, row: &str) -> Vec<u8> {
                match self { $(Self::$name => $identity(row),)+ }
            }

            /// Returns at most `limit` rows after `after`, by key, that are not sealed by the key with this tag.
            pub async fn stale(
                self,
                pool: &PgPool,
                tag: &[u8; TAG_LEN],
                after: &str,
                limit: i64,
            ) -> Result<Vec<SealedRow>, sqlx::Error> {
                match self {
                    $(Self::$name => {
                        sqlx::query_as!(
                            SealedRow,
                            "SELECT " + $row + r#" AS "row!: String", "# + $column + r#" AS "sealed!" FROM "# + $table
                                + " WHERE substring(" + $column + " FROM 1 FOR 5) <> $1 AND " + $row + " > $2"
                                + " ORDER BY 1 LIMIT $3",
                            tag.as_slice(),
                            after,
                            limit,
                        )
                        .fetch_all(pool)
                        .await
                    })+
                }
            }

            /// Returns the tags of the keys that sealed the column's values. Values from before key ids have none.
            pub async fn tags(self, conn: &mut PgConnection) -> Result<Vec<[u8; TAG_LEN]>, sqlx::Error> {
                let tags: Vec<Vec<u8>> = match self {
                    $(Self::$name => {
                        sqlx::query_scalar!(
                            "SELECT DISTINCT substring(" + $column + r#" FROM 1 FOR 5) AS "tag!" FROM "# + $table
                                + " WHERE " + $column + " IS NOT NULL"
                        )
                        .fetch_all(conn)
                        .await?
                    })+
                };
                let tags = tags.into_iter().filter_map(|tag| tag.try_into().ok());
                Ok(tags.filter(|tag: &[u8; TAG_LEN]| tag[0] == FORM).collect())
            }

            /// Replaces the bytes of `row` with `new`. Returns false when they have changed meanwhile.
            pub async fn replace(self, pool: &PgPool, row: &SealedRow, new: &[u8]) -> Result<bool, sqlx::Error> {
                match self {
                    $(Self::$name => {
                        let replaced = sqlx::query!(
                            "UPDATE " + $table + " SET " + $column + " = $3 WHERE " + $is_row + " AND " + $column
                                + " = $2",
                            row.row,
                            row.sealed,
                            new,
                        )
                        .execute(pool)
                        .await?;
                        Ok(replaced.rows_affected() == 1)
                    })+
                }
            }
        }
    };
}

columns! {
    /// The keys of our accounts at certificate authorities.
    AcmeAccounts {
        table: "acme_accounts",
        column: "sealed_credentials",
        purpose: KeyPurpose::AcmeAccounts,
        identity: text_identity,
        row: "id",
        is_row: "id = $1",
    }
    /// Private keys of certificates that are being ordered.
    CertificateOrders {
        table: "certificate_orders",
        column: "sealed_key",
        purpose: KeyPurpose::CertificateKeys,
        identity: text_identity,
        row: "name",
        is_row: "name = $1",
    }
    /// Private keys of certificates.
    Certificates {
        table: "certificates",
        column: "sealed_key",
        purpose: KeyPurpose::CertificateKeys,
        identity: text_identity,
        row: "id",
        is_row: "id = $1",
    }
    /// The code host's device codes, for pending sign-ins.
    DeviceGrants {
        table: "device_grants",
        column: "sealed_device_code",
        purpose: KeyPurpose::CodeHost,
        identity: hex_identity,
        row: "encode(device_code_hash, 'hex')",
        is_row: "device_code_hash = decode($1, 'hex')",
    }
    /// People's grants at the code host.
    CodeHostGrants {
        table: "code_host_grants",
        column: "sealed_tokens",
        purpose: KeyPurpose::CodeHost,
        identity: text_identity,
        row: "user_id",
        is_row: "user_id = $1",
    }
    /// The check value by which programs verify their master key.
    MasterKeyChecks {
        table: "master_key_checks",
        column: "sealed_check",
        purpose: KeyPurpose::MasterKeyCheck,
        identity: text_identity,
        row: "id",
        is_row: "id = $1",
    }
    /// The PKCE verifiers of pending web sign-ins.
    SignIns {
        table: "sign_ins",
        column: "sealed_verifier",
        purpose: KeyPurpose::SignIns,
        identity: hex_identity,
        row: "encode(state_hash, 'hex')",
        is_row: "state_hash = decode($1, 'hex')",
    }
    /// Values of environment variables.
    EnvVars {
        table: "env_vars",
        column: "sealed_value",
        purpose: KeyPurpose::EnvValues,
        identity: text_identity,
        row: r#"(project_id || '/' || key) COLLATE "C""#,
        is_row: "project_id = split_part($1, '/', 1) AND key = split_part($1, '/', 2)",
    }
    /// Values of environment variables of deleted projects that can be restored.
    DeletedEnvVars {
        table: "deleted_env_vars",
        column: "sealed_value",
        purpose: KeyPurpose::EnvValues,
        identity: text_identity,
        row: r#"(project_id || '/' || key) COLLATE "C""#,
        is_row: "project_id = split_part($1, '/', 1) AND key = split_part($1, '/', 2)",
    }
}

fn text_identity(row: &str) -> Vec<u8> {
    row.as_bytes().to_vec()
}

/// Decodes a row key that is a hash, whose bytes are the associated data.
fn hex_identity(row: &str) -> Vec<u8> {
    hex::decode(row).unwrap_or_default()
}
