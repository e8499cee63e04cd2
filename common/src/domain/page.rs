//! Pages of a list, newest first: ids sort by time, so a page starts after the last id of the page before.

use std::str::FromStr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::limits::PAGE_ROWS;
use crate::api;

/// A wanted page of rows that are identified by `Id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOf<Id> {
    /// Rows wanted: 1 to [`PAGE_ROWS`].
    pub limit: i64,
    /// Only rows older than this one.
    pub before: Option<Id>,
}

/// Why a page cannot be given. The text is for the person who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPage {
    /// Outside 1 to 100.
    #[error("limit must be a whole number from 1 to 100")]
    Limit,
    /// Not what an answer gave as `next_cursor`.
    #[error("cursor must be the next_cursor of an earlier answer to the same list")]
    Cursor,
}

impl<Id: FromStr> PageOf<Id> {
    /// Reads `?limit=` and `?cursor=`.
    pub fn parse(page: &api::Page) -> Result<Self, InvalidPage> {
        let limit = page.limit.map_or(PAGE_ROWS, i64::from);
        if !(1..=PAGE_ROWS).contains(&limit) {
            return Err(InvalidPage::Limit);
        }
        let before = page.cursor.as_deref().map(decode).transpose()?;
        Ok(Self { limit, before })
    }
}

impl<Id> PageOf<Id> {
    /// What to ask the database for: one row more than wanted, which tells whether there is a next page.
    pub fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// Cuts the extra row off `rows`, and gives the cursor of the next page if there is one.
    pub fn finish<Row>(&self, rows: &mut Vec<Row>, id: impl Fn(&Row) -> &str) -> Option<String> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if rows.len() <= limit {
            return None;
        }
        rows.truncate(limit);
        rows.last().map(|row| URL_SAFE_NO_PAD.encode(id(row)))
    }
}

fn decode<Id: FromStr>(cursor: &str) -> Result<Id, InvalidPage> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidPage::Cursor)?;
    std::str::from_utf8(&bytes).ok().and_then(|id| id.parse().ok()).ok_or(InvalidPage::Cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{DeploymentId, ProjectId, Timestamp};

    fn ask(limit: Option<u8>, cursor: Option<&str>) -> Result<PageOf<ProjectId>, InvalidPage> {
        PageOf::parse(&api::Page { limit, cursor: cursor.map(str::to_owned) })
    }

    #[test]
    fn pages_follow_one_another() {
        let ids: Vec<_> = (0..3).map(|millis| ProjectId::new(Timestamp::from_unix_millis(millis))).collect();
        let first = ask(Some(2), None).unwrap();
        let mut rows = ids.clone();
        let cursor = first.finish(&mut rows, ProjectId::as_str).unwrap();
        assert_eq!(rows, ids[..2]);
        let second = ask(Some(2), Some(&cursor)).unwrap();
        assert_eq!(second.before.as_ref(), Some(&ids[1]));
        assert_eq!(second.finish(&mut ids[2..].to_vec(), ProjectId::as_str), None);
    }

    #[test]
    fn odd_pages_are_refused() {
        assert_eq!(ask(Some(0), None), Err(InvalidPage::Limit));
        assert_eq!(ask(Some(101), None), Err(InvalidPage::Limit));
        assert_eq!(ask(None, Some("x")), Err(InvalidPage::Cursor));
        let foreign = URL_SAFE_NO_PAD.encode(DeploymentId::new(Timestamp::from_unix_millis(0)).as_str());
        assert_eq!(ask(None, Some(&foreign)), Err(InvalidPage::Cursor));
        assert_eq!(ask(None, None).unwrap().limit, PAGE_ROWS);
    }
}
