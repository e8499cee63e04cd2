//! Text columns that hold a domain type.

/// Implements text columns for a type that has `as_str` and `FromStr`. Column values are parsed, so they are known to
/// be valid. The optional second argument replaces the parser and accepts any text.
macro_rules! text {
    ($name:ident) => {
        crate::column::text!(@implement $name, |text| text.parse()?);
    };
    ($name:ident, |$text:ident| $read:expr) => {
        crate::column::text!(@implement $name, |$text| $read);
    };
    (@implement $name:ident, |$text:ident| $read:expr) => {
        impl sqlx::Type<sqlx::Postgres> for $name {
            fn type_info() -> sqlx::postgres::PgTypeInfo {
                <&str as sqlx::Type<sqlx::Postgres>>::type_info()
            }

            fn compatible(ty: &sqlx::postgres::PgTypeInfo) -> bool {
                <&str as sqlx::Type<sqlx::Postgres>>::compatible(ty)
            }
        }

        impl sqlx::postgres::PgHasArrayType for $name {
            fn array_type_info() -> sqlx::postgres::PgTypeInfo {
                <&str as sqlx::postgres::PgHasArrayType>::array_type_info()
            }

            fn array_compatible(ty: &sqlx::postgres::PgTypeInfo) -> bool {
                <&str as sqlx::postgres::PgHasArrayType>::array_compatible(ty)
            }
        }

        impl sqlx::Encode<'_, sqlx::Postgres> for $name {
            fn encode_by_ref(
                &self,
                buffer: &mut sqlx::postgres::PgArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                <&str as sqlx::Encode<'_, sqlx::Postgres>>::encode(self.as_str(), buffer)
            }
        }

        impl<'r> sqlx::Decode<'r, sqlx::Postgres> for $name {
            fn decode(value: sqlx::postgres::PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                let $text = <&str as sqlx::Decode<'r, sqlx::Postgres>>::decode(value)?;
                Ok($read)
            }
        }
    };
}

pub(crate) use text;
