"""Serve an exported network over HTTP.

    DEPLOY=deploy uvicorn --app-dir examples serve_deployment:app

A request is a file of numpy (``.npz``) with the inputs by name; so is the answer, with the outputs as ``output0``, …
Needs the interpreter of the deployment with fastapi and uvicorn, and not passsearch.
"""

import asyncio
import io
import os
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response

deploy = Path(os.environ["DEPLOY"])
sys.path.insert(0, str(deploy))
import run_model  # noqa: E402

network = run_model.load(deploy / "built")
# As many threads as calls run at once. FastAPI's own threads are more, and each that calls TVM starts threads of TVM.
threads = ThreadPoolExecutor(network.machines)
app = FastAPI()


def infer(body: bytes) -> bytes:
    """Run the network on a file of inputs, and return a file of outputs."""
    with np.load(io.BytesIO(body), allow_pickle=False) as inputs:
        outputs = network(dict(inputs))
    answer = io.BytesIO()
    np.savez(answer, **{f"output{place}": output for place, output in enumerate(outputs)})
    return answer.getvalue()


@app.post("/infer")
async def answer(request: Request) -> Response:
    """Answer with the outputs; with 422 and one line for inputs that the network does not take."""
    body = await request.body()
    try:
        content = await asyncio.get_running_loop().run_in_executor(threads, infer, body)
    except run_model.InputError as error:
        raise HTTPException(422, str(error)) from None
    except (ValueError, AttributeError, OSError, EOFError, zipfile.BadZipFile):
        raise HTTPException(400, "The request is no .npz file of numpy.") from None
    return Response(content, media_type="application/octet-stream")
