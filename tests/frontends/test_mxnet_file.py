"""Tests of MXNet's symbol and parameter files, read without MXNet."""

import json
import struct

import pytest

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import resolve

DATA = {"data": TensorType((1, 3, 8, 8), "float32")}


def variable(name, **attributes):
    return {"op": "null", "name": name, "attrs": attributes, "inputs": []}


def write_symbol(folder, *variables, name="net"):
    nodes = [*variables, {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0]]}]
    path = folder / f"{name}-symbol.json"
    path.write_text(json.dumps({"nodes": nodes}))
    return path


def write_params(path, *names, values=b"\x00" * 64):
    """Write a parameter file with one array: the names, each after its length, follow it."""
    entries = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in names)
    array = struct.pack("<IiIq3i", 0xF993FAC9, 0, 1, len(values), 1, 0, 5) + values
    path.write_bytes(struct.pack("<3Q", 0x112, 0, 1) + array + struct.pack("<Q", len(names)) + entries)


@pytest.fixture
def symbol(tmp_path):
    write_params(tmp_path / "net-0000.params", "arg:fc_weight", "aux:running_mean")
    return write_symbol(tmp_path, variable("data"), variable("fc_weight"), variable("running_mean"))


def test_an_input_of_the_user_is_used(tmp_path, symbol):
    file = resolve(symbol, inputs=DATA, folder=tmp_path / "kept")
    assert (file.path, file.format, file.name, dict(file.inputs)) == (symbol, "mxnet", "net", DATA)
    assert resolve(symbol, inputs=DATA, batch=1, folder=tmp_path).sha256 == file.sha256


def test_the_digest_includes_the_newest_parameters(tmp_path, symbol):
    first = resolve(symbol, inputs=DATA, folder=tmp_path).sha256
    write_params(tmp_path / "net-0010.params", "arg:fc_weight", "aux:running_mean", values=b"\x01" * 64)
    newest = resolve(symbol, inputs=DATA, folder=tmp_path).sha256
    write_params(tmp_path / "net-0009.params", "arg:fc_weight", "aux:running_mean", values=b"\x02" * 64)
    assert newest != first
    assert resolve(symbol, inputs=DATA, folder=tmp_path).sha256 == newest


def test_parameters_may_have_no_number(tmp_path, symbol):
    (tmp_path / "net-0000.params").rename(tmp_path / "net.params")
    assert dict(resolve(symbol, inputs=DATA, folder=tmp_path).inputs) == DATA


@pytest.mark.parametrize(
    ("inputs", "batch", "message"),
    [
        ({}, None, r"does not say the shape of `data`.* for example: --input data:float32.1,3,224,224."),
        ({"dat": DATA["data"], **DATA}, None, "Unknown input `dat`; did you mean `data`"),
        (DATA, 2, "Batch 2 does not fit"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, symbol, inputs, batch, message):
    with pytest.raises(UserError, match=message) as refusal:
        resolve(symbol, inputs=inputs, batch=batch, folder=tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_shape_in_the_symbol_is_used(tmp_path):
    write_params(tmp_path / "net-0000.params", "arg:w")
    symbol = write_symbol(tmp_path, variable("data", __shape__="(0, 4)", __dtype__="4"), variable("w"))
    assert resolve(symbol, batch=3, folder=tmp_path).to_request()["inputs"] == {"data": [[3, 4], "int32"]}
    with pytest.raises(UserError, match=r"has open dimensions; give its sizes.*--input data:int32.1,4."):
        resolve(symbol, folder=tmp_path)
    symbol = write_symbol(tmp_path, variable("data", __shape__="(2, 4)"), variable("w"))
    assert resolve(symbol, folder=tmp_path).to_request()["inputs"] == {"data": [[2, 4], "float32"]}


@pytest.mark.parametrize("shape", ["(1,x)", "5", "(1,"])
def test_a_shape_that_is_no_tuple_of_numbers_is_refused(tmp_path, shape):
    write_params(tmp_path / "net-0000.params", "arg:w")
    symbol = write_symbol(tmp_path, variable("data", __shape__=shape), variable("w"))
    with pytest.raises(UserError, match=r"declares `data` with the shape `.*`; a tuple of whole numbers is needed"):
        resolve(symbol, folder=tmp_path)


def test_a_type_that_is_open_is_float32_and_one_that_is_not_known_is_refused(tmp_path):
    write_params(tmp_path / "net-0000.params", "arg:w")
    symbol = write_symbol(tmp_path, variable("data", __shape__="(2, 4)", __dtype__="-1"), variable("w"))
    assert resolve(symbol, folder=tmp_path).to_request()["inputs"] == {"data": [[2, 4], "float32"]}
    label = variable("softmax_label", __dtype__="12")
    symbol = write_symbol(tmp_path, variable("data", __shape__="(2, 4)", __dtype__="8"), variable("w"), label)
    with pytest.raises(UserError, match=r"`data` in type number 8; known are -1, 0, .* --input data:") as refusal:
        resolve(symbol, folder=tmp_path)
    assert "\n" not in str(refusal.value)
    own = {"data": TensorType((2, 4), "int16")}
    assert dict(resolve(symbol, inputs=own, folder=tmp_path).inputs) == own


def test_a_name_is_not_mistaken_for_a_longer_one(tmp_path):
    write_params(tmp_path / "net-0000.params", "arg:data_weight", "arg:my_data", values=b"\x00" * (1 << 23))
    symbol = write_symbol(tmp_path, variable("data"), variable("data_weight"))
    assert dict(resolve(symbol, inputs=DATA, folder=tmp_path).inputs) == DATA


def test_a_label_is_an_input_only_on_request(tmp_path):
    write_params(tmp_path / "net-0000.params", "arg:w")
    symbol = write_symbol(tmp_path, variable("data"), variable("w"), variable("softmax_label"))
    assert set(resolve(symbol, inputs=DATA, folder=tmp_path).inputs) == {"data"}
    both = {**DATA, "softmax_label": TensorType((1,), "float32")}
    assert dict(resolve(symbol, inputs=both, folder=tmp_path).inputs) == both


def test_missing_empty_and_unrelated_parameters_are_refused(tmp_path, symbol):
    write_params(tmp_path / "net-0000.params", "arg:other")
    with pytest.raises(UserError, match=r"`net-0000.params` holds no parameter of `net-symbol.json`; export both"):
        resolve(symbol, inputs=DATA, folder=tmp_path)
    (tmp_path / "net-0000.params").write_bytes(b"")
    with pytest.raises(UserError, match=r"`net-0000.params` is empty"):
        resolve(symbol, inputs=DATA, folder=tmp_path)
    (tmp_path / "net-0000.params").rename(tmp_path / "nets-0000.params")
    with pytest.raises(UserError, match=r"has no parameters beside it; put `net-0000.params` or `net.params` there"):
        resolve(symbol, inputs=DATA, folder=tmp_path)


@pytest.mark.parametrize("content", [b"{broken", b"[]", b'{"nodes": [{"op": "null"}]}', b"\xff\xfe\xff"])
def test_a_file_without_a_symbol_is_refused_in_one_line(tmp_path, symbol, content):
    symbol.write_bytes(content)
    with pytest.raises(UserError, match=r"Cannot read `.*net-symbol.json` as an MXNet symbol") as refusal:
        resolve(symbol, inputs=DATA, folder=tmp_path)
    assert "\n" not in str(refusal.value)
