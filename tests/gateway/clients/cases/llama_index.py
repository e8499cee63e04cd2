from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    city: str
    rivers: int


def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


TOOL = FunctionTool.from_defaults(get_weather)


def user(words):
    return ChatMessage(role="user", content=words)


def used(*answers):
    usages = [answer.raw.usage for answer in answers]
    return [sum(usage.prompt_tokens for usage in usages), sum(usage.completion_tokens for usage in usages)]


def call_of(variables, answer):
    [call] = calls_of(variables, answer)
    return [call.tool_name, call.tool_kwargs]


def calls_of(variables, answer):
    return variables["llm"].get_tool_calls_from_response(answer, error_on_no_tool_call=False)


def plain(variables, model, words=HELLO):
    answer = variables["llm"].chat([user(words)])
    return said(answer.message.content, usage=used(answer))


def streamed(variables, model):
    words = "".join(piece.delta or "" for piece in variables["llm"].stream_chat([user(HELLO)]))
    return said(words)


def tools(variables, model):
    answer = variables["llm"].chat_with_tools([TOOL], user_msg=WEATHER)
    return said(call=call_of(variables, answer), usage=used(answer))


def streamed_tools(variables, model):
    for answer in variables["llm"].stream_chat_with_tools([TOOL], user_msg=WEATHER):
        pass
    return said(call=call_of(variables, answer))


def turns(variables, model):
    history, answers, words = [user(WEATHER)], [], []
    for turn in range(3):
        answer = variables["llm"].chat_with_tools([TOOL], chat_history=history)
        answers.append(answer)
        history.append(answer.message)
        calls = calls_of(variables, answer)
        for call in calls:
            history.append(ChatMessage(role="tool", content="sunny", additional_kwargs={"tool_call_id": call.tool_id}))
        if not calls:
            words.append(answer.message.content)
            history.append(user(HELLO))
    return said(" ".join(words), usage=used(*answers))


def structured(variables, model):
    answer = variables["llm"].as_structured_llm(City).chat([user(DESCRIBE)])
    return said(value=answer.raw.model_dump())


def cancelled(variables, model):
    stream = variables["llm"].stream_chat([user(STORY)])
    for piece in stream:
        if piece.delta:
            stream.close()
            return said(piece.delta.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": thrown.code}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
