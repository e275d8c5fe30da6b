"""A web server for tests: it serves a folder with ranges and ETags, records requests, and fails on command."""

import gzip
import hashlib
import http.server
import pathlib
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        with server.lock:
            server.requests.append((self.path, self.headers.get("Range")))
            fault = server.faults.pop(0) if server.faults else server.always
            fault = server.by_path.get(self.path, fault)
        if server.redirects_to:
            return self.answer(302, b"elsewhere", {"Location": server.redirects_to + self.path})
        if fault == "delay":
            time.sleep(server.delay_s)
        if isinstance(fault, int):
            return self.answer(fault, server.words, {})
        if fault == "login":
            return self.answer(200, b"<html>please log in</html>", {})
        if fault == "reset":
            # With this option, close() sends RST at once.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close()
        file = pathlib.Path(server.folder, urllib.parse.unquote(self.path).lstrip("/"))
        if not file.is_file():
            return self.answer(404, b"not here", {})
        self.send_part(file.read_bytes(), fault)

    def send_part(self, content, fault):
        first, last = 0, len(content) - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2]), last)
        age = len(self.server.requests) if self.server.changes_etags else 0
        tag = {"ETag": '"%s-%d"' % (hashlib.md5(content).hexdigest(), age)}
        body = content[first:last + 1]
        if fault == "gzip":
            return self.answer(200, gzip.compress(content), {"Content-Encoding": "gzip", **tag})
        if not asked or self.server.ignores_ranges or fault == "unmarked":
            return self.answer(200, content, tag, fault)
        if first >= len(content):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}", **tag})
        self.answer(206, body, {"Content-Range": f"bytes {first}-{last}/{len(content)}", **tag}, fault)

    def answer(self, status, body, headers, fault=None):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if fault != "unmarked":
            self.send_header("Content-Length", str(len(body) // 2 if fault == "short" else len(body)))
        self.end_headers()
        if fault in ("truncate", "unmarked"):  # "unmarked" sends no Content-Length, as HTTP/1.0 does
            body = body[:len(body) // 2]
            self.close_connection = True
        if fault == "short":  # like a proxy that received only half of the body and announces that half
            body = body[:len(body) // 2]
        if fault == "more":
            body += b"and more than was announced"
            self.close_connection = True
        step = 1 if fault == "trickle" else 1 << 16
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            if fault in ("slow", "trickle"):
                time.sleep(self.server.delay_s)


class FaultyServer(http.server.ThreadingHTTPServer):
    """Applies one of `faults` per request; after the last one, every request gets `always` (None: no fault).

    `by_path` takes precedence over both. A fault is a status, "reset", "truncate", "unmarked", "short", "more", "delay", "slow",
    "trickle", "gzip" or "login". With a `certificate` (a PEM file that also holds its key) the server uses https."""

    daemon_threads = True

    def __init__(self, folder, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.requests, self.faults, self.always = folder, [], [], None
        self.by_path, self.words = {}, b"words of the server"
        self.delay_s, self.ignores_ranges, self.changes_etags, self.redirects_to = 0.1, False, False, None
        self.lock, self.scheme = threading.Lock(), "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return "%s://127.0.0.1:%d" % (self.scheme, self.server_address[1])

    def handle_error(self, *_):
        pass
