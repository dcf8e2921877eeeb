//! Removes content codings from a body as it streams by: gzip, deflate, br, zstd (RFC 9110 8.4).
//!
//! A [`Decoder`] owns a chain of stages, the last coding applied first. Body pieces flow in by
//! [`Decoder::push`], decoded pieces flow to the caller's sink; without a coding they pass
//! unchanged. The output of every stage is bounded, in bytes and relative to what came over the
//! wire, so a bomb inside a bomb is found where it unpacks. When an error comes, the output of all
//! earlier pieces has been delivered, and in most codings also what the failing piece gave before
//! the error (br keeps it back).
//!
//! The verdict is the same however the body is cut, with two exceptions. The ratio is taken over
//! what was pushed so far, so a body at the very limit may pass in one cut and not in another. If
//! two stacked codings are both broken, it depends on the cut which one reports it.
//!
//! Each core owns a [`DecoderPool`] that lends contexts. A pooled zstd context beat a fresh one in
//! every run of `benches/http.rs`; for gzip no gain has been measured, and br contexts cannot be
//! pooled.

use super::inflate::{Deflate, Gzip, Output};
use crate::base::limits::{
    BROTLI_TABLE_BYTES, CONTENT_CODING_COUNT_MAX, DECODE_SCRATCH_BYTES, DECODED_BYTES,
    DECODED_PER_BODY, DECODED_RATIO_MAX, DECODER_IDLE_COUNT_MAX, INFLATE_BYTES,
    RATIO_CHECK_BYTES_MIN, ZSTD_WINDOW_LOG_MAX,
};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::Decompress;
use std::fmt;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Gzip,
    Deflate,
    Br,
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// A coding that we cannot remove. The body should be kept as it came.
    UnknownCoding,
    /// There are more than [`CONTENT_CODING_COUNT_MAX`] codings.
    TooManyCodings,
    /// The body is not in that coding's format, or its checksum does not match.
    Corrupt(Coding),
    /// The input ended before the coding's own end.
    Cut(Coding),
    /// The pool's bound was reached; the sink got exactly that many bytes.
    TooLarge,
    /// The body unpacks to more than [`DECODED_RATIO_MAX`] times what came over the wire.
    Bomb,
    /// A zstd frame needs a window above [`ZSTD_WINDOW_LOG_MAX`].
    WindowTooLarge,
    /// There was no memory for a context.
    Exhausted,
}

/// An error inside a stage, before its coding is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Corrupt,
    Cut,
    Other(DecodeError),
}

impl DecodeError {
    /// Returns the name of the error in the index.
    pub fn name(self) -> &'static str {
        match self {
            DecodeError::UnknownCoding => "unknown_coding",
            DecodeError::TooManyCodings => "too_many_codings",
            DecodeError::Corrupt(_) => "corrupt",
            DecodeError::Cut(_) => "cut",
            DecodeError::TooLarge => "too_large",
            DecodeError::Bomb => "bomb",
            DecodeError::WindowTooLarge => "window_too_large",
            DecodeError::Exhausted => "exhausted",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownCoding => out.write_str("unknown content coding"),
            DecodeError::TooManyCodings => out.write_str("too many content codings"),
            DecodeError::Corrupt(coding) => write!(out, "corrupt {coding:?}"),
            DecodeError::Cut(coding) => write!(out, "{coding:?} ends too early"),
            DecodeError::TooLarge => out.write_str("decoded body too large"),
            DecodeError::Bomb => out.write_str("decompression bomb"),
            DecodeError::WindowTooLarge => out.write_str("zstd window too large"),
            DecodeError::Exhausted => out.write_str("no memory for a decoder"),
        }
    }
}

impl std::error::Error for DecodeError {}

pub struct Decoder {
    /// The stages in the order in which they see the body: the last coding of the header first.
    stages: Vec<Stage>,
    meter: Meter,
    failed: Option<DecodeError>,
}

/// The idle contexts of one core. The part that drives the fetches owns it; there is no global
/// pool.
pub struct DecoderPool {
    /// The bound on one decoded body.
    decoded_bytes_max: usize,
    inflates: Vec<Decompress>,
    zstds: Vec<DCtx<'static>>,
    scratches: Vec<Box<[u8]>>,
}

struct Stage {
    engine: Engine,
    scratch: Box<[u8]>,
    produced_bytes: usize,
}

enum Engine {
    Gzip(Gzip),
    Deflate(Deflate),
    Br { state: Box<BrotliContext>, is_begun: bool, is_ended: bool },
    Zstd { context: DCtx<'static>, is_inside_frame: bool },
}

type BrotliContext = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

#[derive(Clone, Copy)]
struct Meter {
    wire_bytes: usize,
    decoded_bytes: usize,
    decoded_bytes_max: usize,
}

impl Coding {
    /// The names of the codings in requests.
    pub const NAMES: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

    fn parse(name: &[u8]) -> Result<Coding, DecodeError> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            2 if is("br") => Ok(Coding::Br),
            4 if is("gzip") => Ok(Coding::Gzip),
            4 if is("zstd") => Ok(Coding::Zstd),
            // RFC 9110 8.4.1.3: x-gzip means gzip.
            6 if is("x-gzip") => Ok(Coding::Gzip),
            7 if is("deflate") => Ok(Coding::Deflate),
            _ => Err(DecodeError::UnknownCoding),
        }
    }
}

impl Decoder {
    /// Makes a decoder for one Content-Encoding value, without a pool.
    pub fn new(content_encoding: &[u8]) -> Result<Decoder, DecodeError> {
        DecoderPool::default().decoder([content_encoding])
    }

    /// Reports whether there is no coding: `push` then hands its input through.
    pub fn is_identity(&self) -> bool {
        self.stages.is_empty()
    }

    /// Returns the bytes of memory that the contexts hold, windows included.
    pub fn held_bytes(&self) -> usize {
        let of_stage = |stage: &Stage| stage.scratch.len() + stage.engine.held_bytes();
        self.stages.iter().map(of_stage).sum()
    }

    pub fn decoded_bytes(&self) -> usize {
        self.meter.decoded_bytes
    }

    /// Decodes the next body piece into `sink`. After an error every call repeats it.
    pub fn push(&mut self, input: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<(), DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if input.is_empty() {
            return Ok(());
        }
        self.meter.wire_bytes += input.len();
        let result = run(&mut self.stages, &mut self.meter, input, sink);
        self.failed = result.err();
        result
    }

    /// Reports an error if a coding has not ended where the body ends. An empty body is whole under
    /// any coding.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.stages.iter().try_for_each(Stage::finish),
        }
    }
}

impl Default for DecoderPool {
    fn default() -> DecoderPool {
        DecoderPool::for_bodies(DECODED_BYTES / DECODED_PER_BODY)
    }
}

impl DecoderPool {
    pub fn new() -> DecoderPool {
        DecoderPool::default()
    }

    /// Makes a pool for bodies of up to `body_bytes_max` bytes over the wire.
    pub fn for_bodies(body_bytes_max: usize) -> DecoderPool {
        let decoded_bytes_max = body_bytes_max.saturating_mul(DECODED_PER_BODY).max(DECODED_BYTES);
        let (inflates, zstds, scratches) = (Vec::new(), Vec::new(), Vec::new());
        DecoderPool { decoded_bytes_max, inflates, zstds, scratches }
    }

    /// Makes a decoder for all Content-Encoding lines of a response, in order. No lines mean no
    /// coding.
    pub fn decoder<'v>(
        &mut self,
        content_encodings: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<Decoder, DecodeError> {
        let mut codings = [Coding::Gzip; CONTENT_CODING_COUNT_MAX];
        let mut count = 0;
        let names = content_encodings.into_iter().flat_map(|value| value.split(|&b| b == b','));
        for name in names.map(<[u8]>::trim_ascii) {
            if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let coding = Coding::parse(name)?;
            *codings.get_mut(count).ok_or(DecodeError::TooManyCodings)? = coding;
            count += 1;
        }
        let mut stages = Vec::with_capacity(count);
        for &coding in codings[..count].iter().rev() {
            stages.push(self.stage(coding)?);
        }
        let decoded_bytes_max = self.decoded_bytes_max;
        let meter = Meter { wire_bytes: 0, decoded_bytes: 0, decoded_bytes_max };
        Ok(Decoder { stages, meter, failed: None })
    }

    /// Takes a decoder's contexts back, whether it has finished or not.
    pub fn give_back(&mut self, decoder: Decoder) {
        for stage in decoder.stages {
            keep(&mut self.scratches, stage.scratch);
            match stage.engine {
                Engine::Gzip(gzip) => keep(&mut self.inflates, gzip.into_inflate()),
                Engine::Deflate(deflate) => keep(&mut self.inflates, deflate.into_inflate()),
                // The library cannot reset a br context, and its memory grows with the stream's
                // window.
                Engine::Br { .. } => {}
                Engine::Zstd { mut context, .. } => {
                    if context.reset(ResetDirective::SessionOnly).is_ok() {
                        keep(&mut self.zstds, context);
                    }
                }
            }
        }
    }

    fn stage(&mut self, coding: Coding) -> Result<Stage, DecodeError> {
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(Gzip::new(self.inflate())),
            Coding::Deflate => Engine::Deflate(Deflate::new(self.inflate())),
            Coding::Br => {
                // Strict mode allows only the windows of RFC 7932, 16 MiB at most.
                let alloc = StandardAlloc::default;
                let state = Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()));
                Engine::Br { state, is_begun: false, is_ended: false }
            }
            Coding::Zstd => Engine::Zstd { context: self.zstd()?, is_inside_frame: false },
        };
        let scratch = self.scratches.pop();
        let scratch = scratch.unwrap_or_else(|| vec![0; DECODE_SCRATCH_BYTES].into_boxed_slice());
        Ok(Stage { engine, scratch, produced_bytes: 0 })
    }

    fn inflate(&mut self) -> Decompress {
        self.inflates.pop().unwrap_or_else(|| Decompress::new(false))
    }

    fn zstd(&mut self) -> Result<DCtx<'static>, DecodeError> {
        if let Some(context) = self.zstds.pop() {
            return Ok(context);
        }
        let mut context = DCtx::try_create().ok_or(DecodeError::Exhausted)?;
        context
            .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
            .map_err(|_| DecodeError::Exhausted)?;
        Ok(context)
    }
}

fn keep<T>(idle: &mut Vec<T>, context: T) {
    if idle.len() < DECODER_IDLE_COUNT_MAX {
        idle.push(context);
    }
}

/// Runs `input` through the first stage, and that stage's output through the others, to the sink.
fn run(
    stages: &mut [Stage],
    meter: &mut Meter,
    input: &[u8],
    sink: &mut dyn FnMut(&[u8]),
) -> Result<(), DecodeError> {
    let Some((stage, next)) = stages.split_first_mut() else {
        let room = meter.decoded_bytes_max - meter.decoded_bytes;
        let fits = &input[..input.len().min(room)];
        meter.decoded_bytes += fits.len();
        if !fits.is_empty() {
            sink(fits);
        }
        return if fits.len() < input.len() { Err(DecodeError::TooLarge) } else { Ok(()) };
    };
    let Stage { engine, scratch, produced_bytes } = stage;
    let coding = engine.coding();
    let pushed = engine.push(input, scratch, &mut |piece| {
        *produced_bytes += piece.len();
        let is_bomb = *produced_bytes > RATIO_CHECK_BYTES_MIN
            && *produced_bytes / DECODED_RATIO_MAX > meter.wire_bytes;
        if is_bomb {
            return Err(Fault::Other(DecodeError::Bomb));
        }
        if !next.is_empty() && *produced_bytes > meter.decoded_bytes_max {
            return Err(Fault::Other(DecodeError::TooLarge));
        }
        run(next, meter, piece, sink).map_err(Fault::Other)
    });
    pushed.map_err(|fault| fault.of(coding))
}

impl Fault {
    fn of(self, coding: Coding) -> DecodeError {
        match self {
            Fault::Corrupt => DecodeError::Corrupt(coding),
            Fault::Cut => DecodeError::Cut(coding),
            Fault::Other(error) => error,
        }
    }
}

impl Stage {
    fn finish(&self) -> Result<(), DecodeError> {
        let finished = match &self.engine {
            Engine::Gzip(gzip) => gzip.finish(),
            Engine::Deflate(deflate) => deflate.finish(),
            Engine::Br { is_begun: true, is_ended: false, .. }
            | Engine::Zstd { is_inside_frame: true, .. } => Err(Fault::Cut),
            Engine::Br { .. } | Engine::Zstd { .. } => Ok(()),
        };
        finished.map_err(|fault| fault.of(self.engine.coding()))
    }
}

impl Engine {
    /// Returns the bytes of memory held. A window is up to 16 MiB, and a few kilobytes on the wire
    /// may ask for one.
    fn held_bytes(&self) -> usize {
        match self {
            Engine::Gzip(_) | Engine::Deflate(_) => INFLATE_BYTES,
            Engine::Br { state, .. } => {
                BROTLI_TABLE_BYTES + usize::try_from(state.ringbuffer_size).unwrap_or(0)
            }
            Engine::Zstd { context, .. } => context.sizeof(),
        }
    }

    fn coding(&self) -> Coding {
        match self {
            Engine::Gzip(_) => Coding::Gzip,
            Engine::Deflate(_) => Coding::Deflate,
            Engine::Br { .. } => Coding::Br,
            Engine::Zstd { .. } => Coding::Zstd,
        }
    }

    fn push(&mut self, input: &[u8], scratch: &mut [u8], output: Output<'_>) -> Result<(), Fault> {
        match self {
            Engine::Gzip(gzip) => gzip.push(input, scratch, output),
            Engine::Deflate(deflate) => deflate.push(input, scratch, output),
            Engine::Br { is_ended: true, .. } => Ok(()),
            Engine::Br { state, is_begun, is_ended } => {
                *is_begun = true;
                *is_ended = push_br(state, input, scratch, output)?;
                Ok(())
            }
            Engine::Zstd { context, is_inside_frame } => {
                push_zstd(context, is_inside_frame, input, scratch, output)
            }
        }
    }
}

/// Decodes a piece of br. Returns true when the stream has ended; bytes behind it are ignored, as
/// for gzip.
fn push_br(
    state: &mut BrotliContext,
    input: &[u8],
    scratch: &mut [u8],
    output: Output<'_>,
) -> Result<bool, Fault> {
    let (mut input_left, mut input_at, mut total) = (input.len(), 0, 0);
    loop {
        let (mut room, mut made) = (scratch.len(), 0);
        let result = BrotliDecompressStream(
            &mut input_left,
            &mut input_at,
            input,
            &mut room,
            &mut made,
            scratch,
            &mut total,
            state,
        );
        if made > 0 {
            output(&scratch[..made])?;
        }
        match result {
            BrotliResult::ResultSuccess => return Ok(true),
            // The library asks for input first, even where it has more output than fits the scratch
            // buffer.
            BrotliResult::NeedsMoreInput if made < scratch.len() => return Ok(false),
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(Fault::Corrupt),
        }
    }
}

fn push_zstd(
    context: &mut DCtx<'static>,
    is_inside_frame: &mut bool,
    input: &[u8],
    scratch: &mut [u8],
    output: Output<'_>,
) -> Result<(), Fault> {
    let mut input_at = 0;
    while input_at < input.len() || *is_inside_frame {
        // The first byte of a frame goes in alone. The library reads a frame that lies whole in the
        // input with other code, which checks more (an empty last block against the frame's content
        // size), so the verdict would depend on the cut.
        let end = if *is_inside_frame { input.len() } else { input_at + 1 };
        let mut source = InBuffer::around(&input[input_at..end]);
        let mut target = OutBuffer::around(&mut *scratch);
        let result = context.decompress_stream(&mut target, &mut source);
        let (taken, made) = (source.pos(), target.pos());
        input_at += taken;
        if made > 0 {
            output(&scratch[..made])?;
        }
        match result {
            Ok(hint) => *is_inside_frame = hint != 0,
            Err(code) if get_error_name(code).contains("too much memory") => {
                return Err(Fault::Other(DecodeError::WindowTooLarge));
            }
            Err(_) => return Err(Fault::Corrupt),
        }
        let is_stuck = taken == 0 && made == 0;
        if (input_at == input.len() && made < scratch.len()) || is_stuck {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
