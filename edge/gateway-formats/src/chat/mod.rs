//! Chat completions for the translations of other formats: the body of a request ([`ChatWriter`]), and a completion,
//! whole or frame by frame ([`ChatCompletion`]). Text keeps its JSON form, so that it is copied without decoding.

mod completion;
mod elements;
mod request;
mod text;
mod writer;

pub(super) use self::{
    completion::{ChatCompletion, CompletionChoice, ModelOutput, ToolCall},
    elements::{ElementsError, for_each_element},
    request::{
        AssistantToolCall, CallArguments, ChatBody, ChatMessage, ChatPart, ChatTool, FunctionDefinition, ImageContent,
        ImageUrl, JsonSchema, MessageContent, ResponseFormat, ToolChoice,
    },
    text::{ChatText, JsonString, TextAssembly, is_blank},
    writer::ChatWriter,
};
