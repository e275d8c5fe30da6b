"""Starts servers of others, such as nginx, on a port that is free."""

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
    """Until anybody answers there; with a `process`, as long as that lives."""
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
    """Starts the server that `launch` makes of a port; returns its address and process. Between the look for a free port and its
    use another may take it: then that one answers, and ours, which logs nothing, gets another port."""
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
