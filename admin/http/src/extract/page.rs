//! `?limit=` and `?cursor=`: a page of a list sorted by id, newest first. The cursor is the previous page's last id.

use std::str::FromStr;

use api::Page;
use axum::{extract::FromRequestParts, http::request::Parts};
use domain::limits::PAGE_ROWS;

use super::Query;
use crate::error::ApiError;

/// The requested page of a list. Document it with `params(api::Page)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery<Id> {
    limit: i64,
    /// The id before which the page starts.
    pub before: Option<Id>,
}

impl<Id: FromStr> PageQuery<Id> {
    fn new(page: &Page) -> Result<Self, ApiError> {
        let limit = page.limit.as_deref().map_or(Some(PAGE_ROWS), |limit| limit.parse().ok());
        let limit = limit
            .filter(|limit| (1..=PAGE_ROWS).contains(limit))
            .ok_or_else(|| ApiError::invalid(format!("`limit` must be a whole number from 1 to {PAGE_ROWS}.")))?;
        let before = page.cursor.as_deref().map(str::parse).transpose();
        let before = before.map_err(|_| invalid_cursor())?;
        Ok(Self { limit, before })
    }
}

/// Returns the error for an invalid cursor.
pub fn invalid_cursor() -> ApiError {
    ApiError::invalid("`cursor` must be the `next_cursor` of the page before, unchanged.")
}

impl<Id> PageQuery<Id> {
    /// Returns the number of rows to read: one more than the page size, which shows whether there is a next page.
    pub fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// Truncates the rows to the page size and returns the cursor of the next page.
    pub fn truncate<Row>(&self, rows: &mut Vec<Row>, id: impl Fn(&Row) -> String) -> Option<String> {
        let wanted = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = rows.len() > wanted;
        rows.truncate(wanted);
        rows.last().filter(|_| more).map(id)
    }
}

impl<Id: FromStr, S: Send + Sync> FromRequestParts<S> for PageQuery<Id> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(page) = Query::<Page>::from_request_parts(parts, state).await?;
        Self::new(&page)
    }
}

#[cfg(test)]
mod tests {
    use domain::TokenId;

    use super::*;

    fn page(limit: Option<&str>, cursor: Option<&str>) -> Result<PageQuery<TokenId>, ApiError> {
        PageQuery::new(&Page { limit: limit.map(ToOwned::to_owned), cursor: cursor.map(ToOwned::to_owned) })
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        assert_eq!(page(None, None).unwrap().rows(), 101);
        assert_eq!(page(Some("100"), None).unwrap().rows(), 101);
        for bad in ["0", "101", "-1", "", "1.0", "many", "99999999999999999999"] {
            assert!(page(Some(bad), None).is_err(), "{bad:?}");
        }
        assert!(page(None, Some("tok_short")).is_err());
        assert!(page(Some("1"), Some("tok_00000000000000000000")).unwrap().before.is_some());
    }

    #[test]
    fn the_cursor_is_there_only_when_rows_are_left() {
        let page = page(Some("2"), None).unwrap();
        let mut rows = vec![3, 2, 1];
        assert_eq!(page.truncate(&mut rows, ToString::to_string).as_deref(), Some("2"));
        assert_eq!(rows, [3, 2]);
        assert_eq!(page.truncate(&mut rows, ToString::to_string), None);
    }
}
