import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent

# One for all cases: the client's connections belong to the loop that opened them.
LOOP = asyncio.new_event_loop()


class City(BaseModel):
    city: str
    rivers: int


def used(result):
    usage = result.usage
    return [usage.input_tokens, usage.output_tokens]


def plain(variables, model, words=HELLO):
    result = LOOP.run_until_complete(Agent(variables["model"]).run(words))
    return said(result.output, usage=used(result))


def streamed(variables, model):
    async def run():
        async with Agent(variables["model"]).run_stream(HELLO) as result:
            words = "".join([piece async for piece in result.stream_text(delta=True)])
            return said(words, usage=used(result))

    return LOOP.run_until_complete(run())


def weather_agent(variables, calls):
    agent = Agent(variables["model"])

    @agent.tool_plain
    def get_weather(city: str) -> str:
        calls.append(["get_weather", {"city": city}])
        return "sunny"

    return agent


def tools(variables, model):
    calls = []
    result = LOOP.run_until_complete(weather_agent(variables, calls).run(WEATHER))
    [call] = calls
    return said(call=call, usage=used(result))


def streamed_tools(variables, model):
    calls = []

    async def run():
        async with weather_agent(variables, calls).run_stream(WEATHER) as result:
            await result.get_output()
            return used(result)

    usage = LOOP.run_until_complete(run())
    [call] = calls
    return said(call=call, usage=usage)


def turns(variables, model):
    agent = weather_agent(variables, [])
    first = LOOP.run_until_complete(agent.run(WEATHER))
    second = LOOP.run_until_complete(agent.run(HELLO, message_history=first.all_messages()))
    usage = [sum(pair) for pair in zip(used(first), used(second))]
    return said(f"{first.output} {second.output}", usage=usage)


def structured(variables, model):
    result = LOOP.run_until_complete(Agent(variables["model"], output_type=City).run(DESCRIBE))
    return said(value=result.output.model_dump(), usage=used(result))


def cancelled(variables, model):
    async def run():
        async with Agent(variables["model"]).run_stream(STORY) as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                if piece:
                    return piece.strip()

    return said(LOOP.run_until_complete(run()))


def refused(variables, model):
    return plain(variables, model, "Refuse this.")


def overflow(variables, model):
    return plain(variables, model, "Overflow.")


def fault(thrown):
    return {"status": thrown.status_code, "code": thrown.body["code"]}


drive([plain, streamed, tools, streamed_tools, turns, structured, cancelled, refused, overflow], fault)
