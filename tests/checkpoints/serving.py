"""A model server in plain TensorFlow: `serving.py NAME=DIRECTORY ...`, over the REST protocol of TensorFlow Serving.

TensorFlow Serving itself is on neither PyPI nor Debian. Writes its port, and serves until its stdin ends.
"""

import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

MODELS = {name: tf.saved_model.load(path) for name, path in (argument.split("=", 1) for argument in sys.argv[1:])}


def predict(model, request):
    """`instances` are rows, answered by rows; `inputs` are columns, answered by columns."""
    signature = model.signatures[request.get("signature_name", "serving_default")]
    (name, spec), *more = signature.structured_input_signature[1].items()
    assert not more, "models of one input"
    by_rows = "instances" in request
    columns = request["instances"] if by_rows else request["inputs"]
    columns = columns[name] if isinstance(columns, dict) else columns
    found = {
        key: value.numpy().tolist() for key, value in signature(**{name: tf.constant(columns, spec.dtype)}).items()
    }
    if len(found) == 1:
        found = next(iter(found.values()))
    elif by_rows:
        found = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
    return {"predictions" if by_rows else "outputs": found}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.removeprefix("/v1/models/")
        status = [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]
        known = {"model_version_status": status} if name in MODELS else {"error": f"no model {name}"}
        self.answer(200 if name in MODELS else 404, known)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match = re.fullmatch(r"/v1/models/(\w+):predict", self.path)
        try:
            self.answer(200, predict(MODELS[match[1]], request))
        except Exception as error:
            self.answer(400, {"error": f"{type(error).__name__}: {error}"})

    def answer(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


strangers = sorted(name for name in sys.modules if name.partition(".")[0] in ("autodist", "keras"))
assert not [name for name in strangers if name.startswith("autodist")], strangers
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
assert not [name for name in sys.modules if name.partition(".")[0] == "autodist"]
