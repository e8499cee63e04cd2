//! Answers that are read completely before their first byte is sent.

use std::{borrow::Cow, future::poll_fn, pin::pin};

use bytes::{Bytes, BytesMut};
use domain::{PayingAccount, usage::Ending};
use edge_metrics as metrics;
use fairness::TurnPermit;
use gateway_answer::{
    answer_memory::AnswerMemory,
    json_answer::{self, AnswerError, RewrittenAnswer},
    sse::{ChatFrames, MergedAnswer, StreamError, StreamProgress},
};
use gateway_formats::{AnswerFrames, ClientFormat};
use gateway_request::error::{ErrorReport, ProviderError};
use openai::usage::TokenUsage;
use upstream::{GzipDecoder, GzipError, ReadError, UpstreamResponse};

use super::{
    super::{body::GatewayBody, metered_answer::MeteredAnswer},
    CompletionResponse, ProviderExchange,
};

enum WholeAnswer {
    Answer(RewrittenAnswer),
    /// The answer is empty; the usage that the provider reports.
    Empty(Option<TokenUsage>),
}

impl ProviderExchange {
    /// Answers with a whole completion, or a stream of it if requested, and settles its reservation. Holds the turn.
    pub(super) async fn relay_json(
        &self,
        answer: UpstreamResponse,
        mut metered: MeteredAnswer,
        is_stream: bool,
        mut memory: AnswerMemory,
        turn: TurnPermit<PayingAccount>,
        format: ClientFormat,
    ) -> Result<CompletionResponse, ProviderError> {
        metered.is_stream = false;
        metered.read_as(self.native.clone());
        let cut_off = &self.state.under_way.cut_off;
        let answered = {
            let reading = pin!(self.read_json(answer, &mut metered.read, &mut memory));
            cut_off.run_until_cancelled(reading).await
        };
        match answered {
            Some(Ok(WholeAnswer::Empty(usage))) => {
                match usage {
                    Some(usage) => _ = metered.settle(usage, Ending::ContentFilter),
                    None => metered.release(),
                }
                Err(self.no_answer(usage.is_some()))
            }
            Some(Ok(WholeAnswer::Answer(RewrittenAnswer { body, usage, ending }))) => {
                if let Some(span) = metered.span() {
                    // Chat completions carry the ending in the body.
                    if self.native.is_none() { span.record_finish_reasons(&body) } else { span.record_ending(ending) }
                }
                let cost = metered.settle(usage, ending);
                let body = if is_stream {
                    self.translate_stream(json_answer::to_stream(&body, &self.model, self.route), format, &turn)?
                } else {
                    self.translate(body, format, &mut memory)?
                };
                Ok(CompletionResponse { body: GatewayBody::whole(body, (turn, memory)), cost })
            }
            Some(Err(error @ (ProviderError::NoMemory | ProviderError::TooLarge))) => {
                metered.settle_partly_read();
                Err(error)
            }
            Some(Err(error)) => {
                metered.settle_failed();
                Err(error)
            }
            None => {
                metered.settle_so_far();
                Err(ProviderError::CutOff)
            }
        }
    }

    /// Answers with a whole completion from a provider's stream, and settles its reservation. Holds the turn.
    pub(super) async fn relay_merged(
        &self,
        answer: UpstreamResponse,
        metered: MeteredAnswer,
        mut memory: AnswerMemory,
        turn: TurnPermit<PayingAccount>,
        format: ClientFormat,
    ) -> Result<CompletionResponse, ProviderError> {
        let frames = AnswerFrames::Chat(ChatFrames::new(self.model.clone(), self.expected).at(self.route));
        let mut metered = metered.into_frames(frames, self.request_id.clone());
        let cut_off = &self.state.under_way.cut_off;
        match cut_off.run_until_cancelled(self.read_merged(answer, &mut metered.frames, &mut memory)).await {
            Some(Ok(body)) => {
                metered.trace_whole(&body);
                let cost = metered.settle_whole();
                let body = self.translate(body, format, &mut memory)?;
                Ok(CompletionResponse { body: GatewayBody::whole(body, (turn, memory)), cost })
            }
            Some(Err(error)) => {
                metered.settle_failed();
                Err(error)
            }
            None => {
                metered.settle_so_far(Ending::Cut);
                Err(ProviderError::CutOff)
            }
        }
    }

    fn translate(&self, chat: Bytes, format: ClientFormat, memory: &mut AnswerMemory) -> Result<Bytes, ProviderError> {
        if format.is_translated() {
            // The original and the translation briefly coexist.
            memory.grow_to(chat.len() * 2).map_err(|_| self.no_memory())?;
        }
        format.whole(chat).ok_or_else(|| self.unusable(&"the answer cannot be translated"))
    }

    fn translate_stream(
        &self,
        chat: Bytes,
        format: ClientFormat,
        turn: &TurnPermit<PayingAccount>,
    ) -> Result<Bytes, ProviderError> {
        if !format.is_translated() {
            return Ok(chat);
        }
        let mut out = BytesMut::with_capacity(chat.len());
        let memory = AnswerMemory::new(&self.state.answers, turn.key());
        let written = format.into_events(memory, None).write(&mut out, |events| {
            events.extend_from_slice(&chat);
            Ok::<_, StreamError>(())
        });
        written.map_err(|error| self.unusable(&error))?;
        Ok(out.freeze())
    }

    async fn read_merged(
        &self,
        mut answer: UpstreamResponse,
        frames: &mut AnswerFrames,
        memory: &mut AnswerMemory,
    ) -> Result<Bytes, ProviderError> {
        let mut gzip = GzipDecoder::for_headers(&answer.headers).map_err(|error| self.unusable(&error))?;
        let (mut merged, mut events, mut read) = (MergedAnswer::default(), BytesMut::new(), 0);
        let mut progress = StreamProgress::Ongoing;
        while progress == StreamProgress::Ongoing {
            let Some(chunk) = self.next_chunk(&mut answer).await? else {
                frames.end(&mut events).map_err(|error| self.stream_failed(error, frames))?;
                break;
            };
            for piece in pieces(&chunk, gzip.is_some()) {
                let plain = decode(&mut gzip, piece).map_err(|error| self.unusable(&error))?;
                read += plain.len();
                progress = frames.push(&plain, &mut events).map_err(|error| self.stream_failed(error, frames))?;
                if frames.has_words() {
                    answer.set_begun();
                }
                if read > limits::ANSWER_BYTES {
                    return Err(self.too_large());
                }
                self.merge(&events.split(), &mut merged, memory)?;
                if progress == StreamProgress::Complete {
                    break;
                }
            }
        }
        self.merge(&events, &mut merged, memory)?;
        self.discard(answer);
        let body = merged.into_answer();
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        if is_json && json_answer::is_completion(&body, &self.model.model, &self.expected) {
            Ok(body.into())
        } else {
            Err(self.unusable(&"the stream is no completion"))
        }
    }

    fn stream_failed(&self, error: StreamError, frames: &AnswerFrames) -> ProviderError {
        self.unusable(&error);
        error.to_provider_error(frames.has_usage(), &self.facts)
    }

    fn merge(&self, events: &[u8], merged: &mut MergedAnswer, memory: &mut AnswerMemory) -> Result<(), ProviderError> {
        merged.add(events).map_err(|error| self.unusable(&error))?;
        memory.grow_to(merged.bytes()).map_err(|_| self.no_memory())
    }

    /// Reads a whole answer into `body` and rewrites it for the client.
    async fn read_json(
        &self,
        mut answer: UpstreamResponse,
        body: &mut BytesMut,
        memory: &mut AnswerMemory,
    ) -> Result<WholeAnswer, ProviderError> {
        let mut gzip = GzipDecoder::for_headers(&answer.headers).map_err(|error| self.unusable(&error))?;
        while let Some(chunk) = self.next_chunk(&mut answer).await? {
            for piece in pieces(&chunk, gzip.is_some()) {
                let plain = decode(&mut gzip, piece).map_err(|error| self.unusable(&error))?;
                // Stored before the memory check: a refused answer is charged by the usage it reports.
                body.extend_from_slice(&plain);
                // Providers send blank lines while they work.
                if !plain.trim_ascii().is_empty() {
                    answer.set_begun();
                }
                if body.len() > limits::ANSWER_BYTES {
                    return Err(self.too_large());
                }
                memory.grow_to(body.len()).map_err(|_| self.no_memory())?;
            }
        }
        self.model.upstream.return_to_pool(answer.into_connection());
        let rewritten = match &self.native {
            None => json_answer::rewrite(body, &self.model, &self.expected, self.route),
            Some(native) => native.rewrite(body, &self.expected),
        };
        match rewritten {
            Ok(rewritten) => Ok(WholeAnswer::Answer(rewritten)),
            Err(AnswerError::Empty(usage)) => Ok(WholeAnswer::Empty(usage)),
            Err(AnswerError::NoCompletion) => {
                self.unusable(&"the answer is no completion");
                Err(self.facts.error_for_report(ErrorReport::parse(body)))
            }
        }
    }

    fn no_answer(&self, is_charged: bool) -> ProviderError {
        let error = ProviderError::NoAnswer { is_charged };
        self.unusable(&error);
        error
    }

    fn too_large(&self) -> ProviderError {
        self.unusable(&ProviderError::TooLarge);
        ProviderError::TooLarge
    }

    fn no_memory(&self) -> ProviderError {
        metrics::exhausted();
        self.warn(&ProviderError::NoMemory);
        ProviderError::NoMemory
    }

    async fn next_chunk(&self, answer: &mut UpstreamResponse) -> Result<Option<Bytes>, ProviderError> {
        poll_fn(|cx| answer.poll_chunk(cx)).await.transpose().map_err(|error| {
            metrics::upstream_failed(&self.model.upstream.name, "answer broke off");
            self.warn(&error);
            if error == ReadError::Timeout { ProviderError::Timeout } else { ProviderError::FAILED }
        })
    }
}

/// Splits a chunk into pieces to decode. Those of a compressed answer are small because each may expand a lot.
fn pieces(chunk: &[u8], is_zipped: bool) -> impl Iterator<Item = &[u8]> {
    chunk.chunks(if is_zipped { limits::ZIPPED_PIECE_BYTES } else { chunk.len().max(1) })
}

fn decode<'p>(gzip: &mut Option<GzipDecoder>, piece: &'p [u8]) -> Result<Cow<'p, [u8]>, GzipError> {
    match gzip {
        None => Ok(Cow::Borrowed(piece)),
        Some(gzip) => gzip.decode(piece).map(Cow::Owned),
    }
}
