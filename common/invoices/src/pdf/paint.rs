//! Paints sheets as an accessible PDF/A-3a (PDF/UA-1).

use std::num::NonZeroU16;

use krilla::{
    Document, SerializeSettings,
    color::rgb,
    configure::{Accessibility, Archival, ConfigurationBuilder},
    geom::{Path, PathBuilder, Point, Rect},
    page::{Page, PageSettings},
    paint::Fill,
    surface::Surface,
    tagging::{
        Artifact, ArtifactType, ContentTag, Identifier, Node as TagNode, SpanTag, TableHeaderScope, Tag, TagGroup,
        TagTree,
    },
};

use super::{
    PdfError, fonts,
    sheets::{DocumentSheets, NodeChild, NodeKind, PageMark, StructureNode},
    style::{Color, PAGE, TextStyle},
};

/// Creates an empty document that enforces the standards.
pub(super) fn document() -> Result<Document, PdfError> {
    let configuration = ConfigurationBuilder::new()
        .with_archival_validator(Archival::A3_A)
        .with_accessibility_validator(Accessibility::UA1)
        .finish()
        .map_err(|error| PdfError::Standard(format!("{error:?}")))?;
    Ok(Document::new_with(SerializeSettings { configuration, ..SerializeSettings::default() }))
}

pub(super) fn paint(sheets: &DocumentSheets, document: &mut Document) -> Result<(), PdfError> {
    let mut painted: Vec<Vec<Option<Identifier>>> = Vec::new();
    for marks in &sheets.pages {
        let settings = PageSettings::from_wh(PAGE.0, PAGE.1).ok_or(PdfError::Geometry)?;
        let mut page: Page<'_> = document.start_page_with(settings);
        let mut surface = page.surface();
        painted.push(marks.iter().map(|mark| paint_mark(mark, &mut surface)).collect::<Result<_, _>>()?);
        surface.finish();
        page.finish();
    }
    let mut tree = TagTree::new();
    for node in children(sheets, DocumentSheets::ROOT, &painted) {
        tree.push(node);
    }
    document.set_tag_tree(tree);
    Ok(())
}

fn paint_mark(mark: &PageMark, surface: &mut Surface<'_>) -> Result<Option<Identifier>, PdfError> {
    match mark {
        PageMark::Text { x, y, text, style, is_decoration } => {
            let tag = if *is_decoration {
                ContentTag::Artifact(Artifact::with_kind(ArtifactType::PaginationOther))
            } else {
                ContentTag::Span(SpanTag::empty())
            };
            let identifier = surface.start_tagged(tag);
            write(surface, *x, *y, text, *style);
            surface.end_tagged();
            Ok((!is_decoration).then_some(identifier))
        }
        PageMark::Rectangle { x, y, width, height, radius, color } => {
            let path = rounded(*x, *y, (*width, *height), *radius).ok_or(PdfError::Geometry)?;
            surface.start_tagged(ContentTag::Artifact(Artifact::with_kind(ArtifactType::Layout)));
            surface.set_fill(Some(fill(*color)));
            surface.draw_path(&path);
            surface.end_tagged();
            Ok(None)
        }
    }
}

fn write(surface: &mut Surface<'_>, mut x: f32, y: f32, text: &str, style: TextStyle) {
    surface.set_fill(Some(fill(style.color)));
    for run in fonts::set(text, style.weight) {
        surface.draw_glyphs(Point::from_xy(x, y), &run.glyphs, run.font, text, style.size, false);
        x += run.width * style.size;
    }
}

fn fill([red, green, blue]: Color) -> Fill {
    Fill { paint: rgb::Color::new(red, green, blue).into(), ..Fill::default() }
}

/// Returns a rectangle with corners rounded by quadratic curves.
fn rounded(x: f32, y: f32, (width, height): (f32, f32), radius: f32) -> Option<Path> {
    let mut path = PathBuilder::new();
    if radius <= 0.0 {
        path.push_rect(Rect::from_xywh(x, y, width, height)?);
        return path.finish();
    }
    let (right, bottom) = (x + width, y + height);
    path.move_to(x + radius, y);
    path.line_to(right - radius, y);
    path.quad_to(right, y, right, y + radius);
    path.line_to(right, bottom - radius);
    path.quad_to(right, bottom, right - radius, bottom);
    path.line_to(x + radius, bottom);
    path.quad_to(x, bottom, x, bottom - radius);
    path.line_to(x, y + radius);
    path.quad_to(x, y, x + radius, y);
    path.close();
    path.finish()
}

fn children(sheets: &DocumentSheets, node: StructureNode, painted: &[Vec<Option<Identifier>>]) -> Vec<TagNode> {
    let of_child = |child: &NodeChild| match *child {
        NodeChild::Mark(page, index) => painted[page][index].map(TagNode::from),
        NodeChild::Node(node) => Some(group(sheets, node, painted).into()),
    };
    sheets.branch(node).children.iter().filter_map(of_child).collect()
}

fn group(sheets: &DocumentSheets, node: StructureNode, painted: &[Vec<Option<Identifier>>]) -> TagGroup {
    let children = children(sheets, node, painted);
    let mut group = match sheets.branch(node).kind {
        NodeKind::Document => TagGroup::new(Tag::Part),
        NodeKind::Title(title) => TagGroup::new(Tag::Hn(NonZeroU16::MIN, Some(title.to_owned()))),
        NodeKind::Heading(title) => TagGroup::new(Tag::Hn(NonZeroU16::MIN.saturating_add(1), Some(title.to_owned()))),
        NodeKind::Paragraph => TagGroup::new(Tag::P),
        NodeKind::Table => TagGroup::new(Tag::Table),
        NodeKind::Row => TagGroup::new(Tag::TR),
        NodeKind::HeaderCell => TagGroup::new(Tag::TH(TableHeaderScope::Column)),
        NodeKind::Cell => TagGroup::new(Tag::TD),
    };
    for child in children {
        group.push(child);
    }
    group
}
