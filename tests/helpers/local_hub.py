"""A hub on this machine: what `datasets` and `huggingface_hub` ask for, served from folders.

Every sub-folder OWNER/NAME of the root is a repository of one commit. As on the real hub, a small
file is answered where it is asked for, a Parquet file is redirected to a storage host that knows
byte ranges, and a stranger hears 401 alike of a repository that is private and of one that does
not exist.
"""

import hashlib
import json
import re
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

COMMIT = "4" * 40
TOKEN = "hf_ofAMember"
_FILE = re.compile(r"/datasets/([^/]+/[^/]+|[^/]+)/resolve/[^/]+/(.+)")
_API = re.compile(r"/api/datasets/(.+?)(?:/(revision|tree)/([^/]+)(?:/(.*))?)?")


class LocalHub(ThreadingHTTPServer):
    """The repositories below `root`.

    Attributes:
        gated: repositories that only those with `TOKEN` may read.
        failing: repositories for which the hub answers 500.
        breaks: how often the connection breaks within a stored file, by repository.
        renamed: old names, which are redirected to those of today.
        asked: the requests so far, as "METHOD path".
    """

    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.gated, self.failing = set(), set()
        self.breaks, self.renamed = Counter(), {}
        self.asked = []

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def storage(self):
        """The same server by another name, which is another host for a client."""
        return f"http://localhost:{self.server_port}/storage"

    def handle_error(self, request, client_address):
        """A client that leaves early is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalHub

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        self.server.asked.append(f"{self.command} {self.path}")
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/storage/"):
            self._stored(path.removeprefix("/storage/"))
        elif match := _FILE.fullmatch(path):
            if self._admitted(match[1]):
                self._file(*match.groups())
        elif match := _API.fullmatch(path):
            name, verb, _, below = match.groups()
            if self._admitted(name, content=verb not in (None, "revision")):
                self._api(name, verb, below)
        else:
            self._refuse(404, None, "Sorry, we can't find the page you are looking for.")

    def _admitted(self, name, *, content=True):
        shown = self.headers.get("Authorization")
        if shown not in (None, f"Bearer {TOKEN}"):
            self._refuse(401, None, "Invalid credentials in Authorization header")
        elif name in self.server.renamed:
            self._send(307, b"", {"Location": self.path.replace(name, self.server.renamed[name])})
        elif name in self.server.failing:
            self._refuse(500, None, "Internal Error - We're working hard to fix this")
        elif not (self.server.root / name).is_dir() or "/" not in name:
            self._refuse(401, None, "Invalid username or password.")
        elif content and name in self.server.gated and shown is None:
            self._refuse(401, "GatedRepo", f"Access to dataset {name} is restricted.")
        else:
            return True
        return False

    def _file(self, name, path):
        file = self.server.root / name / path
        if not file.is_file():
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        content = file.read_bytes()
        if file.suffix != ".parquet":
            self._send(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{_blob(content)}"'})
            return
        headers = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(len(content)),
            "X-Linked-ETag": f'"{_sha256(content)}"',
            "Location": f"{self.server.storage}/{name}/{path}",
        }
        self._send(302, b"", headers)

    def _stored(self, path):
        content = (self.server.root / path).read_bytes()
        headers = {"ETag": f'"{_sha256(content)}"', "Accept-Ranges": "bytes"}
        total, sent = len(content), None
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(match[1]), min(int(match[2] or total - 1), total - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{total}"
            content = content[first : last + 1]
        name = "/".join(path.split("/")[:2])
        if self.server.breaks[name] > 0:
            self.server.breaks[name] -= 1
            sent = len(content) // 2
        self._send(206 if match else 200, content, headers, sent=sent)

    def _api(self, name, verb, below):
        entries = self._entries(name)
        if verb == "tree":
            inside = [e for e in entries if e["path"].startswith(f"{below}/" if below else "")]
            if "recursive=true" not in self.path.lower():
                depth = below.count("/") + 1 if below else 0
                inside = [e for e in inside if e["path"].count("/") == depth]
            if below and not inside:
                self._refuse(404, "EntryNotFound", f"{below} does not exist")
            else:
                self._json(inside)
        else:
            files = [{"rfilename": e["path"]} for e in entries if e["type"] == "file"]
            about = {"id": name, "sha": COMMIT, "private": False, "disabled": False, "tags": []}
            gated = "manual" if name in self.server.gated else False
            self._json(about | {"gated": gated, "siblings": files})

    def _entries(self, name):
        root = self.server.root / name
        entries = []
        for path in sorted(root.rglob("*")):
            entry = {"path": path.relative_to(root).as_posix(), "type": "directory", "size": 0}
            content = b"" if path.is_dir() else path.read_bytes()
            entry["oid"] = _blob(content)
            if path.is_file():
                entry |= {"type": "file", "size": len(content)}
            if path.suffix == ".parquet":
                entry["lfs"] = {"oid": _sha256(content), "size": len(content), "pointerSize": 130}
            entries.append(entry)
        return entries

    def _json(self, content):
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status, code, message):
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _send(self, status, content, headers, sent=None):
        self.send_response(status)
        if self.headers.get("Authorization") is None:
            headers = {**headers, "X-HF-Warning": "unauthenticated; Please set a HF_TOKEN"}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])
            self.close_connection = sent is not None


@contextmanager
def serve(root):
    """A hub that answers until the block is left."""
    with LocalHub(root) as hub:
        Thread(target=hub.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield hub
        finally:
            hub.shutdown()


def put(root, name, configs, features, default=None):
    """Write a repository as the hub's own data sets are laid out: CONFIG/SPLIT-*.parquet, a card.

    `configs` holds a dict of columns for each split of each configuration; `features` says the
    type of each column as the card does, where a list names classes.
    """
    about, files = [], []
    for config, splits in configs.items():
        paths = [{"split": split, "path": f"{config}/{split}-*"} for split in splits]
        files.append({"config_name": config, "data_files": paths, "default": config == default})
        sizes = [
            {"name": split, "num_bytes": 1, "num_examples": len(next(iter(columns.values())))}
            for split, columns in splits.items()
        ]
        types = [{"name": column, "dtype": _dtype(kind)} for column, kind in features.items()]
        about.append({"config_name": config, "features": types, "splits": sizes})
        for split, columns in splits.items():
            path = root / name / config / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns), path)
    # JSON is YAML, too.
    card = f"---\ndataset_info: {json.dumps(about)}\nconfigs: {json.dumps(files)}\n---\n# {name}\n"
    (root / name / "README.md").write_text(card)


def _dtype(kind):
    if isinstance(kind, str):
        return kind
    return {"class_label": {"names": {str(i): name for i, name in enumerate(kind)}}}


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
