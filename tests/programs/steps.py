"""Steps of a program: data that can be drawn, shrunk and printed. Each is the Python code that it runs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, fields

TOPICS = ("a", "b", "out")
"""Sources, and where copies go; each is a variable of the program."""


PRODUCERS = ("p0", "p1", "p0")
"""By member the producer of its copies and offsets, which commits on request: ``p0`` has those of two consumers."""


@dataclass(frozen=True)
class Member:
    """How the consumer ``c0``, ``c1`` or ``c2`` is opened.

    ``auto``: with ``enable.auto.commit``. ``keeps_state``: with a listener for keys that come and go. ``elsewhere``: in a
    process of its own, ``x0``, ..., with its producer, which can be killed. ``commits_last``: it commits when partitions
    are taken from it. ``tuned``: some of :data:`TUNED`. ``pattern``: it subscribes to a pattern of names.
    """

    topics: tuple[str, ...] = ("a",)
    pattern: bool = False
    auto: bool = False
    keeps_state: bool = False
    elsewhere: bool = False
    commits_last: bool = False
    tuned: tuple[str, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether only what it stores counts as processed."""
        return "stores offsets" in self.tuned

    @property
    def is_slow(self) -> bool:
        """Whether it may work for longer than its group waits for it."""
        return "slow" in self.tuned


TUNED = {
    "ends of partitions": ", enable_partition_eof=True",
    "small fetches": ", fetch_message_max_bytes=64, queued_min_messages=1",
    "commits often": ", auto_commit_interval_ms=1",
    "stores offsets": ", enable_auto_offset_store=False",
    "slow": ", max_poll_interval_ms=3000",
    "static": ", group_instance_id={c!r}",
}
"""Settings of a consumer: what counts as processed, and when its group gives up on it. The rest change no promise."""


@dataclass(frozen=True)
class Step:
    """Something that a program does.

    ``needs``: the clients that are opened for it. ``wants``: those without which it is left out.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Clients by name."""
        return ()

    @property
    def wants(self) -> tuple[str, ...]:
        """Clients by name."""
        return ()

    def code(self) -> str:
        """Python."""
        raise NotImplementedError

    @property
    def member(self) -> int | None:
        """Whose clients it uses."""
        names = [name for name in (*self.needs, *self.wants) if name[0] in "cp"]
        return int(names[0][1:]) if names else None

    def __str__(self) -> str:
        shown = ", ".join(f"{getattr(self, one.name)!r}" for one in fields(self))
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True)
class Write(Step):
    """Produce a record for each key, ``times`` over."""

    client: str
    topic: str
    keys: tuple[str | None, ...]
    times: int = 1
    headers: bool = False
    empty: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.client,)

    def code(self) -> str:
        more = "".join(f", {name}=True" for name in ("headers", "empty") if getattr(self, name))
        keys = f"{list(self.keys)!r}{f' * {self.times}' if self.times > 1 else ''}"
        return f"use.write({self.client!r}, {self.topic}, {keys}{more})"


@dataclass(frozen=True)
class Consume(Step):
    """Read; ``copies``: and produce a copy of each record to ``out``. ``count`` 0: by ``poll()``."""

    who: int
    count: int
    timeout: float
    copies: bool = False

    @property
    def consumer(self) -> str:
        """Its name."""
        return f"c{self.who}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.consumer, PRODUCERS[self.who]) if self.copies else (self.consumer,)

    def code(self) -> str:
        name = self.consumer
        if self.count:
            read = f"use.got({name!r}, {name}.consume({self.count}, {self.timeout}))"
        else:
            read = f"use.got_one({name!r}, {name}.poll({self.timeout}))"
        return f"use.copy({PRODUCERS[self.who]!r}, out, {read})" if self.copies else read


@dataclass(frozen=True)
class Subscribe(Step):
    """Subscribe to other topics; ``pattern``: by a pattern of their names."""

    who: int
    topics: tuple[str, ...]
    keeps_state: bool = False
    commits_last: bool = False
    pattern: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"c{self.who}",)

    def code(self) -> str:
        more = "".join(
            f", {name}=True" for name in ("keeps_state", "commits_last", "pattern") if getattr(self, name)
        )
        return f"use.subscribe('c{self.who}', [{', '.join(self.topics)}]{more})"


@dataclass(frozen=True)
class Seek(Step):
    """Go back to one of the last records delivered."""

    who: int
    back: int

    @property
    def wants(self) -> tuple[str, ...]:
        return (f"c{self.who}",)

    def code(self) -> str:
        return f"c{self.who}.seek(use.last('c{self.who}', {self.back}))"


@dataclass(frozen=True)
class Change(Step):
    """Change a partition count; ``wait`` false: what follows happens meanwhile; ``force``: though another tool writes."""

    topic: str
    count: int
    wait: bool = True
    force: bool = False

    def code(self) -> str:
        more = ("" if self.wait else ", wait=0") + (", force=True" if self.force else "")
        return f"use.change({self.topic}, {self.count}{more})"


FOREIGN_ENDS = ("", "commit", "abort", "leave")


@dataclass(frozen=True)
class Foreign(Step):
    """Another tool writes, from the partition ``start`` on, by turns; ``ends``: how a transaction of its own ends, if any."""

    topic: str
    count: int
    start: int = 0
    ends: str = ""

    def code(self) -> str:
        return f"use.write_as_another({self.topic}, {self.count}, {self.start}, {self.ends!r})"


@dataclass(frozen=True)
class Grow(Step):
    """Another tool adds partitions; nothing where there are as many."""

    topic: str
    count: int

    def code(self) -> str:
        return f"use.grow({self.topic}, {self.count})"


@dataclass(frozen=True)
class Delete(Step):
    """Delete the older records of a topic, so many percent of each partition; ``before``: the offsets that this means."""

    topic: str
    percent: int
    before: tuple[tuple[int, int], ...] = ()

    def code(self) -> str:
        return f"use.delete_records({self.topic}, {dict(self.before)!r})"


SERVERS = ("controller-1", "controller-2", "broker-1")


@dataclass(frozen=True)
class Restart(Step):
    """One of :data:`SERVERS` is killed, and started again while the program goes on."""

    server: str

    def code(self) -> str:
        return f"use.restart({self.server!r})"


_FAIL = "with suppress(ZeroDivisionError), {}:\n    1 / 0"
OF_CONSUMERS = {
    "commit": "{c}.commit()",
    "commit last": "{c}.commit(use.seen[{c!r}][-1])",
    "commit in the background": "{c}.commit(asynchronous=True)",
    "store": "{c}.store_offsets(use.seen[{c!r}][-1])",
    "look": "{c}.committed({c}.assignment(), 10), {c}.position({c}.assignment())",
    "rewind": "{c}.rewind()",
    "work for long": "time.sleep(4)",
    "pause": "{c}.pause({c}.assignment())",
    "resume": "{c}.resume({c}.assignment())",
    "unsubscribe": "{c}.unsubscribe()",
    "close": "{c}.close()",
    "fail": _FAIL.format("{c}"),
    "drop": "del {c}\nuse.drop({c!r})",
    "kill": "{x}.kill()",
    "kill while it reads": "{x}.kill('{c}.consume(5, 1.0)')",
}
OF_BOTH = {
    "send offsets": "{p}.send_offsets({c})",
    "send offsets to transaction": (
        "{p}.send_offsets_to_transaction({c}.position({c}.assignment()), {c}.consumer_group_metadata())"
    ),
    "fail both": _FAIL.format("{c}, {p}"),
    "kill while it commits": "{x}.kill('{p}.commit()')",
}
OF_PRODUCERS = {
    "commit all": "{p}.commit()",
    "abort": "{p}.abort()",
    "flush": "{p}.flush()",
    "poll": "{p}.poll(0)",
    "end": "{p}.close()",
    "fail in producer": _FAIL.format("{p}"),
    "init": "{p}.init_transactions()",
    "begin": "{p}.begin_transaction()",
    "commit transaction": "{p}.commit_transaction()",
    "abort transaction": "{p}.abort_transaction()",
}
# Without the client there is nothing that they could do.
_LEFT_OUT = {
    "commit last",
    "store",
    "work for long",
    "rewind",
    "pause",
    "resume",
    "unsubscribe",
    "close",
    "fail",
    "drop",
    "kill",
    "kill while it reads",
    "kill while it commits",
    "fail both",
    "end",
    "fail in producer",
}
OF_LAST = {"commit last", "store"}
"""What is about the last record that was delivered."""
KILLING = {"kill", "kill while it reads", "kill while it commits"}
"""What ends both clients of a member that is a process of its own."""
CLOSING = {"close", "fail", "drop", "fail both"}
"""What ends a consumer."""
ENDING = {"end", "fail in producer", "fail both"}
"""What ends a producer."""


@dataclass(frozen=True)
class Act(Step):
    """One of the calls of :data:`OF_CONSUMERS`, :data:`OF_BOTH` and :data:`OF_PRODUCERS`."""

    who: str
    verb: str

    @property
    def consumer(self) -> str | None:
        """The name of the consumer that it is about."""
        return None if self.verb in OF_PRODUCERS else self.who.replace("p", "c")

    @property
    def producer(self) -> str | None:
        """The name of the producer that it is about."""
        if self.verb in OF_CONSUMERS:
            return None
        return PRODUCERS[int(self.who[1:])] if self.who.startswith("c") else self.who

    @property
    def _clients(self) -> tuple[str, ...]:
        return tuple(name for name in (self.consumer, self.producer) if name is not None)

    @property
    def needs(self) -> tuple[str, ...]:
        return () if self.verb in _LEFT_OUT else self._clients

    @property
    def wants(self) -> tuple[str, ...]:
        return self._clients if self.verb in _LEFT_OUT else ()

    def code(self) -> str:
        line = (OF_CONSUMERS | OF_BOTH | OF_PRODUCERS)[self.verb]
        # {c!r} is the name in quotes.
        quoted = line.replace("{c!r}", repr(self.consumer))
        names = {"{c}": self.consumer or "", "{p}": self.producer or "", "{x}": f"x{self.who[1:]}"}
        for shown, name in names.items():
            quoted = quoted.replace(shown, name)
        return quoted


@dataclass(frozen=True)
class Program:
    """Members, and what happens in turn."""

    members: tuple[Member, ...]
    steps: tuple[Step, ...]

    @property
    def restarts_servers(self) -> bool:
        """Whether a broker or a controller is killed and started again."""
        return any(isinstance(step, Restart) for step in self.steps)

    def opening(self, client: str) -> str:
        """The code that opens a client."""
        if client.startswith("c"):
            member = self.members[int(client[1:])]
            gone = {"drop", *KILLING}
            dropped = any(isinstance(one, Act) and one.verb in gone for one in self.steps)
            # One that is dropped, or leaves its place to a successor, is missed when its session ends.
            is_missed = dropped or member.is_slow or "static" in member.tuned
            more = f", session_timeout_ms={1500 if is_missed else 30000}"
            more += "" if member.auto else ", enable_auto_commit=False"
            more += "".join(TUNED[one] for one in member.tuned).replace("{c!r}", repr(client))
            topics = Subscribe(
                int(client[1:]), member.topics, member.keeps_state, member.commits_last, member.pattern
            )
            return f"{client} = use.consumer({client!r}{more})\n{topics.code()}"
        more = (
            "commit_interval_ms=0, transaction_timeout_ms=1000"
            if client[0] == "p"
            else f"commit_interval_ms=20{', commit_max_records=2' if client == 'w1' else ''}"
        )
        return f"{client} = use.producer({client!r}, {more})"
