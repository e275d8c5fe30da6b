"""The application of an MLflow tracking server, with a SQLite file and an artifact folder below the folder in the first argument.
Prints its port. `mlflow server` would load the same application into several processes, which takes much longer."""

import os
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1])
STORE = f"sqlite:///{FOLDER}/runs.db"
os.environ.update({
    "_MLFLOW_SERVER_FILE_STORE": STORE, "_MLFLOW_SERVER_REGISTRY_STORE": STORE, "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/", "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(FOLDER / "artifacts"),
    "MLFLOW_DISABLE_TELEMETRY": "true"})

from mlflow.server import app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
