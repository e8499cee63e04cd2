//! Chat completions as the translations of the other formats see them: the body that a request is written as ([`ChatBody`]), and
//! what is read of a completion, whole or frame by frame ([`Completion`]). Text keeps its JSON form, so that it is copied without
//! being decoded.

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
