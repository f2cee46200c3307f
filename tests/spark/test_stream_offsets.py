"""What a micro-batch is planned from: offsets that move, and offsets that must not."""

from spark_ordered_kafka.client.topic_layouts import TopicLayouts, TopicSnapshot
from spark_ordered_kafka.kafka.clients import unknown_topic
from spark_ordered_kafka.ordering import Layout, LayoutHistory
from spark_ordered_kafka.ordering.offsets import SourceOffset, TopicOffset
from spark_ordered_kafka.ordering.routing import Routing
from spark_ordered_kafka.parsing import EARLIEST
from spark_ordered_kafka.spark.options import Bound
from spark_ordered_kafka.spark.stream import _any_start, _Reading
from spark_ordered_kafka.spark.subscription import Observation

HISTORY = LayoutHistory(1, [Layout(0, 1, (0,)), Layout(1, 2, (10, 0))])
LAYOUTS = TopicLayouts("t", "id", HISTORY, (Routing("murmur3", 1, 1), Routing("murmur3", 1, 2)))
SNAPSHOT = TopicSnapshot(LAYOUTS, log_starts={0: 0, 1: 0}, ends={0: 12, 1: 3}, leader_epochs={0: 4, 1: 5})


def reading(positions: dict[int, int], is_new: bool = False) -> _Reading:
    return _Reading(SNAPSHOT, TopicOffset.of("id", 0, positions), {0: 0, 1: 0} | positions, is_new)


def test_a_new_layout_alone_is_no_progress() -> None:
    assert reading({0: 10}).moved({0: 10, 1: 0}) == TopicOffset("id", 0, (10,))


def test_progress_takes_the_newest_epoch() -> None:
    assert reading({0: 10}).moved({0: 12, 1: 0}) == TopicOffset("id", 1, (12,), (4,))


def test_a_topic_read_for_the_first_time_is_recorded_though_nothing_moved() -> None:
    assert reading({}, is_new=True).moved({0: 0, 1: 0}) == TopicOffset("id", 1, ())


def test_ends_never_lie_behind_the_position() -> None:
    assert reading({0: 20}).ends == {0: 20, 1: 3}


def test_a_micro_batch_after_a_truncation_begins_where_the_log_was_cut() -> None:
    cut = _Reading(SNAPSHOT, TopicOffset.of("id", 1, {0: 20, 1: 3}), {0: 11, 1: 3}, is_new=False)
    assert cut.moved({0: 12, 1: 3}) == TopicOffset("id", 1, (12, 3), (4, 5), {0: 11})


def test_a_former_leader_does_not_set_the_leader_epoch_back() -> None:
    """Otherwise what was read under the later epoch would look lost."""
    offset = TopicOffset("id", 1, (20, 3), (6, 5))
    assert _Reading(SNAPSHOT, offset, {0: 20, 1: 2}, is_new=False).at({0: 20, 1: 3}).leader_epochs == (6, 5)


def test_a_topic_read_for_the_first_time_begins_where_its_log_does() -> None:
    """The offset before it has nothing of the topic, not even where its records begin."""
    new = _Reading(SNAPSHOT, TopicOffset.of("id", 0, {0: 4, 1: 0}), {0: 4, 1: 0}, is_new=True)
    moved = new.moved({0: 12, 1: 3})
    assert moved.resumed == {0: 4}
    assert moved.ranges_since(None) == [(0, 4, 12), (1, 0, 3)]


def test_the_first_micro_batch_names_its_whole_start() -> None:
    """Spark asks for the start again to replay it, and by then it may be another one: of a topic that began at 0, too."""
    first = _Reading(SNAPSHOT, TopicOffset.of("id", 1, {0: 4}), {0: 4, 1: 0}, is_new=False, is_first=True)
    moved = first.moved({0: 12, 1: 3})
    assert moved.resumed == {0: 4, 1: 0}
    for later in ({0: 9, 1: 2}, {0: 12, 1: 9}):
        assert moved.ranges_since(TopicOffset.of("id", 1, later)) == [(0, 4, 12), (1, 0, 3)]
    assert moved.ranges_since(None) == [(0, 4, 12), (1, 0, 3)]


def test_ends_of_earlier_versions_reach_as_far_as_they_did_where_their_start_is_refused_by_now() -> None:
    """They do not say where they began: at the earliest offsets, or where they end."""
    seen = Observation({"t": SNAPSHOT}, {"gone": unknown_topic("gone")})
    earlier = SourceOffset({"t": TopicOffset("id", 1, (12, 3))})
    ranges = [
        [offset.ranges_since(known) for _, offset, known in earlier.moved_since(_any_start(bound, seen))]
        for bound in (Bound("startingOffsets", EARLIEST), Bound("startingOffsets", {"t": {0: 12, 1: 3}}))
    ]
    assert ranges == [[[(0, 0, 12), (1, 0, 3)]], []]
