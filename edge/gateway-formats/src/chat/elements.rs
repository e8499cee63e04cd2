//! Reads the elements of JSON arrays one after the other, as a list of many small ones takes many times their bytes.

use std::{fmt, marker::PhantomData};

use gateway_request::error::ApiError;
use serde::{
    Deserialize, Deserializer as _,
    de::{Error as _, SeqAccess, Visitor},
};

/// The reason why not all elements were read.
pub(in super::super) enum ElementsError {
    /// The text is not an array, or an element is not what was expected.
    Json(serde_json::Error),
    /// An element was refused.
    Refused(ApiError),
}

struct ElementReader<'e, T, F> {
    each: F,
    refused: &'e mut Option<ApiError>,
    element: PhantomData<T>,
}

/// Calls `each` with the index and the value of each element of the array in `text`, until it refuses one.
pub(in super::super) fn for_each_element<'t, T: Deserialize<'t>>(
    text: &'t str,
    each: impl FnMut(usize, T) -> Result<(), ApiError>,
) -> Result<(), ElementsError> {
    let mut refused = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let reader = ElementReader { each, refused: &mut refused, element: PhantomData };
    let read = deserializer.deserialize_seq(reader).and_then(|()| deserializer.end());
    match refused {
        Some(error) => Err(ElementsError::Refused(error)),
        None => read.map_err(ElementsError::Json),
    }
}

impl<'t, T: Deserialize<'t>, F: FnMut(usize, T) -> Result<(), ApiError>> Visitor<'t> for ElementReader<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(element) = elements.next_element()? {
            if let Err(error) = (self.each)(index, element) {
                *self.refused = Some(error);
                return Err(A::Error::custom("an element was refused"));
            }
            index += 1;
        }
        Ok(())
    }
}
