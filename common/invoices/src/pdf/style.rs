//! The grid, the type sizes and the colours of the page. Lengths are points; y grows downwards.

use super::fonts::FontWeight;

/// A4.
pub(super) const PAGE: (f32, f32) = (595.276, 841.89);
pub(super) const LEFT: f32 = 54.0;
pub(super) const RIGHT: f32 = PAGE.0 - 54.0;
pub(super) const WIDTH: f32 = RIGHT - LEFT;
pub(super) const TOP: f32 = 54.0;
/// The lower edge of the body, above the footer.
pub(super) const BOTTOM: f32 = PAGE.1 - 92.0;
/// The left edge of the second column: parties, and the sums.
pub(super) const MIDDLE: f32 = LEFT + WIDTH * 0.5;

pub(super) const GUTTER: f32 = 16.0;
/// The distance between two baselines.
pub(super) const LEADING: f32 = 13.5;

pub(super) type Color = [u8; 3];

pub(super) const INK: Color = [17, 24, 39];
pub(super) const GREY: Color = [100, 108, 122];
pub(super) const HAIRLINE: Color = [222, 226, 232];
pub(super) const WHITE: Color = [255, 255, 255];
pub(super) const GREEN: Color = [4, 108, 78];
pub(super) const PALE_GREEN: Color = [225, 245, 236];
pub(super) const BROWN: Color = [133, 77, 14];
pub(super) const PALE_YELLOW: Color = [254, 243, 199];
pub(super) const YELLOW: Color = [250, 204, 21];

#[derive(Debug, Clone, Copy)]
pub(super) struct TextStyle {
    pub(super) size: f32,
    pub(super) weight: FontWeight,
    pub(super) color: Color,
}

const fn style(size: f32, weight: FontWeight, color: Color) -> TextStyle {
    TextStyle { size, weight, color }
}

pub(super) const TITLE: TextStyle = style(27.0, FontWeight::SemiBold, INK);
pub(super) const BRAND: TextStyle = style(14.0, FontWeight::SemiBold, INK);
pub(super) const NUMBER: TextStyle = style(11.0, FontWeight::Regular, GREY);
pub(super) const LABEL: TextStyle = style(7.8, FontWeight::Regular, GREY);
pub(super) const BODY: TextStyle = style(9.2, FontWeight::Regular, INK);
pub(super) const QUIET: TextStyle = style(9.2, FontWeight::Regular, GREY);
pub(super) const STRONG: TextStyle = style(9.2, FontWeight::SemiBold, INK);
pub(super) const NAME: TextStyle = style(10.0, FontWeight::SemiBold, INK);
pub(super) const TOTAL: TextStyle = style(13.0, FontWeight::SemiBold, INK);
pub(super) const SMALL: TextStyle = style(7.4, FontWeight::Regular, GREY);
