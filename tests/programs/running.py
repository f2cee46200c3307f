"""Runs a program on real servers, judges it, and prints it as Python code that runs by itself."""

from __future__ import annotations

import inspect
import multiprocessing
import textwrap
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from spark_ordered_kafka import OrderedProducer
from spark_ordered_kafka.errors import OrderedKafkaError
from spark_ordered_kafka.local import LocalCluster
from tests.programs import prelude
from tests.programs.books import Record
from tests.programs.judge import Judge
from tests.programs.logs import read_log
from tests.programs.restarts import Restarts
from tests.programs.steps import (
    CLOSING,
    ENDING,
    KILLING,
    OF_LAST,
    TOPICS,
    Act,
    Consume,
    Delete,
    Foreign,
    Program,
    Seek,
    Step,
    Subscribe,
)
from tests.queries import await_stable
from tests.servers import await_true

_IDLE = 60.0
"""Seconds within which a group that reads on gets its next record, on a busy machine."""
_STEADY = {
    "commit",
    "commit last",
    "commit in the background",
    "store",
    "look",
    "work for long",
    "pause",
    "resume",
    "poll",
    "init",
    "begin",
}
"""Acts that take no consumer back to what is committed."""


class BrokenPromiseError(AssertionError):
    """What a program did, what was wrong with it, and its code."""


# A member that is a process of its own then starts within some milliseconds.
multiprocessing.get_context("forkserver").set_forkserver_preload(["__main__", prelude.__name__])


class Run:
    """One run of a program, with topics and a group of its own."""

    def __init__(self, cluster: LocalCluster, program: Program) -> None:
        self.program = program
        self.lines: list[tuple[str, Exception | None]] = []
        self.judge: Judge | None = None
        self.records = self.delivered = 0
        self.seconds = 0.0
        self._cluster = cluster
        self._events: list[Callable[[Judge], None]] = []
        self._restarts = Restarts(cluster)
        self._use = prelude.Use(
            {"bootstrap.servers": cluster.bootstrap_servers, "controller.url": cluster.controller_url},
            self._tell,
            restart=self._restarts.restart,
        )
        self._fresh: dict[str, int] = {}
        self._said: list[list[str]] = [[]]
        self._open: dict[str, None] = {}
        self._elsewhere: set[int] = set()
        self._processes = 0
        self._deleted: dict[str, dict[tuple[int, int], Record]] = {}
        self.topics = {name: self._use.topic(name) for name in topics_of(program)}
        self._names: dict[str, Any] = {
            "use": self._use,
            "suppress": suppress,
            "time": time,
            "Elsewhere": prelude.Elsewhere,
            **self.topics,
        }

    def __str__(self) -> str:
        refused = sum(error is not None for _, error in self.lines)
        return (
            f"{len(self.lines)} lines, {refused} refused; {self.records} records, {self.delivered} delivered;"
            f" {self.seconds:.1f} s"
        )

    def go(self) -> list[str]:
        """Run it; the promises that it broke."""
        begun = time.monotonic()
        try:
            for step in self.program.steps:
                self._do(step)
            self._restarts.wait()
            self._close_all()
            self.judge = judge = Judge(self.program, self._logs())
            for event in self._events:
                event(judge)
            judge.finish()
            if not judge.violations:
                self._drain(judge)
            return judge.violations
        finally:
            self._abandon()
            self.seconds = time.monotonic() - begun

    # -- steps --------------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:
        if any(name not in self._open for name in step.wants) or self._is_apart(step):
            return
        if isinstance(step, Act) and step.verb in KILLING and step.member not in self._elsewhere:
            return
        for name in step.needs:
            if name not in self._open:
                self._open_client(name)
        if isinstance(step, Seek):
            fresh = self._fresh.get(f"c{step.who}", 0)
            if fresh == 0:
                return
            step = replace(step, back=min(step.back, fresh))
        if isinstance(step, Delete):
            step = self._with_offsets(step)
        if isinstance(step, Foreign) and step.ends == "leave" and self.program.restarts_servers:
            # A broker that begins may end it without markers, and it is open for ever (D-491).
            step = replace(step, ends="abort")
        if isinstance(step, Act) and step.verb in OF_LAST and not self._fresh.get(step.who):
            return
        if isinstance(step, Act) and step.verb == "work for long" and not self._is_slow(step):
            return
        if isinstance(step, Act) and step.verb == "drop" and self._is_awaited(step.who):
            return
        self._run(step)

    def _with_offsets(self, step: Delete) -> Delete:
        """The step with the offsets that it means; what is there now is kept for the judge."""
        topic = self.topics[step.topic]
        found = read_log(self._cluster, topic, decided=False)
        self._deleted.setdefault(topic, {}).update(((one.partition, one.offset), one) for one in found)
        offsets: dict[int, list[int]] = defaultdict(list)
        for one in found:
            offsets[one.partition].append(one.offset)
        before = {
            partition: min(own) + (max(own) + 1 - min(own)) * step.percent // 100
            for partition, own in offsets.items()
        }
        return replace(step, before=tuple(before.items()))

    def _is_apart(self, step: Step) -> bool:
        """Whether it needs clients of two processes."""
        members = {int(name[1:]) for name in (*step.needs, *step.wants) if name[0] in "cp"}
        return len(members) > 1 and any(self.program.members[number].elsewhere for number in members)

    def _is_slow(self, act: Act) -> bool:
        return act.member is not None and self.program.members[act.member].is_slow

    def _open_client(self, name: str) -> None:
        self._note(lambda judge: judge.opened(name))
        member = int(name[1:]) if name[0] in "cp" else None
        if member is not None and self.program.members[member].elsewhere and member not in self._elsewhere:
            self._processes += 1
            topics = "".join(f", {topic}={topic}" for topic in self.topics)
            self._exec(f"x{member} = Elsewhere(use, 'x{self._processes}.'{topics})")
            self._elsewhere.add(member)
        self._exec(self.program.opening(name), member)
        self._open[name] = None

    def _run(self, step: Step) -> None:
        self._note(lambda judge: judge.begin(step))
        about = self._about(step)
        killing = isinstance(step, Act) and step.verb in KILLING
        error = self._exec(step.code(), None if killing else step.member)
        if error is None:
            for event in about:
                self._note(event)
        self._note(lambda judge: judge.ended(error))
        if isinstance(step, Subscribe) or (isinstance(step, Act) and step.verb not in _STEADY):
            self._fresh.clear()
        if isinstance(step, Act):
            self._forget(step)

    def _about(self, step: Step) -> list[Callable[[Judge], None]]:
        """What the step does if it is not refused, as far as the judge cannot know it."""
        if isinstance(step, Seek):
            name = f"c{step.who}"
            shown = f"(lambda at: (at.topic, at.partition, at.offset))(use.last({name!r}, {step.back}))"
            topic, partition, offset = self._value(shown, step.who)
            return [lambda judge: judge.sought(name, (topic, partition), offset)]
        if isinstance(step, Delete):
            of, before = self.topics[step.topic], dict(step.before)
            return [lambda judge: judge.deleted(of, before)]
        if isinstance(step, Act) and step.verb in ("pause", "resume"):
            client = step.who
            shown = f"[(one.topic, one.partition) for one in {client}.assignment()]"
            paused = set(self._value(shown, step.member)) if step.verb == "pause" else set()
            return [lambda judge: judge.paused(client, paused)]
        return []

    def _forget(self, step: Act) -> None:
        if step.verb in KILLING:
            for name in (f"c{step.member}", f"p{step.member}"):
                self._open.pop(name, None)
            self._elsewhere.discard(int(step.who[1:]))
            return
        gone = [step.consumer] if step.verb in CLOSING else []
        gone += [step.producer] if step.verb in ENDING else []
        for name in filter(None, gone):
            self._open.pop(name, None)
            if step.member in self._elsewhere:
                continue
            awaited = self._is_awaited(name)
            dropped = weakref.ref(self._use.clients[name]) if name in self._use.clients else lambda: None
            self._names.pop(name, None)
            self._use.drop(name)
            # It would stay a member of its group otherwise.
            assert awaited or dropped() is None, f"something refers to {name} still"

    def _is_awaited(self, name: str) -> bool:
        """Whether a producer is to tell a consumer of the commit of its offsets, and so refers to it."""
        clients = self._use.clients
        producers = [client for client in clients.values() if isinstance(client, OrderedProducer)]
        return any(clients.get(name) in producer._reads.sent for producer in producers)

    def _exec(self, code: str, member: int | None = None) -> Exception | None:
        failure: Exception | None = None
        self._said.append([])
        if member in self._elsewhere:
            code = f"x{member}.run({code!r})"
        try:
            exec(code, self._names)
        except Exception as error:  # noqa: BLE001 - it is the judge's to judge
            failure = error
        self.lines.append((code, failure))
        _forget_frames(failure)
        return failure

    def _value(self, expression: str, member: int | None) -> Any:
        if member in self._elsewhere:
            return self._names[f"x{member}"].run(expression)
        return eval(expression, self._names)

    def _tell(self, client: str, what: str, about: Any) -> None:
        if what not in ("produced", "report", "wrote"):
            self._said[-1].append(f"{client} {what} {_shown(about)}")
        if what == "got":
            self._fresh[client] = self._fresh.get(client, 0) + len(about)
            self.delivered += len(about)
        elif what == "produced":
            self.records += 1
        elif what in ("revoked", "lost", "assigned"):
            self._fresh.pop(client, None)
        self._note(lambda judge: judge.told(client, what, about))

    def _note(self, event: Callable[[Judge], None]) -> None:
        if self.judge is not None:
            event(self.judge)
        else:
            self._events.append(event)

    # -- the end ------------------------------------------------------------------------------------------------

    def _close_all(self) -> None:
        # Producers first, which may be ending a transaction with a consumer's offsets.
        for name in sorted(self._open, key=lambda name: name.startswith("c")):
            self._run(Act(name, "close" if name.startswith("c") else "end"))

    def _abandon(self) -> None:
        """Nothing of this program may go on during the next one."""
        self._restarts.wait()
        for member in self._elsewhere:
            self._names[f"x{member}"].kill()
        for client in self._use.clients.values():
            with suppress(OrderedKafkaError):
                client.close()
        self._names.clear()
        self._use.clients.clear()

    def _logs(self) -> dict[str, list[Record]]:
        for topic in self.topics.values():
            # What another tool has made is read as soon as a layout covers it.
            await_true(partial(self._use.is_covered, topic), f"a layout of {topic} covers all partitions")
            # What a producer that was killed has left open hides what others have committed behind it.
            await_stable(self._cluster, topic)
        return {
            topic: read_log(self._cluster, topic, deleted=self._deleted.get(topic, {}))
            for topic in self.topics.values()
        }

    def _drain(self, judge: Judge) -> None:
        """Another member reads on: it gets what is not committed, and nothing else."""
        names = sources_of(self.program)
        topics = [self.topics[name] for name in names]
        self._note(lambda judge: judge.opened("end"))
        self._exec(
            f"end = use.consumer('end', enable_auto_commit=False)\nuse.subscribe('end', [{', '.join(names)}])"
        )
        end = self._use.clients["end"]
        last = time.monotonic()
        while (due := judge.due(topics)) and not judge.violations:
            if self._use.got("end", end.consume(1000, 0.1)):
                last = time.monotonic()
            if time.monotonic() > last + _IDLE:
                records = sorted(due)[:5]
                judge.violations.append(
                    f"{len(due)} records that are not committed never come again: {records}"
                )
                return

    # -- its code -----------------------------------------------------------------------------------------------

    def code(self) -> str:
        """The program as a file that runs by itself, on the servers of ``BOOTSTRAP_SERVERS``."""
        body = ["use = from_environment()"]
        body += [f"{name} = use.topic({name!r})" for name in self.topics]
        for (code, error), said in zip(self.lines, self._said[1:], strict=True):
            if error is None:
                body.append(code)
            else:
                body += [f"with refusals():  # {type(error).__name__}", textwrap.indent(code, "    ")]
            body += [f"# {line}" for text in said for line in textwrap.wrap(text, 105)]
        if self.judge is not None and "end" in self._opened():
            body.append('rest(use, "end")')
        found = self.judge.violations if self.judge is not None else []
        comments = [f"# {line}" for text in found for line in textwrap.wrap(text, 105)]
        main = textwrap.indent("\n".join([*body, *comments]), "    ")
        source = inspect.getsource(prelude)
        return f'{source}\n\ndef main() -> None:\n{main}\n\n\nif __name__ == "__main__":\n    main()\n'

    def _opened(self) -> set[str]:
        return {code.partition(" ")[0] for code, _ in self.lines}


def _forget_frames(failure: BaseException | None) -> None:
    """They refer to clients."""
    while failure is not None:
        inner = failure.__context__
        failure.__traceback__ = failure.__context__ = failure.__cause__ = None
        failure = inner


def _shown(about: Any) -> str:
    """Places, and with them the numbers of records."""
    found = [
        " ".join((f"{topic.rpartition('-')[0]}-{partition}", *map(str, more)))
        for topic, partition, *more in about
    ]
    return ", ".join(found) or "nothing"


def topics_of(program: Program) -> list[str]:
    """The topics that a program names, ``a`` first."""
    names = set(sources_of(program))
    for step in program.steps:
        names |= {getattr(step, "topic", "a")}
        if isinstance(step, Consume) and step.copies:
            names.add("out")
    return [name for name in TOPICS if name in names]


def sources_of(program: Program) -> list[str]:
    """The topics that members of the program may read."""
    names = {name for member in program.members for name in member.topics}
    names |= {name for step in program.steps if isinstance(step, Subscribe) for name in step.topics}
    return [name for name in TOPICS if name in names]


def check(cluster: LocalCluster, program: Program) -> Run:
    """Run the program; raises BrokenPromiseError with what it broke and its code."""
    run = Run(cluster, program)
    violations = run.go()
    if violations:
        raise BrokenPromiseError("\n".join([*violations[:5], "", run.code()]))
    return run
