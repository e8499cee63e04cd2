from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    city: str
    rivers: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


def used(*messages):
    usages = [message.usage_metadata for message in messages]
    return [sum(usage["input_tokens"] for usage in usages), sum(usage["output_tokens"] for usage in usages)]


def plain(variables, model, words=HELLO):
    message = variables["llm"].invoke(words)
    return said(message.content, usage=used(message))


def whole(stream):
    message = None
    for chunk in stream:
        message = chunk if message is None else message + chunk
    return message


def streamed(variables, model):
    message = whole(variables["llm"].stream(HELLO))
    return said(message.content, usage=used(message))


def call_of(message):
    [call] = message.tool_calls
    return [call["name"], call["args"]]


def tools(variables, model):
    message = variables["llm"].bind_tools([get_weather]).invoke(WEATHER)
    return said(call=call_of(message), usage=used(message))


def streamed_tools(variables, model):
    message = whole(variables["llm"].bind_tools([get_weather]).stream(WEATHER))
    return said(call=call_of(message), usage=used(message))


def turns(variables, model):
    llm, messages, answers, words = variables["llm"].bind_tools([get_weather]), [HumanMessage(WEATHER)], [], []
    for turn in range(3):
        answers.append(llm.invoke(messages))
        messages.append(answers[-1])
        for call in answers[-1].tool_calls:
            messages.append(get_weather.invoke(call))
        if not answers[-1].tool_calls:
            words.append(answers[-1].content)
            messages.append(HumanMessage(HELLO))
    assert isinstance(messages[2], ToolMessage), messages
    return said(" ".join(words), usage=used(*answers))


def structured(variables, model):
    answer = variables["llm"].with_structured_output(City, include_raw=True).invoke(DESCRIBE)
    return said(value=answer["parsed"].model_dump(), usage=used(answer["raw"]))


def cancelled(variables, model):
    stream = variables["llm"].stream(STORY)
    for chunk in stream:
        if chunk.content:
            stream.close()
            return said(chunk.content.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": thrown.code}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
