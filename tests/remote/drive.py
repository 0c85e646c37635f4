"""Runs on an emulated host: opens channels as its standard input says (JSON) and reports on each, a line of JSON each.

`{"transport": "asyncssh", "timeout_s": 20, "opens": [{"address": "h1", "ssh": {"port": 22}, "argv": [...],
"given": "..."}]}`. All are opened at the same time. With `"hold": true`, "open" is written when they are, and then what
is read from each until it ends.
"""

import asyncio
import json
import sys
import time

from autodist import remote
from autodist.errors import HostUnreachable
from autodist.resource_spec import Ssh


async def one(transport, wanted, timeout_s, opened):
    began = time.monotonic()
    machine = remote.Machine(wanted["address"], Ssh(**wanted["ssh"]) if "ssh" in wanted else None)
    try:
        channel = await transport.open(machine, wanted["argv"], timeout_s)
    except HostUnreachable as error:
        return {"error": error.message, "hint": error.hint, "seconds": time.monotonic() - began}
    opened()
    channel.write(wanted.get("given", "").encode())
    await channel.drain()
    if wanted.get("given"):
        channel.write(b"\x04")
    texts = await asyncio.gather(whole(channel.read), whole(channel.read_error))
    code = await asyncio.wait_for(channel.wait(), 20)
    await channel.close()
    return {"stdout": texts[0], "stderr": texts[1], "code": code, "seconds": time.monotonic() - began}


async def whole(read):
    found = b""
    while more := await read():
        found += more
    return found.decode()


async def main():
    request = json.loads(sys.stdin.read())
    transport = {"asyncssh": "AsyncsshTransport", "ssh": "OpensshTransport"}[request["transport"]]
    made = getattr(remote, transport)()
    waiting = len(request["opens"])

    def opened():
        nonlocal waiting
        waiting -= 1
        if not waiting and request.get("hold"):
            print(json.dumps("open"), flush=True)

    try:
        timeout_s = request.get("timeout_s", 20)
        results = await asyncio.gather(*(one(made, wanted, timeout_s, opened) for wanted in request["opens"]))
    finally:
        began = time.monotonic()
        await made.close()
        closing = time.monotonic() - began
    for result in results:
        print(json.dumps(result | {"closing": closing}), flush=True)


asyncio.run(main())
