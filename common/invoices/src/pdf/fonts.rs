//! Typefaces, and the measuring and setting of text.
//!
//! There is no shaper: each character becomes a glyph, from the first face that has it. That is correct for Latin,
//! Greek, Cyrillic and for Chinese, Japanese and Korean; `fonts/README.md` describes other scripts.

use std::sync::LazyLock;

use krilla::text::{Font, GlyphId, KrillaGlyph};
use skrifa::{
    FontRef, MetadataProvider,
    charmap::Charmap,
    instance::{LocationRef, Size},
    metrics::GlyphMetrics,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FontWeight {
    Regular,
    SemiBold,
}

/// Consecutive glyphs of a text from one face.
pub(super) struct GlyphRun {
    pub(super) font: Font,
    pub(super) glyphs: Vec<KrillaGlyph>,
    /// The width, in units of the font size.
    pub(super) width: f32,
}

/// The replacement for a character that no face has.
const REPLACEMENT: char = '□';

/// Splits the text into runs of one face each. Glyphs keep the position of their character, so that the text can be
/// copied and searched even where a glyph is a replacement.
pub(super) fn set(text: &str, weight: FontWeight) -> Vec<GlyphRun> {
    let mut runs: Vec<GlyphRun> = Vec::new();
    let mut last = None;
    for (start, c) in text.char_indices() {
        let Some((face, glyph)) = find(c, weight).or_else(|| find(REPLACEMENT, weight)) else { continue };
        let advance = face.advance(glyph);
        if last != Some(face.name) {
            runs.push(GlyphRun { font: face.font.clone(), glyphs: Vec::new(), width: 0.0 });
            last = Some(face.name);
        }
        if let Some(run) = runs.last_mut() {
            run.width += advance;
            run.glyphs.push(KrillaGlyph {
                glyph_id: GlyphId::new(glyph.to_u32()),
                text_range: start..start + c.len_utf8(),
                x_advance: advance,
                x_offset: 0.0,
                y_offset: 0.0,
                y_advance: 0.0,
                location: None,
            });
        }
    }
    runs
}

/// Returns the width of the text, in units of the font size.
pub(super) fn width(text: &str, weight: FontWeight) -> f32 {
    let advance =
        |c| find(c, weight).or_else(|| find(REPLACEMENT, weight)).map_or(0.0, |(face, glyph)| face.advance(glyph));
    text.chars().map(advance).sum()
}

pub(super) fn has_glyphs(text: &str) -> bool {
    text.chars().all(|c| find(c, FontWeight::Regular).is_some())
}

pub(super) fn are_readable() -> bool {
    [&*REGULAR, &*SEMI_BOLD, &*FALLBACK].iter().all(|face| face.is_some())
}

struct FontFace {
    name: &'static str,
    font: Font,
    charmap: Charmap<'static>,
    metrics: GlyphMetrics<'static>,
    units_per_em: f32,
}

impl FontFace {
    fn read(name: &'static str, bytes: &'static [u8]) -> Option<Self> {
        let font = Font::new(bytes.into(), 0)?;
        let read = FontRef::new(bytes).ok()?;
        let metrics = read.glyph_metrics(Size::unscaled(), LocationRef::default());
        Some(Self { name, units_per_em: font.units_per_em(), font, charmap: read.charmap(), metrics })
    }

    fn advance(&self, glyph: skrifa::GlyphId) -> f32 {
        self.metrics.advance_width(glyph).unwrap_or(0.0) / self.units_per_em
    }
}

static REGULAR: LazyLock<Option<FontFace>> =
    LazyLock::new(|| FontFace::read("regular", include_bytes!("../../fonts/Inter-Regular.otf")));
static SEMI_BOLD: LazyLock<Option<FontFace>> =
    LazyLock::new(|| FontFace::read("semi-bold", include_bytes!("../../fonts/Inter-SemiBold.otf")));
static FALLBACK: LazyLock<Option<FontFace>> =
    LazyLock::new(|| FontFace::read("fallback", include_bytes!("../../fonts/DroidSansFallback.ttf")));

fn find(c: char, weight: FontWeight) -> Option<(&'static FontFace, skrifa::GlyphId)> {
    let chosen = match weight {
        FontWeight::Regular => &*REGULAR,
        FontWeight::SemiBold => &*SEMI_BOLD,
    };
    [chosen, &*FALLBACK].into_iter().flatten().find_map(|face| {
        let glyph = face.charmap.map(c).filter(|glyph| glyph.to_u32() != 0)?;
        Some((face, glyph))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_europe_and_east_asia_have_their_glyphs() {
        for name in [
            "Łódź Ďáblice ĞİŞ ß æøå",
            "Ελληνικά Ἀθῆναι",
            "Українська Їжак Ћирилица",
            "株式会社 ソフト",
            "中国软件 臺灣",
            "서울",
        ] {
            assert!(has_glyphs(name), "{name}");
        }
        assert!(!has_glyphs("שלום") && !has_glyphs("ไทย"));
    }

    #[test]
    fn figures_are_of_one_width() {
        let widths: Vec<f32> = ('0'..='9').map(|figure| width(&figure.to_string(), FontWeight::Regular)).collect();
        assert!(widths.iter().all(|width| width.to_bits() == widths[0].to_bits()), "{widths:?}");
    }

    #[test]
    fn a_text_is_split_where_its_face_changes() {
        let runs = set("ab株c", FontWeight::SemiBold);
        assert_eq!(runs.iter().map(|run| run.glyphs.len()).collect::<Vec<_>>(), [2, 1, 1]);
        let total: f32 = runs.iter().map(|run| run.width).sum();
        assert!((total - width("ab株c", FontWeight::SemiBold)).abs() < 1e-6);
    }
}
