//! The metadata of Factur-X, which krilla cannot write: an incremental update of the PDF that replaces its XMP packet.
//!
//! It only reads the output of krilla: a classic cross-reference table, an uncompressed packet, and the bag of
//! extension schemas that PDF/A requires. Anything else is an error, and fails a test.

use std::ops::Range;

use super::PdfError;

/// The file name under which readers look for the XML.
pub(super) const FILE_NAME: &str = "factur-x.xml";

const NAMESPACE: &str = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#";

/// Appends an update to the PDF, whose metadata declares the embedded invoice.
pub(super) fn add_factur_x(mut pdf: Vec<u8>) -> Result<Vec<u8>, PdfError> {
    let (object, packet) = packet(&pdf).ok_or(PdfError::Metadata)?;
    let packet =
        extend(std::str::from_utf8(&pdf[packet]).map_err(|_| PdfError::Metadata)?).ok_or(PdfError::Metadata)?;
    let (trailer, table) = trailer(&pdf).ok_or(PdfError::Metadata)?;
    let trailer = trailer.to_owned();
    if !pdf.ends_with(b"\n") {
        pdf.push(b'\n');
    }
    let start = pdf.len();
    pdf.extend_from_slice(
        format!("{object} 0 obj\n<<\n  /Length {}\n  /Type /Metadata\n  /Subtype /XML\n>>\nstream\n", packet.len())
            .as_bytes(),
    );
    pdf.extend_from_slice(packet.as_bytes());
    pdf.extend_from_slice(b"\nendstream\nendobj\n");
    let next = pdf.len();
    let update = format!(
        "xref\n0 1\n0000000000 65535 f\r\n{object} 1\n{start:010} 00000 n\r\ntrailer\n<<{trailer}\n  /Prev {table}\n>>\nstartxref\n{next}\n%%EOF\n"
    );
    pdf.extend_from_slice(update.as_bytes());
    Ok(pdf)
}

/// Returns the object number of the metadata, and the range of its packet.
fn packet(pdf: &[u8]) -> Option<(u32, Range<usize>)> {
    let named = rfind(pdf, b"/Metadata ")? + b"/Metadata ".len();
    let object: u32 = number(&pdf[named..])?;
    let start = rfind(pdf, format!("\n{object} 0 obj").as_bytes())?;
    let start = start + find(&pdf[start..], b"<?xpacket begin")?;
    let end = start + find(&pdf[start..], b"<?xpacket end")?;
    Some((object, start..end + find(&pdf[end..], b"?>")? + b"?>".len()))
}

/// Returns the entries of the trailer, and the offset of the cross-reference table.
fn trailer(pdf: &[u8]) -> Option<(&str, usize)> {
    let start = rfind(pdf, b"\ntrailer")?;
    let reference = start + find(&pdf[start..], b"startxref")?;
    let entries = std::str::from_utf8(&pdf[start..reference]).ok()?;
    let entries = entries.split_once("<<")?.1.rsplit_once(">>")?.0.trim_end();
    let table = number(pdf[reference..].get(b"startxref".len()..)?)?;
    Some((entries, table))
}

/// Adds the schema description to the existing bag, and the properties after it.
fn extend(packet: &str) -> Option<String> {
    let (before, after) = packet.split_once("</rdf:Bag></pdfaExtension:schemas>")?;
    let (middle, end) = after.rsplit_once("</rdf:RDF>")?;
    let properties = [
        ("DocumentFileName", "The name of the embedded XML document"),
        ("DocumentType", "The type of the hybrid document"),
        ("Version", "The version of the standard of the embedded XML document"),
        ("ConformanceLevel", "The conformance level of the embedded XML document"),
    ]
    .map(|(name, description)| {
        format!(
            "<rdf:li rdf:parseType=\"Resource\"><pdfaProperty:category>external</pdfaProperty:category>\
             <pdfaProperty:description>{description}</pdfaProperty:description><pdfaProperty:name>{name}</pdfaProperty:name>\
             <pdfaProperty:valueType>Text</pdfaProperty:valueType></rdf:li>"
        )
    })
    .concat();
    Some(format!(
        "{before}<rdf:li rdf:parseType=\"Resource\"><pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>\
         <pdfaSchema:namespaceURI>{NAMESPACE}</pdfaSchema:namespaceURI><pdfaSchema:prefix>fx</pdfaSchema:prefix>\
         <pdfaSchema:property><rdf:Seq>{properties}</rdf:Seq></pdfaSchema:property></rdf:li></rdf:Bag></pdfaExtension:schemas>{middle}\
         <rdf:Description rdf:about=\"\" xmlns:fx=\"{NAMESPACE}\"><fx:DocumentType>INVOICE</fx:DocumentType>\
         <fx:DocumentFileName>{FILE_NAME}</fx:DocumentFileName><fx:Version>1.0</fx:Version>\
         <fx:ConformanceLevel>EN 16931</fx:ConformanceLevel></rdf:Description></rdf:RDF>{end}"
    ))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn rfind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

fn number<N: std::str::FromStr>(bytes: &[u8]) -> Option<N> {
    let bytes = bytes.trim_ascii_start();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}
