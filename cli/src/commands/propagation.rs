//! Prints how many edges have applied a change.

use crate::{
    client::Propagation,
    output::{self, Output},
};

/// Prints a note such as `Live on 3 of 3 edges in 9 ms.`
pub(super) fn report(output: Output, what: &str, propagation: Option<Propagation>) {
    let Some(Propagation { acknowledged, edges, milliseconds }) = propagation else { return };
    if edges > 0 {
        let noun = if edges == 1 { "edge" } else { "edges" };
        output.success(&format!("{what} on {acknowledged} of {edges} {noun} in {milliseconds} ms."));
    }
    if edges == 0 {
        output::warning(
            "How many edges have it is not known: none is heard of. It is saved, and edges take it over when they run.",
        );
    }
    if acknowledged < edges {
        output::warning("The others have not answered; they take the change over when they are back.");
    }
}
