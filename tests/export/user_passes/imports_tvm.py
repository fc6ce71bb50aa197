import tvm

Mine = tvm.transform.PassContext
