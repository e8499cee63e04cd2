//! The page from top to bottom: its opening, and the parts repeated on each page. `table.rs` sets the lines,
//! `closing.rs` the part after them.

use super::{
    PLAY_MONEY, closing,
    sheets::{DocumentSheets, NodeKind, StructureNode, measure},
    style::{
        BODY, BOTTOM, BRAND, BROWN, GREEN, GUTTER, HAIRLINE, INK, LABEL, LEADING, LEFT, MIDDLE, NAME, NUMBER, PAGE,
        PALE_GREEN, PALE_YELLOW, QUIET, RIGHT, SMALL, STRONG, TITLE, TOP, TextStyle, WHITE, WIDTH, YELLOW,
    },
    table, words,
    wrap::{shorten, wrap},
};
use crate::{
    Invoice,
    model::{InvoiceKind, Party},
};

const BANNER_HEIGHT: f32 = 26.0;
const BANNER: TextStyle = TextStyle { color: INK, ..STRONG };
const LOGO: f32 = 20.0;
const PILL_HEIGHT: f32 = 18.0;
/// The left edges of the columns of facts, as fractions of the width. The second column fits the longest period.
const FACT_COLUMNS: [f32; 4] = [0.0, 0.17, 0.5, 0.76];

/// A document that is set down to `y`.
pub(super) struct PageComposition<'a> {
    pub(super) invoice: &'a Invoice,
    pub(super) sheets: DocumentSheets,
    pub(super) y: f32,
}

pub(super) fn compose(invoice: &Invoice) -> DocumentSheets {
    let mut page = PageComposition { invoice, sheets: DocumentSheets::new(), y: TOP };
    if invoice.play_money {
        page.banner(true);
    }
    page.masthead();
    page.facts();
    page.parties();
    table::set(&mut page);
    closing::set(&mut page);
    page.footers();
    page.sheets
}

impl PageComposition<'_> {
    /// Starts a new page if the height does not fit on this one. Returns whether it did.
    pub(super) fn make_room(&mut self, height: f32) -> bool {
        if self.y + height <= BOTTOM {
            return false;
        }
        self.sheets.start_page();
        self.y = TOP;
        if self.invoice.play_money {
            self.banner(false);
        }
        let page = self.sheets.pages.len() - 1;
        let (brand, title) = (&self.invoice.brand, format!("{} {}", self.invoice.title(), self.invoice.number));
        let half = WIDTH / 2.0 - GUTTER;
        self.sheets.decoration(page, LEFT, self.y + 8.0, &shorten(brand, STRONG.weight, half / STRONG.size), STRONG);
        let title = shorten(&title, QUIET.weight, half / QUIET.size);
        self.sheets.decoration(page, RIGHT - measure(&title, QUIET), self.y + 8.0, &title, QUIET);
        self.sheets.rule(LEFT, RIGHT, self.y + 20.0, 0.6, HAIRLINE);
        self.y += 44.0;
        true
    }

    /// Writes a paragraph wrapped to `room` from x on, with its first baseline at y. Returns the next baseline.
    pub(super) fn paragraph(
        &mut self,
        node: StructureNode,
        (x, y): (f32, f32),
        room: f32,
        text: &str,
        style: TextStyle,
        max: usize,
    ) -> f32 {
        let lines = wrap(text, style.weight, room / style.size, max);
        (0_u8..).zip(&lines).fold(y, |y, (_, line)| {
            self.sheets.text(node, x, y, line, style);
            y + LEADING
        })
    }

    fn banner(&mut self, is_first: bool) {
        self.sheets.band(BANNER_HEIGHT, YELLOW);
        let x = (PAGE.0 - measure(PLAY_MONEY, BANNER)) / 2.0;
        if is_first {
            let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
            self.sheets.text(node, x, 16.5, PLAY_MONEY, BANNER);
        } else {
            self.sheets.decoration(self.sheets.pages.len() - 1, x, 16.5, PLAY_MONEY, BANNER);
        }
        self.y += BANNER_HEIGHT / 2.0;
    }

    /// Sets the logo, state, title and number.
    fn masthead(&mut self) {
        let (invoice, y) = (self.invoice, self.y);
        let letter: String = invoice.brand.chars().next().into_iter().flat_map(char::to_uppercase).take(1).collect();
        let white = TextStyle { color: WHITE, size: 12.0, ..BRAND };
        self.sheets.rectangle(LEFT, y, (LOGO, LOGO), 5.0, INK);
        self.sheets.decoration(0, LEFT + (LOGO - measure(&letter, white)) / 2.0, y + 14.4, &letter, white);
        let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        let brand = shorten(&invoice.brand, BRAND.weight, WIDTH * 0.6 / BRAND.size);
        self.sheets.text(node, LEFT + LOGO + 9.0, y + 15.0, &brand, BRAND);

        let title = self.sheets.open(DocumentSheets::ROOT, NodeKind::Title(invoice.title()));
        self.sheets.text(title, LEFT, y + 78.0, invoice.title(), TITLE);
        let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        let number = shorten(&invoice.number, NUMBER.weight, WIDTH / NUMBER.size);
        self.sheets.text(node, LEFT, y + 97.0, &number, NUMBER);

        let (state, color, ground) = match (&invoice.payment, invoice.is_credit_note()) {
            (Some(_), false) => ("Paid", GREEN, PALE_GREEN),
            (Some(_), true) => ("Refunded", GREEN, PALE_GREEN),
            (None, false) => ("Due", BROWN, PALE_YELLOW),
            (None, true) => ("To be refunded", BROWN, PALE_YELLOW),
        };
        let pill = TextStyle { color, size: 8.6, ..STRONG };
        let wide = measure(state, pill) + 18.0;
        self.sheets.rectangle(RIGHT - wide, y + 1.0, (wide, PILL_HEIGHT), PILL_HEIGHT / 2.0, ground);
        let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        self.sheets.text(node, RIGHT - wide + 9.0, y + 13.2, state, pill);
        self.y = y + 118.0;
    }

    /// Sets the dates, references and total, between two rules.
    fn facts(&mut self) {
        let invoice = self.invoice;
        let mut facts =
            vec![("Issued", words::date(invoice.issued)), ("Service period", words::period(invoice.service))];
        if let Some(tax_point) = invoice.tax_point {
            facts.push(("Tax point", words::date(tax_point)));
        }
        if let InvoiceKind::CreditNote { of, of_date } = &invoice.kind {
            facts.push(("Corrects the invoice", of.clone()));
            facts.push(("Issued on", words::date(*of_date)));
        }
        if let Some(reference) = &invoice.buyer_reference {
            facts.push(("Your reference", reference.clone()));
        }
        facts.push(("Total", words::money(invoice.totals.total_cents)));

        self.sheets.rule(LEFT, RIGHT, self.y, 0.6, HAIRLINE);
        for row in facts.chunks(FACT_COLUMNS.len()) {
            let ends = FACT_COLUMNS.iter().copied().skip(1).chain([1.0]);
            for ((label, fact), (start, end)) in row.iter().zip(FACT_COLUMNS.into_iter().zip(ends)) {
                let (x, column) = (LEFT + WIDTH * start, WIDTH * (end - start));
                let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
                let style = if *label == "Total" { STRONG } else { BODY };
                self.sheets.text(node, x, self.y + 17.0, label, LABEL);
                self.sheets.text(
                    node,
                    x,
                    self.y + 31.0,
                    &shorten(fact, style.weight, (column - 6.0) / style.size),
                    style,
                );
            }
            self.y += 34.0;
        }
        self.y += 9.0;
        self.sheets.rule(LEFT, RIGHT, self.y, 0.6, HAIRLINE);
        self.y += 26.0;
    }

    fn parties(&mut self) {
        let seller = self.party("From", &self.invoice.seller, LEFT);
        let buyer = self.party("Billed to", &self.invoice.buyer, MIDDLE);
        self.y = seller.max(buyer) + 22.0;
    }

    /// Sets a party in its half of the page. Returns where it ends.
    fn party(&mut self, heading: &'static str, party: &Party, x: f32) -> f32 {
        let room = WIDTH / 2.0 - GUTTER;
        let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Heading(heading));
        self.sheets.text(node, x, self.y, heading, LABEL);
        let node = self.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        let mut y = self.paragraph(node, (x, self.y + 16.0), room, &party.name, NAME, 3);
        let address = &party.address;
        let city = format!("{} {}", address.postcode, address.city);
        let lines = address.lines.iter().map(String::as_str).chain([city.trim(), address.country.name()]);
        for line in lines.filter(|line| !line.is_empty()) {
            y = self.paragraph(node, (x, y), room, line, BODY, 2);
        }
        let vat = party.vat_number.as_ref().map(|number| format!("VAT {number}"));
        for line in [vat, registration(party), party.email.clone()].into_iter().flatten() {
            self.sheets.text(node, x, y, &shorten(&line, QUIET.weight, room / QUIET.size), QUIET);
            y += LEADING;
        }
        y
    }

    /// Sets the footer of each page: the seller, the location of the XML, and the page number.
    fn footers(&mut self) {
        let seller = &self.invoice.seller;
        let vat = seller.vat_number.as_ref().map(|number| format!("VAT {number}"));
        let parts = [Some(seller.name.clone()), registration(seller), vat, seller.email.clone()];
        let imprint = parts.into_iter().flatten().collect::<Vec<_>>().join("  ·  ");
        let imprint = shorten(&imprint, SMALL.weight, (WIDTH - 70.0) / SMALL.size);
        let count = self.sheets.pages.len();
        for page in 0..count {
            let number = format!("Page {} of {count}", page + 1);
            let y = PAGE.1 - 52.0;
            self.sheets.decoration(page, LEFT, y, &imprint, SMALL);
            self.sheets.decoration(page, RIGHT - measure(&number, SMALL), y, &number, SMALL);
            self.sheets.decoration(page, LEFT, y + 11.5, ATTACHED, SMALL);
        }
    }
}

const ATTACHED: &str =
    "This document carries itself as XML for bookkeeping software: factur-x.xml (EN 16931), attached to the PDF.";

fn registration(party: &Party) -> Option<String> {
    let register = if party.address.country.code() == "NL" { "KvK" } else { "Reg. no." };
    party.registration_id.as_ref().map(|number| format!("{register} {number}"))
}
