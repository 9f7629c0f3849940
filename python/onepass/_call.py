"""Long calls into the library, on a thread of their own: the thread that made the call stays free for
signals, so Ctrl-C is a KeyboardInterrupt at once and not after the call."""

import queue
import threading
import time
from typing import Callable, Generic, Iterator, Optional, TypeVar

T = TypeVar("T")

_PATIENCE_S = 0.02  # that a KeyboardInterrupt waits for the library to stop
_LOOK_S = 0.2       # how often a call that waits for its caller looks whether there still is one


class Call(Generic[T]):
    """Runs body(self) on a thread. What body tells comes out of events(), one at a time: body goes on
    when the caller asks for the next one. `cancel` asks the library to return from what it is in."""

    def __init__(self, body: "Callable[[Call[T]], None]", cancel: Callable[[], None]) -> None:
        self._body, self._cancel = body, cancel
        self._events: "queue.SimpleQueue[Optional[T]]" = queue.SimpleQueue()
        self._go_on = threading.Semaphore(0)
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="onepass")
        self.stopped = False

    def _run(self) -> None:
        try:
            if not self.stopped:
                self._body(self)
        except BaseException as error:  # raised again by events()
            self._error = error
        finally:
            del self._body  # it knows this call, and keeps alive what the call used
            self._events.put(None)

    def tell(self, event: T) -> bool:
        """For body. False: the call is to end."""
        self._events.put(event)
        while not self.stopped and not self._go_on.acquire(timeout=_LOOK_S):
            if not threading.main_thread().is_alive():  # the program ends with this call unfinished
                self.stopped = True
        return not self.stopped

    def events(self) -> Iterator[T]:
        """Ends with the call; raises what body raised."""
        try:
            self._thread.start()
            event = self._events.get()
            while event is not None:
                yield event
                self._go_on.release()
                event = self._events.get()
        finally:
            self.stop()
        self.finish()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback knows this frame

    def stop(self) -> None:
        """Asks the call to end and waits a moment for that."""
        self.stopped = True
        self._go_on.release()
        until = time.monotonic() + _PATIENCE_S
        while self._thread.is_alive() and time.monotonic() < until:
            self._cancel()  # again: the thread may not have been in the library yet
            self._thread.join(0.001)

    def finish(self) -> None:
        """Waits for the end of the thread; a call that nobody takes events from is stopped first."""
        if self._thread.is_alive():
            self.stop()
            self._thread.join()
