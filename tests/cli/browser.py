"""A headless Chromium driven over a pipe: open a file, look for errors, press keys, take pictures.

    with Browser.open() as browser:            # None where there is no Chromium
        page = browser.page(1280, 900)
        page.load("/tmp/page.html")
        assert page.errors == []
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SLOW = 90  # seconds until the browser counts as stuck


class Browser:
    """One process; commands are answered in order, events are kept by session."""

    @staticmethod
    @contextlib.contextmanager
    def open():
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            yield None
            return
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            browser = Browser(program, folder)
            try:
                yield browser
            finally:
                browser.close()

    def __init__(self, program, folder):
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()

        def use_pipes():
            # The browser reads from 3 and writes to 4.
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--force-color-profile=srgb", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=use_pipes, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self._rest = b""
        self._next = 0
        self._events = []

    def close(self):
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            self.send("Browser.close")
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _read(self, deadline):
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, session=None, **params):
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        deadline = time.monotonic() + SLOW
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer)

    def events(self, session):
        mine = [e for e in self._events if e.get("sessionId") == session]
        self._events = [e for e in self._events if e.get("sessionId") != session]
        return mine

    def page(self, width, height, dark=False):
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, width, height, dark)


class Page:
    def __init__(self, browser, session, width, height, dark):
        self._browser = browser
        self._session = session
        self.errors = []    # texts of the console's errors and of exceptions
        self.requests = []  # addresses asked for
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.send(domain + ".enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def send(self, method, **params):
        result = self._browser.send(method, self._session, **params)
        for event in self._browser.events(self._session):
            about = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                self.errors.append(str(about["args"]))
            elif event["method"] == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                self.errors.append(about["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
        return result

    def load(self, path, ready="true"):
        self.send("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + SLOW
        while not self.value(
                f"location.protocol === 'file:' && document.readyState === 'complete' && !!({ready})"):
            if time.monotonic() > deadline:
                raise TimeoutError("the page does not get ready")
            time.sleep(0.05)

    def value(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(expression + ": " + str(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key, times=1):
        text = key if len(key) == 1 else {"Enter": "\r", "Space": " "}.get(key, "")
        name = " " if key == "Space" else key
        for _ in range(times):
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=name,
                      text=text, windowsVirtualKeyCode=CODES.get(key, ord(key.upper()[0])))
            self.send("Input.dispatchKeyEvent", type="keyUp", key=name,
                      windowsVirtualKeyCode=CODES.get(key, ord(key.upper()[0])))

    def picture(self, path, full=False):
        options = {"format": "png", "captureBeyondViewport": full}
        if full:
            box = self.send("Page.getLayoutMetrics")["cssContentSize"]
            # Such a picture has no scroll bar.
            options["clip"] = {"x": 0, "y": 0, "width": self.value("innerWidth"),
                               "height": box["height"], "scale": 1}
        data = self.send("Page.captureScreenshot", **options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "End": 35, "Home": 36, "ArrowLeft": 37,
         "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "+": 187, "-": 189}
