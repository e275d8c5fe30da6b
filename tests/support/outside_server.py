"""Starts third-party servers, such as nginx, on a free port."""

import os
import socket
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url, process):
    """Waits until a server answers at the URL; fails if `process` is given and exits."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the server for {url} ended with {process.returncode}")
        try:
            return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5).close()
        except urllib.error.HTTPError:
            return None
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no answer from {url}")


def serve(launch, log, path="/"):
    """Starts `launch(port)` on a free port; returns its URL and process. Another process may take the port first. Then that
    process answers, the log of our server stays empty, and our server starts again on another port."""
    for attempt in range(5):
        port = free_port()
        url, question = f"http://127.0.0.1:{port}", f"{path}?is-it-you={os.getpid()}-{attempt}"
        process = launch(port)
        try:
            wait_for(url + question, process)
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline:
                if log.exists() and question in log.read_text():
                    return url, process
                time.sleep(0.01)
        except RuntimeError as error:
            print(error)
        process.kill()
        process.wait()
    raise RuntimeError("no server came to answer")
