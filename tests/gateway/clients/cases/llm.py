import llm
from pydantic import BaseModel


class City(BaseModel):
    city: str
    rivers: int


def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


def configured_model(model):
    found = llm.get_model(model)
    found.key = os.environ["API_KEY"]
    return found


def used(*answers):
    usages = [answer.usage() for answer in answers]
    return [sum(usage.input for usage in usages), sum(usage.output for usage in usages)]


def plain(variables, model, words=HELLO):
    answer = configured_model(model).prompt(words, stream=False)
    return said(answer.text(), usage=used(answer))


def streamed(variables, model):
    answer = configured_model(model).prompt(HELLO)
    return said("".join(answer), usage=used(answer))


def tools(variables, model, stream=False):
    answer = configured_model(model).prompt(WEATHER, tools=[get_weather], stream=stream)
    [call] = answer.tool_calls()
    return said(call=[call.name, call.arguments], usage=used(answer))


def streamed_tools(variables, model):
    return tools(variables, model, stream=True)


def turns(variables, model):
    conversation = configured_model(model).conversation(tools=[get_weather])
    words = [conversation.chain(WEATHER).text(), conversation.chain(HELLO).text()]
    return said(" ".join(words), usage=used(*conversation.responses))


def structured(variables, model):
    answer = configured_model(model).prompt(DESCRIBE, schema=City, stream=False)
    return said(value=json.loads(answer.text()), usage=used(answer))


def cancelled(variables, model):
    for piece in configured_model(model).prompt(STORY):
        if piece:
            return said(piece.strip())


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    cause = thrown if hasattr(thrown, "status_code") else thrown.__cause__ or thrown.__context__
    return {"status": cause.status_code, "code": cause.code}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
