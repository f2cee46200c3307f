"""TopicProgress.overtaken against brute force: after an allowed seek no key's earlier record follows a later one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_ordered_kafka.client.partition_progress import Progress
from spark_ordered_kafka.client.progress import TopicProgress
from spark_ordered_kafka.client.topic_layouts import TopicLayouts
from spark_ordered_kafka.ordering import Layout, LayoutHistory, readable
from spark_ordered_kafka.ordering.handover import Release
from spark_ordered_kafka.ordering.linear import bucket
from spark_ordered_kafka.ordering.routing import Routing

HASHES = range(64)


@st.composite
def histories(draw: st.DrawFn) -> LayoutHistory:
    """Up to four layouts, whose segments have 0 to 3 records."""
    initial = draw(st.integers(1, 2))
    count = draw(st.integers(initial, 4))
    layouts = [Layout(0, count, [0] * count)]
    starts = [0] * count
    for epoch in range(1, draw(st.integers(1, 4))):
        for p in range(count):
            starts[p] += draw(st.integers(0, 3))
        count = draw(st.integers(initial, 6))
        starts += [0] * (count - len(starts))
        layouts.append(Layout(epoch, count, list(starts)))
    return LayoutHistory(initial, layouts)


def records(history: LayoutHistory, partition: int, start: int, end: int) -> set[tuple[int, int]]:
    """(hash, epoch) of all keys that may lie there."""
    return {
        (value, epoch)
        for epoch, _, _ in history.segments(partition, start, end)
        for value in HASHES
        if partition < history.count(epoch)
        and bucket(value, history.initial_count, history.count(epoch)) == partition
    }


@given(st.data())
def test_an_allowed_seek_reads_no_record_before_those_that_it_goes_back_to(data: st.DataObject) -> None:
    history = data.draw(histories())
    everything = range(history.partition_count)
    ends = {p: history.current.start(p) + data.draw(st.integers(0, 3)) for p in everything}
    positions = dict.fromkeys(everything, 0)
    # Read as a reader would, up to some point.
    for _ in range(data.draw(st.integers(0, 8))):
        allowed = readable(history, positions, ends)
        positions = {p: data.draw(st.integers(positions[p], allowed[p])) for p in everything}
    own = {
        p: Progress.starting(at, Release(at, history.current.epoch), history.current.epoch)
        for p, at in positions.items()
    }
    routing = Routing("murmur3", history.initial_count, history.current.count)
    layouts = TopicLayouts("t", "id", history, tuple(routing for _ in history.layouts))
    topic = TopicProgress(layouts, own, {}, 0, keeps_state=False)
    partition = data.draw(st.sampled_from(list(everything)))
    offset = data.draw(st.integers(0, ends[partition]))
    overtaken = topic.overtaken(partition, offset)

    again = records(history, partition, offset, max(offset, positions[partition]))
    stale = set()
    for q in everything:
        if q != partition:
            for epoch, start, end in history.segments(q, 0, positions[q]):
                later = {(value, epoch) for value, e in records(history, q, start, end) if e == epoch}
                if any(
                    value == other and epoch > before for value, epoch in later for other, before in again
                ):
                    stale.add(q)
    if offset < positions[partition]:
        assert stale <= overtaken.keys()
    else:
        assert overtaken == {}
    for q, back in overtaken.items():
        assert back < positions[q]
    if not overtaken:
        topic.move(partition, offset)
        topic.gate()
        for p, progress in own.items():
            assert progress.limit >= progress.position or p == partition
        return
    # The advice works: what is named goes back first, each as far as is said, until nothing is in the way.
    for _ in range(100):
        q, back = next(iter(overtaken.items()))
        deeper = topic.overtaken(q, back)
        if deeper:
            overtaken = deeper
            continue
        topic.move(q, back)
        overtaken = topic.overtaken(partition, offset)
        if not overtaken:
            return
    raise AssertionError("the advice leads nowhere")
