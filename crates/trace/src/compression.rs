//! Files as they lie on a disk: plain, or compressed by one of three programs.

use std::{
    io::{self, BufRead, BufReader, Read},
    mem,
};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Most memory that the dictionary of a compressed file may take: `xz -9` uses 64 MiB, `zstd -19`
/// 8 MiB and `zstd --long` 128 MiB.
const DICTIONARY_BYTES_MAX: u64 = 128 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// By gzip, in any number of members.
    Gzip,
    /// By xz, in any number of streams.
    Xz,
    /// By zstd, in any number of frames.
    Zstd,
}

impl Compression {
    /// What a file's name says, and the name without that.
    #[must_use]
    pub fn of_name(name: &str) -> (Self, &str) {
        for (suffix, compression) in [(".gz", Self::Gzip), (".xz", Self::Xz), (".zst", Self::Zstd)]
        {
            if let Some(rest) = name.strip_suffix(suffix) {
                return (compression, rest);
            }
        }
        (Self::None, name)
    }

    /// The bytes that were compressed. What is no such file fails when it is read.
    pub(crate) fn decoded<'r>(self, input: impl BufRead + 'r) -> Box<dyn BufRead + 'r> {
        match self {
            Self::None => Box::new(input),
            Self::Gzip => buffered(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Xz => {
                let limit_kib =
                    u32::try_from(DICTIONARY_BYTES_MAX >> 10).expect("invariant: small");
                buffered(lzma_rust2::XzReader::new_mem_limit(input, true, limit_kib))
            }
            Self::Zstd => buffered(Zstd::new(input)),
        }
    }
}

fn buffered<'r>(decoder: impl Read + 'r) -> Box<dyn BufRead + 'r> {
    Box::new(BufReader::new(decoder))
}

/// The frames of a zstd file, one after another.
///
/// The decoder reads one frame and leaves its checksum to be compared; both are seen to here.
struct Zstd<R: BufRead> {
    /// Nothing is read before the first byte is asked for, so that every failure is one of reading.
    state: ZstdState<R>,
}

enum ZstdState<R: BufRead> {
    BetweenFrames(R),
    InFrame(Box<StreamingDecoder<R, FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Self {
        Self { state: ZstdState::BetweenFrames(input) }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // What follows a frame may be one that holds nothing; each takes bytes off the input.
        loop {
            // A failure leaves the state at its end.
            self.state = match mem::replace(&mut self.state, ZstdState::Ended) {
                ZstdState::Ended => return Ok(0),
                ZstdState::BetweenFrames(mut input) => {
                    if input.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let mut decoder = FrameDecoder::new();
                    decoder.set_max_window_size(DICTIONARY_BYTES_MAX);
                    let frame = StreamingDecoder::new_with_decoder(input, decoder)
                        .map_err(io::Error::other)?;
                    ZstdState::InFrame(Box::new(frame))
                }
                ZstdState::InFrame(mut frame) => {
                    let read = frame.read(out)?;
                    if read > 0 || out.is_empty() {
                        self.state = ZstdState::InFrame(frame);
                        return Ok(read);
                    }
                    let (input, decoder) = frame.into_parts();
                    let stored = decoder.get_checksum_from_data();
                    if stored.is_some() && stored != decoder.get_calculated_checksum() {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the checksum of a zstd frame is not that of its content",
                        ));
                    }
                    ZstdState::BetweenFrames(input)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;
