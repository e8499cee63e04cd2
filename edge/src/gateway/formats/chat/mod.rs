//! Chat completions for the translations of other formats: the body of a request ([`ChatBody`]), and a completion,
//! whole or frame by frame ([`Completion`]). Text keeps its JSON form, so that it is copied without decoding.

mod completion;
mod request;
mod text;

pub(super) use self::{
    completion::{Choice, Completion, Said, ToolCall},
    request::{
        Arguments, ChatBody, Content, Function, Image, ImageUrl, JsonSchema, Message, Part, ResponseFormat, SaidCall,
        Tool, ToolChoice,
    },
    text::{JsonString, Pieces, Text, is_blank},
};
