//! Images that are larger than Anthropic's models take, made smaller before they are sent: one of them would spoil every call of the
//! conversation. Sizes are read from the header; only what is too large is decoded.
//!
//! What cannot be decoded within the bounds is sent as it is, and the provider says what it thinks of it.

use std::io::Cursor;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use sha2::{Digest as _, Sha256};

/// Up to this many images in a request may be large.
const MANY: usize = 20;
/// Longest side of an image among few, and among many, pixels.
const LONGEST: u32 = 8000;
const LONGEST_OF_MANY: u32 = 2000;
/// The largest image, bytes.
const HEAVIEST: usize = 5 * 1024 * 1024;
/// Memory for the pixels of one image, bytes: about 6,300 by 6,300.
const PIXELS_LIMIT: u64 = 160 * 1024 * 1024;

/// The longest side that images of this request may have.
pub(super) const fn longest(images: usize) -> u32 {
    if images > MANY { LONGEST_OF_MANY } else { LONGEST }
}

/// What tells images apart without keeping them.
pub(super) type Fingerprint = [u8; 32];

pub(super) fn fingerprint(url: &str, longest: u32) -> Fingerprint {
    let mut hash = Sha256::new();
    hash.update(longest.to_be_bytes());
    hash.update(url.as_bytes());
    hash.finalize().into()
}

/// The bytes of an inline image that is too large; `None` for all others, by their headers alone.
pub(super) fn too_large(url: &str, longest: u32) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(url.strip_prefix("data:image/")?.split_once(";base64,")?.1.trim()).ok()?;
    let size = ImageReader::new(Cursor::new(&bytes)).with_guessed_format().ok()?.into_dimensions().ok()?;
    (size.0.max(size.1) > longest || bytes.len() > HEAVIEST).then_some(bytes)
}

/// The image as a smaller one, upright: a photograph stays JPEG, all others become PNG. `None` when that cannot be done.
pub(super) fn smaller(bytes: &[u8], longest: u32) -> Option<String> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(PIXELS_LIMIT);
    reader.limits(limits);
    let is_photograph = reader.format() == Some(ImageFormat::Jpeg);
    let mut decoder = reader.into_decoder().ok()?;
    if decoder.total_bytes() > PIXELS_LIMIT {
        return None;
    }
    let orientation = decoder.orientation().ok()?;
    let mut image = DynamicImage::from_decoder(decoder).ok()?;
    image.apply_orientation(orientation);
    let mut longest = longest.min(image.width().max(image.height()));
    // An image that is too heavy at one size is not at a quarter of it.
    for _ in 0..4 {
        let small = image.thumbnail(longest, longest);
        let mut written = Cursor::new(Vec::new());
        let kind = if is_photograph {
            DynamicImage::ImageRgb8(small.to_rgb8()).write_to(&mut written, ImageFormat::Jpeg).ok()?;
            "jpeg"
        } else {
            small.write_to(&mut written, ImageFormat::Png).ok()?;
            "png"
        };
        let written = written.into_inner();
        if written.len() <= HEAVIEST {
            return Some(format!("data:image/{kind};base64,{}", STANDARD.encode(written)));
        }
        longest = longest / 2 + 1;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A picture of one colour, or of noise that no format makes small.
    pub(in crate::images) fn picture(width: u32, height: u32, format: ImageFormat, is_noise: bool) -> String {
        let mut seed = 1u32;
        let image = image::RgbImage::from_fn(width, height, |_, _| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let shade = if is_noise { (seed >> 24) as u8 } else { 200 };
            image::Rgb([shade, shade.rotate_left(3), 50])
        });
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        let kind = format.extensions_str()[0].replace("jpg", "jpeg");
        format!("data:image/{kind};base64,{}", STANDARD.encode(bytes.into_inner()))
    }

    pub(in crate::images) fn size(url: &str) -> (u32, u32) {
        let bytes = STANDARD.decode(url.split_once(";base64,").unwrap().1).unwrap();
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().unwrap().into_dimensions().unwrap()
    }

    fn resized(url: &str, longest: u32) -> Option<String> {
        smaller(&too_large(url, longest)?, longest)
    }

    #[test]
    fn large_images_become_small_and_others_stay() {
        for (width, height, format, expected, kind) in [
            (3000, 1000, ImageFormat::Png, Some((2000, 667)), "png"),
            (1000, 4000, ImageFormat::Jpeg, Some((500, 2000)), "jpeg"),
            (2000, 2000, ImageFormat::Png, None, ""),
        ] {
            let small = resized(&picture(width, height, format, false), 2000);
            assert_eq!(small.as_deref().map(size), expected);
            assert!(small.is_none_or(|small| small.starts_with(&format!("data:image/{kind};base64,"))));
        }
        assert_eq!((longest(20), longest(21)), (8000, 2000));
    }

    #[test]
    fn heavy_images_become_light() {
        let heavy = picture(1700, 1700, ImageFormat::Png, true);
        assert!(heavy.len() > HEAVIEST);
        let light = resized(&heavy, 8000).unwrap();
        assert!(light.len() < HEAVIEST * 4 / 3 + 100 && size(&light).0 > 400);
    }

    #[test]
    fn what_is_no_image_stays() {
        for url in [
            "https://h/x.png",
            "data:text/plain;base64,AA==",
            "data:image/png;base64,AA==",
            "data:image/png;base64,?",
            "",
        ] {
            assert_eq!(too_large(url, 10), None, "{url}");
        }
        assert_eq!(smaller(b"no image", 10), None);
        // A header that promises more pixels than there is memory for.
        let mut bomb =
            STANDARD.decode(picture(1, 1, ImageFormat::Png, false).split_once(";base64,").unwrap().1).unwrap();
        bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        assert_eq!(smaller(&bomb, 10), None);
    }
}
