"""A Hub of datasets on this machine: a folder of files, behind as much of the protocol as `datasets` uses."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMIT = "a" * 40


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves one dataset; `root` and `name` are set in a class of its own."""

    root: Path
    name: str
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        api, files = f"/api/datasets/{self.name}", f"/datasets/{self.name}/resolve/"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            names = [str(each.relative_to(self.root)) for each in self.root.rglob("*") if each.is_file()]
            self._json({"id": self.name, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]})
        elif path.startswith(f"{api}/tree/"):
            folder = self.root / path.removeprefix(f"{api}/tree/").partition("/")[2]
            found = folder.rglob("*") if "recursive=true" in query.lower() else folder.iterdir()
            self._json([self._entry(each) for each in sorted(found)] if folder.is_dir() else {}, folder.is_dir())
        elif path.startswith(files):
            self._file(self.root / path.removeprefix(files).partition("/")[2])
        else:
            self._json({}, found=False)

    def _entry(self, path: Path) -> dict[str, object]:
        kind = "file" if path.is_file() else "directory"
        return {"type": kind, "path": str(path.relative_to(self.root)), "size": path.stat().st_size, "oid": COMMIT}

    def _file(self, path: Path) -> None:
        if not path.is_file():
            self._json({}, found=False)
            return
        content = path.read_bytes()
        tags = {"ETag": f'"{hashlib.md5(content).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, content, **tags)
            return
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        part = content[first : last + 1]
        self._send(206, part, **{"Content-Range": f"bytes {first}-{last}/{len(content)}"}, **tags)

    def _json(self, value: object, found: bool = True) -> None:
        self._send(
            200 if found else 404, json.dumps(value).encode(), **({} if found else {"X-Error-Code": "EntryNotFound"})
        )

    def _send(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def fake_hub(root: Path, name: str) -> Iterator[str]:
    """Serve the files of a folder as the dataset of that name; yield the address of the Hub."""
    handler = type("Handler", (_Handler,), {"root": root, "name": name})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
