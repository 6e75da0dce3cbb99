"""One list of work for several machines: each takes the next item when it is done with its last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from stopwav.errors import StopwavError
from stopwav.measure.launcher import launching_on
from stopwav.studies.launch.run import machine_launcher

if TYPE_CHECKING:
    from stopwav.studies.launch.machine_launcher import MachineLauncher

Item = TypeVar("Item")
Part = TypeVar("Part")


def share_out(
    items: Sequence[Item],
    first: Part,
    open_more: Callable[[], AbstractContextManager[Part]],
    take: Callable[[Part, int, Item], bool],
) -> int:
    """Have every item taken, in their order, until one is not; return how many were.

    `first` is what takes them on the machine of this context, such as loaded engines. Where the run has more machines,
    `open_more` makes the same on each of them. Only one of them runs code of the study at a time, while the others wait
    for their machines. Of an item whose machine was lost, another one takes what is left.
    """
    launcher = machine_launcher()
    sharing = _Sharing(deque(enumerate(items)), take)
    if launcher is None or launcher.machines == 1:
        sharing.work(first)
        return sharing.done
    siblings = launcher.siblings()
    threads = [Thread(target=sharing.work_on, args=(sibling, open_more), daemon=True) for sibling in siblings]
    with launcher.turns.taken():
        for thread in threads:
            thread.start()
        try:
            sharing.work(first)
        except BaseException as error:
            sharing.stop(error)
            for sibling in siblings:
                sibling.close()  # whoever waits for its answer need not any more
        with launcher.turns.given():
            for thread in threads:
                thread.join()
    if sharing.failure is not None:
        raise sharing.failure
    return sharing.done


@dataclass
class _Sharing(Generic[Item, Part]):
    """What is left to be taken, and how it goes."""

    left: deque[tuple[int, Item]]
    take: Callable[[Part, int, Item], bool]
    done: int = 0
    stopped: bool = False
    failure: BaseException | None = field(default=None)

    def stop(self, failure: BaseException | None = None) -> None:
        """Let nobody take another item."""
        self.stopped = True
        self.failure = self.failure or failure

    def is_over(self) -> bool:
        """Whether there is nothing to be taken."""
        return self.stopped or not self.left

    def work(self, part: Part) -> None:
        """Take one item after the other."""
        while not self.is_over():
            number, item = self.left.popleft()
            try:
                taken = self.take(part, number, item)
            except BaseException:
                self.left.appendleft((number, item))
                raise
            if not taken:
                self.stop()
                return
            self.done += 1

    def work_on(self, launcher: MachineLauncher, open_more: Callable[[], AbstractContextManager[Part]]) -> None:
        """Take items on another machine, and on yet another where that is lost."""
        from stopwav.studies.launch.cluster import LeaseCancelledError
        from stopwav.studies.launch.machine_launcher import MachineLostError

        launcher.cancelled = self.is_over
        with launcher.turns.taken(), launching_on(launcher):
            while not self.is_over():
                try:
                    launcher.link()
                except LeaseCancelledError:
                    return
                except StopwavError as error:  # the others do the rest
                    launcher.say(str(error))
                    return
                try:
                    with open_more() as part:
                        self.work(part)
                except MachineLostError as lost:
                    launcher.say(str(lost))
                except BaseException as error:
                    self.stop(error)
                    return
