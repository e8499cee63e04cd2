//! The DOS code page that old programs use for names in zip archives.

/// The characters of code page 437 from 128 on.
const UPPER: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

pub(super) fn decode(name: &[u8]) -> String {
    let upper: Vec<char> = UPPER.chars().collect();
    name.iter().map(|&byte| byte.checked_sub(128).map_or(char::from(byte), |at| upper[usize::from(at)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_character() {
        let all: Vec<u8> = (0..=255).collect();
        let decoded = decode(&all);
        assert_eq!(decoded.chars().count(), 256);
        assert!(decoded.starts_with('\0') && decoded.ends_with('\u{a0}'));
        assert_eq!(decode(b"Gr\x81\xe1e.txt"), "Gr\u{fc}\u{df}e.txt");
    }
}
