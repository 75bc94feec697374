//! A zip file, written once from front to back: deflated members, 64-bit counts where they are needed, fixed times so that the
//! same content gives the same file.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Names are UTF-8.
const UTF8: u16 = 0x0800;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Smaller members do not shrink, bytes.
const WORTHWHILE: usize = 64;
/// The first of January 1980, where the format's times begin.
const DATE: u16 = 0x0021;
/// A regular file, readable and writable by its owner.
const MODE: u32 = 0o100_600 << 16;
/// Made on Unix, for version 4.5 of the format.
const MADE_BY: u16 = 3 << 8 | 45;

/// A zip file on its way.
pub(super) struct Zip<W> {
    out: W,
    deflate: Compress,
    at: u64,
    directory: Vec<u8>,
    count: u64,
}

impl<W: Write> Zip<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, deflate: Compress::new(Compression::default(), false), at: 0, directory: Vec::new(), count: 0 }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written, or it or its name is larger than the format's fields.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut crc = Crc::new();
        crc.update(content);
        let (method, packed) =
            if content.len() < WORTHWHILE { (STORED, content.to_vec()) } else { (DEFLATED, self.packed(content)?) };
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "too large for a zip member");
        let (size, packed_size) =
            (u32::try_from(content.len()).map_err(too_large)?, u32::try_from(packed.len()).map_err(too_large)?);
        let name_size = u16::try_from(name.len()).map_err(too_large)?;
        let offset = self.at;

        let mut common = Vec::new();
        for word in [45, UTF8, method, 0, DATE] {
            common.extend_from_slice(&word.to_le_bytes());
        }
        for word in [crc.sum(), packed_size, size] {
            common.extend_from_slice(&word.to_le_bytes());
        }
        common.extend_from_slice(&name_size.to_le_bytes());

        self.put(&0x0403_4b50_u32.to_le_bytes())?;
        self.put(&common)?;
        self.put(&0_u16.to_le_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&packed)?;

        let far = u32::try_from(offset).is_err();
        let entry = &mut self.directory;
        entry.extend_from_slice(&0x0201_4b50_u32.to_le_bytes());
        entry.extend_from_slice(&MADE_BY.to_le_bytes());
        entry.extend_from_slice(&common);
        // The extra field holds the offset that the short one cannot.
        for word in [if far { 12 } else { 0 }, 0, 0, 0_u16] {
            entry.extend_from_slice(&word.to_le_bytes());
        }
        entry.extend_from_slice(&MODE.to_le_bytes());
        entry.extend_from_slice(&u32::try_from(offset).unwrap_or(u32::MAX).to_le_bytes());
        entry.extend_from_slice(name.as_bytes());
        if far {
            entry.extend_from_slice(&1_u16.to_le_bytes());
            entry.extend_from_slice(&8_u16.to_le_bytes());
            entry.extend_from_slice(&offset.to_le_bytes());
        }
        self.count += 1;
        Ok(())
    }

    /// Writes the directory, which ends the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let (start, directory) = (self.at, std::mem::take(&mut self.directory));
        self.put(&directory)?;
        let size = directory.len() as u64;
        let large = self.count >= u64::from(u16::MAX) || start + size >= u64::from(u32::MAX);
        if large {
            let record = self.at;
            self.put(&0x0606_4b50_u32.to_le_bytes())?;
            self.put(&44_u64.to_le_bytes())?;
            self.put(&MADE_BY.to_le_bytes())?;
            self.put(&45_u16.to_le_bytes())?;
            self.put(&[0; 8])?;
            for word in [self.count, self.count, size, start] {
                self.put(&word.to_le_bytes())?;
            }
            self.put(&0x0706_4b50_u32.to_le_bytes())?;
            self.put(&0_u32.to_le_bytes())?;
            self.put(&record.to_le_bytes())?;
            self.put(&1_u32.to_le_bytes())?;
        }
        let count = if large { u16::MAX } else { u16::try_from(self.count).unwrap_or(u16::MAX) };
        let short = |value: u64| if large { u32::MAX } else { u32::try_from(value).unwrap_or(u32::MAX) };
        self.put(&0x0605_4b50_u32.to_le_bytes())?;
        self.put(&[0; 4])?;
        self.put(&count.to_le_bytes())?;
        self.put(&count.to_le_bytes())?;
        self.put(&short(size).to_le_bytes())?;
        self.put(&short(start).to_le_bytes())?;
        self.put(&0_u16.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn packed(&mut self, content: &[u8]) -> io::Result<Vec<u8>> {
        self.deflate.reset();
        let mut packed = Vec::with_capacity(content.len() / 4 + 64);
        loop {
            let done = usize::try_from(self.deflate.total_in()).unwrap_or(usize::MAX);
            let rest = content.get(done..).unwrap_or_default();
            match self.deflate.compress_vec(rest, &mut packed, FlushCompress::Finish)? {
                Status::StreamEnd => return Ok(packed),
                Status::Ok | Status::BufError => packed.reserve(packed.capacity()),
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Another implementation reads what was written; nothing is shown where there is none.
    fn listed(zip: &[u8]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), zip).unwrap();
        let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                      print(len(z.namelist()), *[(n, z.read(n)) for n in z.namelist()[:2]])";
        let shown = Command::new("python3").args(["-c", script]).arg(file.path()).output().ok()?;
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        Some(String::from_utf8(shown.stdout).unwrap())
    }

    #[test]
    fn others_read_it() {
        let mut zip = Zip::new(Vec::new());
        zip.add("c/a.json", b"{}").unwrap();
        zip.add("c/\u{e4}.txt", "text ".repeat(100).as_bytes()).unwrap();
        let bytes = zip.finish().unwrap();
        if let Some(shown) = listed(&bytes) {
            assert_eq!(shown, format!("2 ('c/a.json', b'{{}}') ('c/\u{e4}.txt', b'{}')\n", "text ".repeat(100)));
        }
    }

    #[test]
    fn more_members_than_sixteen_bits_count() {
        let mut zip = Zip::new(Vec::new());
        for number in 0..70_000 {
            zip.add(&format!("{number:05}"), b"").unwrap();
        }
        let bytes = zip.finish().unwrap();
        if let Some(shown) = listed(&bytes) {
            assert_eq!(shown, "70000 ('00000', b'') ('00001', b'')\n");
        }
    }
}
