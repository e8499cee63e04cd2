//! Recognizes an uploaded icon's format, and rejects truncated images and those that would fill a browser's memory.
//!
//! Follows the lengths within the image without decoding it.

use domain::orgs::IconFormat;
use imagesize::ImageType;

/// Maximum width and height in pixels. An image of this size takes 64 MB when decoded.
const SIDE: usize = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IconError {
    Kind,
    Incomplete,
    Dimensions,
}

pub(super) fn detect_format(image: &[u8]) -> Result<IconFormat, IconError> {
    let kind = imagesize::image_type(image).map_err(|_| IconError::Kind)?;
    let (format, is_whole) = match kind {
        ImageType::Png => (IconFormat::Png, is_whole_png(image)),
        ImageType::Jpeg => (IconFormat::Jpeg, is_whole_jpeg(image)),
        ImageType::Webp => (IconFormat::Webp, is_whole_webp(image)),
        ImageType::Gif => (IconFormat::Gif, is_whole_gif(image)),
        _ => return Err(IconError::Kind),
    };
    let size = imagesize::blob_size(image).map_err(|_| IconError::Incomplete)?;
    if size.width > SIDE || size.height > SIDE {
        return Err(IconError::Dimensions);
    }
    let is_whole = is_whole.is_some() && size.width > 0 && size.height > 0;
    if is_whole { Ok(format) } else { Err(IconError::Incomplete) }
}

/// Follows the chunks up to the end chunk; at least one must hold pixels.
fn is_whole_png(image: &[u8]) -> Option<()> {
    let mut rest = image.get(8..)?;
    let mut has_pixels = false;
    loop {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (kind, after) = after.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        // The checksum follows.
        rest = after.get(length.checked_add(4)?..)?;
        match kind {
            b"IDAT" => has_pixels = true,
            b"IEND" => return has_pixels.then_some(()),
            _ => {}
        }
    }
}

/// Follows the segments up to the first scan, and requires an end marker after it.
fn is_whole_jpeg(image: &[u8]) -> Option<()> {
    const SCAN: u8 = 0xda;
    const END: [u8; 2] = [0xff, 0xd9];
    let mut rest = image.get(2..)?;
    loop {
        let ([0xff, marker], after) = rest.split_first_chunk::<2>()? else { return None };
        // A marker may be padded with repetitions of its first byte; some markers have no length.
        match *marker {
            0xff => {
                rest = rest.get(1..)?;
                continue;
            }
            0x01 | 0xd0..=0xd7 => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(*after.first_chunk::<2>()?));
        rest = after.get(length.max(2)..)?;
        if *marker == SCAN {
            return rest.windows(2).any(|pair| pair == END).then_some(());
        }
    }
}

/// Compares the file's length with the one in its header.
fn is_whole_webp(image: &[u8]) -> Option<()> {
    let length = u32::from_le_bytes(*image.get(4..)?.first_chunk::<4>()?);
    (image.len() >= usize::try_from(length).ok()?.checked_add(8)?).then_some(())
}

/// Follows the blocks up to the trailer; at least one must be an image.
fn is_whole_gif(image: &[u8]) -> Option<()> {
    const HEAD: usize = 13;
    let mut rest = image.get(HEAD + color_table_len(*image.get(10)?)..)?;
    let mut has_image = false;
    loop {
        let (&kind, after) = rest.split_first()?;
        rest = match kind {
            // An extension of any kind.
            0x21 => skip_blocks(after.get(1..)?)?,
            // An image: its position, colors, code size and pixels.
            0x2c => {
                has_image = true;
                skip_blocks(after.get(9 + color_table_len(*after.get(8)?) + 1..)?)?
            }
            0x3b => return has_image.then_some(()),
            _ => return None,
        };
    }
}

/// Returns the length of the color table that `flags` describe.
fn color_table_len(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Skips a sequence of GIF data blocks.
fn skip_blocks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (&length, after) = rest.split_first()?;
        rest = after.get(usize::from(length)..)?;
        if length == 0 {
            return Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_image_of_the_four_kinds_are_refused() {
        for bad in [
            &b""[..],
            b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>",
            b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\0\0\0\0",
            b"<html>GIF89a\x01\0\x01\0",
        ] {
            assert_eq!(detect_format(bad), Err(IconError::Kind), "{bad:?}");
        }
        let gif = |width: u8| {
            let mut image = b"GIF89a\0\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec();
            image[6] = width;
            image
        };
        assert_eq!(detect_format(&gif(1)), Ok(IconFormat::Gif));
        assert_eq!(detect_format(&gif(0)), Err(IconError::Incomplete));
        assert_eq!(detect_format(b"GIF89a\x01\0\x01\0\0\0\0"), Err(IconError::Incomplete));
    }

    /// A JPEG with an unusual but valid start: a padded marker, and one without a length.
    #[test]
    fn markers_may_be_filled_up_and_stand_alone() {
        let mut image =
            b"\xff\xd8\xff\xff\xff\xfe\0\x04hi\xff\x01\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0".to_vec();
        image.extend(b"\xff\xda\0\x08\x01\x01\0\0?\0\xd2\xcf");
        assert_eq!(is_whole_jpeg(&image), None);
        image.extend(b"\xff\xd9");
        assert_eq!(is_whole_jpeg(&image), Some(()));
    }

    #[test]
    fn no_length_leads_out_of_the_image() {
        for bytes in [&b"\x89PNG\r\n\x1a\n\xff\xff\xff\xffIDAT"[..], b"\x89PNG\r\n\x1a\n", b"\x89PNG", b""] {
            assert_eq!(is_whole_png(bytes), None);
        }
        for bytes in [
            &b"GIF89a\x01\0\x01\0\xff\0\0"[..],
            b"GIF89a\x01\0\x01\0\0\0\0,",
            b"GIF89a\x01\0\x01\0\0\0\0!\xf9\xff",
            b"GIF",
        ] {
            assert_eq!(is_whole_gif(bytes), None);
        }
        assert_eq!(is_whole_webp(b"RIFF\xff\xff\xff\xffWEBP"), None);
        assert_eq!(is_whole_jpeg(b"\xff\xd8\xff\xe0\xff\xff"), None);
    }
}
