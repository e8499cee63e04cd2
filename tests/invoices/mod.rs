//! Documents of invoices, judged by programs that others wrote: the reference implementation of Factur-X, the official rules of
//! EN 16931, and readers of PDF.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use tokio::process::Command;

use crate::world::tools;

#[path = "../../common/invoices/tests/samples/mod.rs"]
mod samples;

/// Documents of every sample, in a folder of their own.
struct Shelf(tempfile::TempDir);

impl Shelf {
    fn fill() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, invoice) in samples::all() {
            let documents = invoices::render(&invoice).unwrap();
            let path = |extension| folder.path().join(name).with_extension(extension);
            std::fs::write(path("pdf"), documents.pdf).unwrap();
            std::fs::write(path("cii.xml"), documents.cii).unwrap();
            std::fs::write(path("ubl.xml"), documents.ubl).unwrap();
        }
        Self(folder)
    }

    fn pdfs(&self) -> Vec<(&'static str, PathBuf)> {
        samples::all().into_iter().map(|(name, _)| (name, self.0.path().join(name).with_extension("pdf"))).collect()
    }
}

async fn run(program: &str, arguments: &[&str], file: &Path) -> String {
    let command = Command::new(program).args(arguments).arg(file).output();
    succeeded(&command.await.unwrap_or_else(|error| panic!("{program}: {error}")))
}

fn succeeded(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[tokio::test]
async fn the_official_rules_find_nothing_wrong() {
    let shelf = Shelf::fill();
    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("invoices/judge.py");
    let report = succeeded(&tools::program("python3").arg(judge).arg(shelf.0.path()).output().await.unwrap());
    assert!(report.starts_with(&format!("{} invoices judged", samples::all().len())), "{report}");
}

#[tokio::test]
async fn the_pdfs_are_sound_and_every_font_is_embedded() {
    for (name, pdf) in Shelf::fill().pdfs() {
        run("qpdf", &["--check"], &pdf).await;
        let fonts = run("pdffonts", &[], &pdf).await;
        let fonts: Vec<&str> = fonts.lines().skip(2).collect();
        assert!(!fonts.is_empty(), "{name}");
        for font in fonts {
            // name, type, encoding, and whether it is embedded, a subset, and can be read as text.
            let flags: Vec<&str> = font.split_whitespace().filter(|word| ["yes", "no"].contains(word)).collect();
            assert_eq!(flags, ["yes"; 3], "{name}: {font}");
        }
        let attached = run("qpdf", &["--list-attachments"], &pdf).await;
        assert!(attached.starts_with("factur-x.xml"), "{name}: {attached}");
    }
}

#[tokio::test]
async fn the_text_of_the_pages_can_be_read() {
    let shelf = Shelf::fill();
    // pdftotext writes into a file beside the PDF.
    let text = async |name: &str| {
        let pdf = shelf.0.path().join(name).with_extension("pdf");
        run("pdftotext", &["-layout"], &pdf).await;
        let text = std::fs::read_to_string(pdf.with_extension("txt")).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, wanted) in [
        (
            "domestic",
            vec!["Invoice", "2026-000123", "Paid on 3 Nov 2026", "VAT 21%", "VAT 9%", "€88.00", "KvK 72345678"],
        ),
        (
            "reverse-charge",
            vec!["VAT reverse charged", "articles 44 and 196", "WAPIAAAAY3k9hQbT", "DE123456788", "€195.00"],
        ),
        ("consumer", vec!["Zoé Lefèvre", "VAT of France", "€23.99"]),
        ("outside", vec!["Outside the scope of EU VAT", "United States"]),
        ("credit-note", vec!["Credit note", "2026-000117", "Refunded on 3 Nov 2026", "Total credited"]),
        ("unpaid", vec!["Amount due", "Payable on receipt", "Tax point"]),
        ("long", vec!["Page 1 of 3", "Page 3 of 3", "site-60"]),
        ("scripts", vec!["Αναλυτικές Μηχανές", "株式会社", "Бізнес", "서울"]),
        ("play-money", vec!["PLAY MONEY – not a real invoice"]),
    ] {
        let text = text(name).await;
        for wanted in wanted {
            assert!(text.contains(wanted), "{name} lacks {wanted}: {text}");
        }
    }
}
