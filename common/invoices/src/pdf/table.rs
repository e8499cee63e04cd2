//! The table of an invoice's lines, which repeats its column names on every page.

use super::{
    compose::PageComposition,
    sheets::{DocumentSheets, NodeKind, StructureNode, measure},
    style::{BODY, HAIRLINE, INK, LABEL, LEADING, LEFT, QUIET, RIGHT, WIDTH},
    words,
    wrap::wrap,
};
use crate::model::{DraftLine, VatCategory};

/// The right edges of the numeric columns.
const QUANTITY: f32 = LEFT + WIDTH * 0.58;
const PRICE: f32 = LEFT + WIDTH * 0.74;
const VAT: f32 = LEFT + WIDTH * 0.83;
const AMOUNT: f32 = RIGHT;
const DESCRIPTION: f32 = WIDTH * 0.47;
const DESCRIPTION_LINES: usize = 6;
const PADDING: f32 = 9.0;

pub(super) fn set(page: &mut PageComposition<'_>) {
    // Enough for the column names and one row.
    page.make_room(60.0);
    let table = page.sheets.open(DocumentSheets::ROOT, NodeKind::Table);
    head(page, Some(table));
    for line in &page.invoice.lines {
        row(page, table, line);
    }
}

fn row(page: &mut PageComposition<'_>, table: StructureNode, line: &DraftLine) {
    let description = wrap(&line.description, BODY.weight, DESCRIPTION / BODY.size, DESCRIPTION_LINES);
    let below: f32 = description.iter().skip(1).map(|_| LEADING).sum();
    let height = LEADING + below + PADDING;
    if page.make_room(height) {
        head(page, None);
    }
    let row = page.sheets.open(table, NodeKind::Row);
    let first = page.y + LEADING;
    let cell = page.sheets.open(row, NodeKind::Cell);
    description.iter().fold(first, |y, text| {
        page.sheets.text(cell, LEFT, y, text, BODY);
        y + LEADING
    });
    let vat = match line.category {
        VatCategory::OutsideScope => "–".to_owned(),
        _ => format!("{}%", line.rate),
    };
    for (end, text, style) in [
        (QUANTITY, words::quantity(line.quantity), QUIET),
        (PRICE, words::money(line.unit_price_cents), QUIET),
        (VAT, vat, QUIET),
        (AMOUNT, words::money(line.net_cents), BODY),
    ] {
        let cell = page.sheets.open(row, NodeKind::Cell);
        page.sheets.text_to(cell, end, first, &text, style);
    }
    page.y += height;
    page.sheets.rule(LEFT, RIGHT, page.y, 0.5, HAIRLINE);
}

/// Writes the column names: into the table, or as decoration on later pages.
fn head(page: &mut PageComposition<'_>, table: Option<StructureNode>) {
    let row = table.map(|table| page.sheets.open(table, NodeKind::Row));
    let last = page.sheets.pages.len() - 1;
    for (end, name) in [
        (None, "Description"),
        (Some(QUANTITY), "Quantity"),
        (Some(PRICE), "Unit price"),
        (Some(VAT), "VAT"),
        (Some(AMOUNT), "Amount"),
    ] {
        let x = end.map_or(LEFT, |end| end - measure(name, LABEL));
        match row {
            Some(row) => {
                let cell = page.sheets.open(row, NodeKind::HeaderCell);
                page.sheets.text(cell, x, page.y, name, LABEL);
            }
            None => page.sheets.decoration(last, x, page.y, name, LABEL),
        }
    }
    page.y += 8.0;
    page.sheets.rule(LEFT, RIGHT, page.y, 0.9, INK);
    page.y += 3.0;
}
