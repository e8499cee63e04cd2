//! Every column that is sealed with the master key, and how its rows are sealed anew. For the rotation of the key.
//!
//! A new column of the kind takes its place in [`Column`]: its table, the SQL expression that writes a row's key as text (`row`),
//! and the condition that finds the row of such a text again (`is_row`). A test compares the list with the schema.

use secrets::{
    Purpose,
    master_key::{FORM, TAG_LEN},
};
use sqlx::{PgConnection, PgPool};

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
            pub const fn purpose(self) -> Purpose {
                match self { $(Self::$name => $purpose,)+ }
            }

            /// Returns the associated data of a row.
            pub fn identity(self, row: &str) -> Vec<u8> {
                match self { $(Self::$name => $identity(row),)+ }
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

            /// Returns the leading bytes of the column's values, which name the keys that sealed them. Values from before there
            /// were key ids begin with none.
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

            /// Puts `new` in the place of `row`'s bytes. Returns false when somebody has changed them meanwhile.
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
        purpose: Purpose::AcmeAccounts,
        identity: of_text,
        row: "id",
        is_row: "id = $1",
    }
    /// Private keys of certificates that are being ordered.
    CertificateOrders {
        table: "certificate_orders",
        column: "sealed_key",
        purpose: Purpose::CertificateKeys,
        identity: of_text,
        row: "name",
        is_row: "name = $1",
    }
    /// Private keys of certificates.
    Certificates {
        table: "certificates",
        column: "sealed_key",
        purpose: Purpose::CertificateKeys,
        identity: of_text,
        row: "id",
        is_row: "id = $1",
    }
    /// The code host's device codes, of sign-ins under way.
    DeviceGrants {
        table: "device_grants",
        column: "sealed_device_code",
        purpose: Purpose::CodeHost,
        identity: of_hex,
        row: "encode(device_code_hash, 'hex')",
        is_row: "device_code_hash = decode($1, 'hex')",
    }
    /// The grants of people at the code host.
    CodeHostGrants {
        table: "code_host_grants",
        column: "sealed_tokens",
        purpose: Purpose::CodeHost,
        identity: of_text,
        row: "user_id",
        is_row: "user_id = $1",
    }
    /// The value by which programs find out whether they have the right master key.
    MasterKeyChecks {
        table: "master_key_checks",
        column: "sealed_check",
        purpose: Purpose::MasterKeyCheck,
        identity: of_text,
        row: "id",
        is_row: "id = $1",
    }
    /// The proofs of web sign-ins under way.
    SignIns {
        table: "sign_ins",
        column: "sealed_verifier",
        purpose: Purpose::SignIns,
        identity: of_hex,
        row: "encode(state_hash, 'hex')",
        is_row: "state_hash = decode($1, 'hex')",
    }
    /// Values of environment variables.
    EnvVars {
        table: "env_vars",
        column: "sealed_value",
        purpose: Purpose::EnvValues,
        identity: of_text,
        row: r#"(project_id || '/' || key) COLLATE "C""#,
        is_row: "project_id = split_part($1, '/', 1) AND key = split_part($1, '/', 2)",
    }
    /// Values of environment variables of projects that were deleted and can be restored.
    DeletedEnvVars {
        table: "deleted_env_vars",
        column: "sealed_value",
        purpose: Purpose::EnvValues,
        identity: of_text,
        row: r#"(project_id || '/' || key) COLLATE "C""#,
        is_row: "project_id = split_part($1, '/', 1) AND key = split_part($1, '/', 2)",
    }
}

fn of_text(row: &str) -> Vec<u8> {
    row.as_bytes().to_vec()
}

/// The row's key is a hash, and its bytes are the identity.
fn of_hex(row: &str) -> Vec<u8> {
    hex::decode(row).unwrap_or_default()
}
