"""Work side by side comes out in order, is taken up only shortly before, and fails where it fails."""

import threading
import time

import pytest
import torch

from levyscreen.parallel import each

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return request.param


def test_results_come_in_the_order_of_the_items(threads):
    def slow_first(x):
        time.sleep(0.05 if x == 0 else 0)
        return x * x

    assert list(each(slow_first, range(20), CPU)) == [x * x for x in range(20)]


def test_items_are_taken_shortly_before_they_are_worked_on(threads):
    taken = []

    def items():
        for x in range(50):
            taken.append(x)
            yield x

    for done, _ in enumerate(each(lambda x: x, items(), CPU), start=1):
        assert len(taken) <= done + threads + 1


def test_an_exception_comes_out_in_its_place_and_no_thread_is_left(threads):
    def failing(x):
        if x == 3:
            raise ValueError("the third")
        return x

    before, results = threading.active_count(), []
    with pytest.raises(ValueError, match="the third"):
        results.extend(each(failing, range(10), CPU))
    assert results == [0, 1, 2]
    assert threading.active_count() == before


def test_work_is_done_by_several_threads_that_do_not_split_their_operations(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    together = threading.Barrier(2, timeout=10)

    def meet(_):
        together.wait()  # passes only if two work at once
        return threading.get_ident()

    idents = set(each(meet, range(4), CPU))
    assert len(idents) == 2
    assert threading.get_ident() not in idents


def test_with_one_thread_work_is_done_by_the_caller(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert set(each(lambda _: threading.get_ident(), range(4), CPU)) == {threading.get_ident()}


def test_off_a_cpu_items_are_worked_on_one_by_one(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert set(each(lambda _: threading.get_ident(), range(4), torch.device("meta"))) == {threading.get_ident()}


def test_the_thread_that_asks_keeps_its_number_of_threads_while_those_that_work_have_one():
    before, seen = torch.get_num_threads(), set()
    try:
        torch.set_num_threads(3)
        for inside in each(lambda _: torch.get_num_threads(), range(9), CPU):
            seen.add((inside, torch.get_num_threads()))
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    assert seen == {(1, 3)}
    assert after == 3


def test_work_is_not_begun_on_more_items_than_threads_and_one_wait_for_the_reader(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    begun = []
    results = each(begun.append, range(50), CPU)
    next(results)
    time.sleep(0.2)  # time enough to work on all, if all were handed out
    assert begun == [0, 1, 2]
    results.close()


def test_a_reader_who_stops_early_leaves_no_thread_and_no_work_behind(threads):
    before, begun = threading.active_count(), []
    results = each(lambda x: begun.append(x) or x, range(50), CPU)
    assert [next(results), next(results)] == [0, 1]
    results.close()
    assert threading.active_count() == before
    assert len(begun) <= 2 + threads


def test_an_exception_of_the_items_comes_out_and_no_thread_is_left(threads):
    def items():
        yield from range(2)
        raise OSError("no more can be read")

    before = threading.active_count()
    with pytest.raises(OSError, match="no more can be read"):
        list(each(lambda x: x, items(), CPU))
    assert threading.active_count() == before


def test_without_items_there_is_nothing(threads):
    assert list(each(lambda x: x, [], CPU)) == []
