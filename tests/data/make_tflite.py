"""Writes a TFLite file of one operator: ``python make_tflite.py FILE RELU``; for an interpreter that has ``tflite``."""

import sys
from pathlib import Path

import flatbuffers
import tflite

file, operator = sys.argv[1:]
builder = flatbuffers.Builder(1024)


def vector(start, items, *, offsets=False):
    start(builder, len(items))
    for item in reversed(items):
        (builder.PrependUOffsetTRelative if offsets else builder.PrependInt32)(item)
    return builder.EndVector()


def tensor(name):
    told = builder.CreateString(name)
    shape, signature = (
        vector(tflite.TensorStartShapeVector, [1, 4]),
        vector(tflite.TensorStartShapeSignatureVector, [-1, 4]),
    )
    tflite.TensorStart(builder)
    tflite.TensorAddName(builder, told)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddShapeSignature(builder, signature)
    tflite.TensorAddType(builder, tflite.TensorType.FLOAT32)
    return tflite.TensorEnd(builder)


tensors = vector(tflite.SubGraphStartTensorsVector, [tensor("x"), tensor("y")], offsets=True)
ends = [
    vector(start, [index])
    for start, index in ((tflite.OperatorStartInputsVector, 0), (tflite.OperatorStartOutputsVector, 1))
]
tflite.OperatorStart(builder)
tflite.OperatorAddOpcodeIndex(builder, 0)
tflite.OperatorAddInputs(builder, ends[0])
tflite.OperatorAddOutputs(builder, ends[1])
operators = vector(tflite.SubGraphStartOperatorsVector, [tflite.OperatorEnd(builder)], offsets=True)
ends = [
    vector(start, [index])
    for start, index in ((tflite.SubGraphStartInputsVector, 0), (tflite.SubGraphStartOutputsVector, 1))
]
tflite.SubGraphStart(builder)
tflite.SubGraphAddTensors(builder, tensors)
tflite.SubGraphAddInputs(builder, ends[0])
tflite.SubGraphAddOutputs(builder, ends[1])
tflite.SubGraphAddOperators(builder, operators)
graphs = vector(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(builder)], offsets=True)
code = getattr(tflite.BuiltinOperator, operator)
tflite.OperatorCodeStart(builder)
tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(code, 127))
tflite.OperatorCodeAddBuiltinCode(builder, code)
tflite.OperatorCodeAddVersion(builder, 1)
codes = vector(tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(builder)], offsets=True)
tflite.BufferStart(builder)
buffers = vector(tflite.ModelStartBuffersVector, [tflite.BufferEnd(builder)], offsets=True)
tflite.ModelStart(builder)
tflite.ModelAddVersion(builder, 3)
tflite.ModelAddOperatorCodes(builder, codes)
tflite.ModelAddSubgraphs(builder, graphs)
tflite.ModelAddBuffers(builder, buffers)
builder.Finish(tflite.ModelEnd(builder), b"TFL3")
Path(file).write_bytes(builder.Output())
