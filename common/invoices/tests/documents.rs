//! The documents of every sample have the marks of PDF/A-3 and Factur-X, and are reproducible. They are left in the
//! build folder's `tmp/invoices` for inspection.
#![expect(clippy::panic, reason = "a sample that cannot be rendered fails its test")]

mod samples;

use std::path::Path;

use invoices::{
    Invoice, InvoiceDocuments,
    model::{InvoiceDraft, InvoiceError, VatTreatment},
};

#[test]
fn every_sample_becomes_the_same_documents_each_time() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("invoices");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, invoice) in samples::all() {
        let documents = render(name, &invoice);
        let path = |extension| folder.join(name).with_extension(extension);
        std::fs::write(path("pdf"), &documents.pdf).unwrap();
        std::fs::write(path("cii.xml"), &documents.cii).unwrap();
        std::fs::write(path("ubl.xml"), &documents.ubl).unwrap();
        assert!(documents == render(name, &invoice), "{name}");
    }
}

#[test]
fn every_pdf_has_the_marks_of_the_standards() {
    for (name, invoice) in samples::all() {
        let pdf = render(name, &invoice).pdf;
        let compact = |text: &str| text.replace([' ', '\n'], "");
        let text = compact(&String::from_utf8_lossy(&pdf));
        for mark in [
            "%PDF-1.7",
            "<pdfaid:part>3</pdfaid:part>",
            "<pdfaid:conformance>A</pdfaid:conformance>",
            "<pdfuaid:part>1</pdfuaid:part>",
            "/OutputIntents",
            "/S /GTS_PDFA1",
            "/DestOutputProfile",
            "/AFRelationship /Alternative",
            "/AF [",
            "/EmbeddedFiles",
            "/UF (factur-x.xml)",
            "/Subtype /text#2Fxml",
            "/StructTreeRoot",
            "/Lang (en)",
            "<pdfaSchema:namespaceURI>urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#</pdfaSchema:namespaceURI>",
            "<fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>",
            "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>",
        ] {
            assert!(text.contains(&compact(mark)), "{name} lacks {mark}");
        }
        for banned in ["/Encrypt", "/JavaScript", "/Launch"] {
            assert!(!text.contains(banned), "{name} has {banned}");
        }
        // Two revisions: the output of krilla, and the metadata of Factur-X.
        assert_eq!(text.matches("%%EOF").count(), 2, "{name}");
    }
}

#[test]
fn xml_says_what_kind_of_document_it_is() {
    let invoice = render("domestic", &samples::prove(samples::domestic()));
    assert!(invoice.cii.contains("<ram:TypeCode>380</ram:TypeCode>"));
    assert!(invoice.cii.contains("urn:cen.eu:en16931:2017</ram:ID>"));
    assert!(invoice.ubl.contains("<Invoice ") && invoice.ubl.contains("urn:fdc:peppol.eu:2017:poacc:billing:3.0"));
    let note = render("credit-note", &samples::prove(samples::credit_note()));
    assert!(note.cii.contains("<ram:TypeCode>381</ram:TypeCode>") && note.cii.contains("2026-000117"));
    assert!(note.ubl.contains("<CreditNote ") && note.ubl.contains("2026-000117"));
    // A consumer has no Peppol address.
    let consumer = render("consumer", &samples::prove(samples::consumer()));
    assert!(!consumer.ubl.contains("peppol"));
}

#[test]
fn notes_that_the_law_wants_are_in_the_xml() {
    for (draft, wanted) in [
        (samples::reverse_charge(), vec!["VAT reverse charged", "WAPIAAAAY3k9hQbT", "VATEX-EU-AE"]),
        (samples::consumer(), vec!["one-stop shop (OSS)"]),
        (samples::outside(), vec!["Outside the scope of EU VAT", "VATEX-EU-O"]),
    ] {
        let documents = render(wanted[0], &samples::prove(draft));
        for wanted in wanted {
            assert!(documents.cii.contains(wanted) && documents.ubl.contains(wanted), "{wanted}");
        }
    }
}

#[test]
fn play_money_is_marked_everywhere() {
    let draft = InvoiceDraft { play_money: true, ..samples::domestic() };
    let documents = render("play-money", &samples::prove(draft));
    assert!(documents.cii.contains("PLAY MONEY") && documents.ubl.contains("PLAY MONEY"));
}

#[test]
fn sums_that_are_wrong_are_refused_by_name() {
    let refused = |change: fn(&mut InvoiceDraft)| {
        let mut draft = samples::domestic();
        change(&mut draft);
        Invoice::new(draft).unwrap_err().to_string()
    };
    assert_eq!(refused(|draft| draft.lines[1].net_cents += 1), "line 2 is 2401 cents, but must be 2400");
    assert_eq!(refused(|draft| draft.totals.net_cents += 1), "the net amount is 7601 cents, but must be 7600");
    assert_eq!(refused(|draft| draft.totals.vat_cents -= 1), "the VAT is 1199 cents, but must be 1200");
    assert_eq!(refused(|draft| draft.totals.total_cents += 100), "the total is 8900 cents, but must be 8800");
    assert!(refused(|draft| draft.vat[0].vat_cents += 1).starts_with("VAT by rate is"));
    assert!(refused(|draft| draft.vat.truncate(1)).starts_with("VAT by rate is"));
    assert!(refused(|draft| draft.lines.clear()).contains("lines must be 1 to 1000, not 0"));
    assert!(refused(|draft| draft.number = " \u{0}".to_owned()).contains("the number is empty"));
    assert!(refused(|draft| draft.buyer.name = "x".repeat(301)).contains("the buyer is longer than 300 characters"));
    assert!(refused(|draft| std::mem::swap(&mut draft.service.from, &mut draft.service.to)).contains("period"));
    assert!(refused(|draft| draft.lines[0].quantity = i64::MIN).contains("line 1 is out of bounds"));
    assert!(refused(|draft| draft.lines[0].net_cents = i64::MIN).contains("line 1 is out of bounds"));
}

#[test]
fn unlawful_treatments_are_refused() {
    let treated = |treatment: &VatTreatment, change: fn(&mut InvoiceDraft)| {
        let mut draft = samples::reverse_charge();
        draft.treatment = treatment.clone();
        let lines = draft.lines.clone();
        let mut draft = samples::with_lines(draft, lines);
        change(&mut draft);
        Invoice::new(draft).unwrap_err()
    };
    let reverse = VatTreatment::ReverseCharge { consultation: None };
    for change in [
        (|draft: &mut InvoiceDraft| draft.buyer.vat_number = None) as fn(&mut InvoiceDraft),
        |draft| draft.buyer.vat_number = Some("NL004495445B01".to_owned()),
        |draft| draft.seller.vat_number = None,
    ] {
        assert!(matches!(treated(&reverse, change), InvoiceError::Treatment(_)));
    }
    let taxed = treated(&reverse, |draft| draft.lines[1] = samples::line("Taxed", 1, 100, 2100));
    assert_eq!(taxed, InvoiceError::LineTreatment { line: 2 });
    let unknown = treated(&VatTreatment::OutsideScope, |draft| draft.seller.registration_id = None);
    assert!(matches!(unknown, InvoiceError::Treatment(_)));
}

fn render(name: &str, invoice: &Invoice) -> InvoiceDocuments {
    invoices::render(invoice).unwrap_or_else(|error| panic!("{name}: {error}"))
}
