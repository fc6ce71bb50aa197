// A virtual machine of TVM's Relax, which runs one call at a time.
#ifndef MACHINE_H_
#define MACHINE_H_

#include <string>
#include <vector>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/base.h>

#define BOOL_TYPE {kDLBool, 8, 1}
#include "checked_files.h"
#include "loader_examples.h"

namespace ffi = tvm::ffi;

// The library of a network, whose constants all machines share.
struct Weights {
  Weights(const Built& built, const std::string& function)
      : library(ffi::Module::LoadFromFile(built.Path("network.so"))), function(function) {}

  ffi::Module library;
  std::string function;
};

class Machine {
 public:
  Machine(const Weights& weights, const std::vector<Input>&)
      : machine_(weights.library->GetFunction("vm_load_executable").value()().cast<ffi::Module>()) {
    const int kPooledAllocator = 2;
    machine_->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    function_ = machine_->GetFunction(weights.function).value();
  }

  std::vector<Array> Run(const std::vector<Array>& arrays) {
    std::vector<ffi::Tensor> tensors;
    std::vector<ffi::AnyView> arguments;
    for (const Array& array : arrays) {
      FreeMemory memory{AlignedCopy(array)};
      tensors.push_back(ffi::Tensor::FromNDAlloc(memory, ffi::ShapeView(array.shape.data(), array.shape.size()),
                                                 TypeNamed(array.type).type, DLDevice{kDLCPU, 0}));
    }
    for (const ffi::Tensor& tensor : tensors) arguments.emplace_back(tensor);
    ffi::Any result;
    function_.CallPacked(ffi::PackedArgs(arguments.data(), arguments.size()), &result);
    std::vector<Array> outputs;
    Flatten(result, &outputs);
    return outputs;
  }

 private:
  struct FreeMemory {
    void* memory;
    void AllocData(DLTensor* tensor) { tensor->data = memory; }
    void FreeData(DLTensor*) { std::free(memory); }
  };

  // One tensor, or nested tuples of them.
  static void Flatten(const ffi::Any& value, std::vector<Array>* outputs) {
    if (auto tensor = value.try_cast<ffi::Tensor>()) {
      ffi::ShapeView shape = tensor->shape();
      outputs->push_back(ToArray(tensor->data_ptr(), shape.data(), shape.size(), tensor->dtype()));
      return;
    }
    for (const ffi::Any& each : value.cast<ffi::Array<ffi::Any>>()) Flatten(each, outputs);
  }

  ffi::Module machine_;
  ffi::Function function_;
};

#endif  // MACHINE_H_
