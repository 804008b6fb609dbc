"""ClickHouse's own engine, embedded by chdb, behind the part of its HTTP interface that its Python client speaks.

python served_engine.py FOLDER [USER PASSWORD]

The first line that it prints is the port on loopback. Statements, formats, errors and their numbers are the engine's;
who may ask is checked here, as an embedded engine has no users. It ends when nobody holds its standard input any more.
"""

from __future__ import annotations

import base64
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session: Session
    account = ("default", "")
    engine = threading.Lock()
    sent = 0
    """Bytes of rows that went to readers as streams, which the statement SENT tells."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        told = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        statement = "\n".join(filter(None, [told.get("query", ""), body]))
        if self._account() != self.account:
            self._refuse(403, 516, "Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")
            return
        with self.engine:
            try:
                self._answer(statement, told)
            except Exception as error:
                number = re.search(r"Code: (\d+)", str(error))
                self._refuse(404, int(number[1]) if number else 1, str(error))

    def _account(self) -> tuple[str, str]:
        written = self.headers.get("Authorization", "").removeprefix("Basic ")
        if written:
            user, _, password = base64.b64decode(written).decode().partition(":")
            return user, password
        return self.headers.get("X-ClickHouse-User", "default"), self.headers.get("X-ClickHouse-Key", "")

    def _answer(self, statement: str, told: dict[str, str]) -> None:
        database = told.get("database") or "default"
        self.session.query("USE `{}`".format(database.replace("\\", "\\\\").replace("`", "\\`")))
        bound = {name.removeprefix("param_"): value for name, value in told.items() if name.startswith("param_")}
        format = told.get("default_format", "TabSeparated")
        named = re.search(r"FORMAT\s+(\w+)\s*$", statement)
        if named:
            statement = statement[: named.start()]
            format = named[1]
        with TemporaryDirectory() as folder:
            file = Path(folder) / "answer"
            if statement.strip() == "SENT":
                file.write_text(str(Handler.sent))
            elif format in ("ArrowStream", "Parquet"):  # by way of a disk, as it may not fit into memory
                settings = ", ".join(
                    f"{name} = '{value}'" for name, value in told.items() if name.startswith("output_")
                )
                asked = f"{statement}\nINTO OUTFILE '{file}' FORMAT {format}"
                self.session.query(f"{asked} SETTINGS {settings}" if settings else asked, params=bound)
            else:
                file.write_bytes(self.session.query(statement, format, params=bound).bytes())
            with file.open("rb") as answer:
                self.send_response(200)
                self.send_header("Content-Length", str(file.stat().st_size))
                self.end_headers()
                Handler.sent += file.stat().st_size * (format == "ArrowStream")
                copyfileobj(answer, self.wfile, 1_000_000)

    def _refuse(self, status: int, number: int, words: str) -> None:
        self.send_response(status)
        self.send_header("X-ClickHouse-Exception-Code", str(number))
        self.send_header("Content-Length", str(len(words.encode())))
        self.end_headers()
        self.wfile.write(words.encode())


if __name__ == "__main__":
    Handler.session = Session(sys.argv[1])
    Handler.account = (sys.argv[2], sys.argv[3]) if sys.argv[3:] else Handler.account
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
